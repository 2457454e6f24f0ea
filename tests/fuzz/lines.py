"""Command lines over all commands: the parsers say which options there are, the pools which values.

A new command or option is fuzzed without a word here; its values are those of its name, or of
`NASTY`.
"""

import argparse
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st

import analysis.__main__ as analysis
import sweeps.__main__ as sweeps
from pcore.cli import main as pcore
from pcore.cli.parser import COMMANDS
from pcore.config import TrialConfig, flatten
from sweeps.depth_ablation import SWEEP
from sweeps.engine.launch.cli import main as run_script
from sweeps.engine.search.rounds import main as run_search
from sweeps.packing_search import SEARCH
from tests.fuzz.checkpoints import SEEDS

split = str.split
NEVER = ("", " ", "nan", "inf", "-inf", "x", "9-5")  # no number can be meant
NASTY = (
    *NEVER,
    *split("0 -1 1 2 3 1.5 -0.0 1e18 1e9 1000000000 99999999999999999999"),
    *split("1,,2 0x10 1_0 ² １２ none true"),
    *split("1-999999999 5-200:0 5-200:-5 1:2:3 : 1-2-3 20-40:5 4,4"),
    *split("ünïcödé -- - %s%n {} ../.. <b> =1+1"),
    *("a\nb", "'; --", "a" * 5000, "\t"),
)
PLACES = (
    *split("store empty file.txt no/such ~nouser/x ftp://h/x s3:// :// ünïcödé . readonly"),
    *("damaged", "", "\x00", "a\nb"),
)
BUCKETS = ("s3://no-such-bucket-of-pcore/x", "gs://no-such-bucket-of-pcore/x")
SWEEPS = (
    *split("depth_ablation packing_search depth_ablatoin good.py raises.py syntax.py nothing.py"),
    *split("cells.py no.py sweeps/depth_ablation.py ../x .py /"),
    *("", "a\nb"),
)
CODE = (
    *split("own:Raises own:Wrong own:Plain own:value own:missing own : own: :x os:abort"),
    *split("no.module:X broken:X a:b:c own:Silent own:function subprocess:Popen"),
)
QUERIES = (*split("1+1 12+34 - + 1+ １+1 x 1+1=2 1+1+1"), "", "9" * 300, "a\nb", "\x00")
FILES = (*split("model.pt state.pt file.txt no.pt store ~nouser/m.pt own.pt"), "", "\x00")
OUT = ("out/a", "out/a.png", "out", "/no/where/x", "", "x" * 300, "file.txt/x", "\x00")
POOLS: dict[str, Sequence[str]] = {
    **dict.fromkeys(("results", "source", "target", "a", "b"), PLACES),
    **dict.fromkeys(("sweep", "sweeps"), SWEEPS),
    **dict.fromkeys(("CHECKPOINT", "model"), FILES),
    **dict.fromkeys(("queries", "query"), QUERIES),
    **dict.fromkeys(("out", "picture"), OUT),
    "tables": ("core", "cores", "headline", "", "depth_ablation", "\n"),
    "trial": ("0", "f", "zz", "", "{trial}", "a" * 64, "*", "\n", "/", "depth_ablation/x/seed 1"),
    "checkpoint": ("last", "best", "oracle", "lost", ""),
    "files": ("page.md", "no.md", "file.txt", "store", "", "bad.md"),
    "tracking_uri": ("sqlite:///out/m.db", "http://127.0.0.1:9", "x://y", ""),
    "ray_address": ("127.0.0.1:9", "x", "auto", "ray://"),
    "device": ("cpu", "cuda", "meta", "toaster", "", "cpu:0", "cuda:99"),
    "task": ("addition", "copy", "additon", *CODE),
    "name": ("addition", "multiplication", "none", "learned", "lerned", *CODE),
    "cell": ("coupling, 1 layer", "x", ""),
    "scale": ("smoke", "laptop", "paper", "smok", ""),
    "seeds": (*split("2 2x2 4x2@100 0 x 2x @1 1x1x1 ² 1000000000"), "2@1" + "0" * 30),
    "metric": ("loss", "los", ""),
    "position.encoding": ("none", "rotary", "lerned", *CODE),
    "task.name": ("copy", "parity", "additon", *CODE),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A command, its options and its positional arguments, as its parser has them."""

    main: Callable[[Sequence[str]], Any]
    words: tuple[str, ...]
    options: list[argparse.Action]
    positional: list[argparse.Action]


def commands() -> list[Command]:
    """Every command that there is."""
    scripts = (lambda argv: run_script(SWEEP, argv), lambda argv: run_search(SEARCH, argv))
    found = [_command(main, [], _parser_of(main, [])) for main in scripts]
    for main in (sweeps.main, analysis.main):
        actions = _parser_of(main, [])._actions
        (group,) = (a for a in actions if isinstance(a, argparse._SubParsersAction))
        found += [_command(main, [name], child) for name, child in group.choices.items()]
    for name in COMMANDS:
        words = [name, "addition", "1+1"] if name == "show" else [name]
        found.append(_command(pcore, [name], _parser_of(pcore, words)))
    return found


class _Seen(BaseException):
    """Carries a parser out of a command."""


def _parser_of(main: Callable[[Sequence[str]], Any], words: Sequence[str]) -> Any:
    def see(parser: argparse.ArgumentParser, *_: Any) -> None:
        raise _Seen(parser)

    with patch.object(argparse.ArgumentParser, "parse_args", see):
        try:
            main(words)
        except _Seen as seen:
            return seen.args[0]
    raise AssertionError(f"{words} parses nothing")


def _command(main: Callable[..., Any], words: Sequence[str], parser: Any) -> Command:
    actions = [a for a in parser._actions if not isinstance(a, _WITHOUT_VALUES)]
    if main is pcore and words[0] in ("train", "show"):  # fields of a trial are options too
        start = "" if words[0] == "train" else "task."
        for name, value in flatten(TrialConfig()).items():
            is_numeric = type(value) in (int, float) or name == "eval.test_lengths"
            if name.startswith(start):
                flag, kind = f"--{name.removeprefix(start)}", float if is_numeric else str
                actions.append(argparse.Action([flag], name, type=kind))
    return Command(
        main=main,
        words=tuple(words),
        options=[action for action in actions if action.option_strings],
        positional=[action for action in actions if not action.option_strings],
    )


_WITHOUT_VALUES = argparse._HelpAction | argparse._SubParsersAction


def _is_numeric(option: argparse.Action) -> bool:
    """Only finite numbers can be meant."""
    return getattr(option.type, "__name__", "str") not in ("Path", "str")


@st.composite
def lines(
    draw: st.DrawFn, known: Sequence[Command], trial: str, remote: bool = False
) -> tuple[Command, list[str], bool]:
    """A command, the words of a line of it, good and bad values mixed, and whether it must be
    refused: a value is one that no number can be. remote: now and then with a bucket that is not
    there, which takes the client seconds to find out.
    """
    rng, command = random.Random(draw(SEEDS)), draw(st.sampled_from(known))
    words, is_bad = list(command.words), False
    for action in command.positional:
        least, most = {"*": (0, 2), "+": (1, 2), "?": (0, 1)}.get(action.nargs, (1, 1))
        count = rng.randint(least, most) if rng.random() < 0.9 else rng.choice((0, 2))
        pool = POOLS.get(action.metavar, POOLS.get(action.dest, NASTY))
        words += [rng.choice(pool if rng.random() < 0.85 else NASTY) for _ in range(count)]
    most = min(len(command.options), rng.choice((0, 1, 1, 2, 3)))
    for option in rng.sample(command.options, most):
        flag = option.option_strings[-1]
        if option.nargs == 0:
            words.append(flag)
            continue
        value = rng.choice(POOLS.get(option.dest, NASTY) if rng.random() < 0.8 else NASTY)
        is_bad |= _is_numeric(option) and value in NEVER
        words += [f"{flag}={value}"] if rng.random() < 0.5 else [flag, value]
        if rng.random() < 0.1:
            words += [flag, rng.choice(NASTY)]
            is_bad = False  # the last one may be meant
    if rng.random() < 0.05:
        words.insert(rng.randint(0, len(words)), rng.choice(NASTY))
        is_bad = False
    if remote and rng.random() < 0.01 and any(o.dest == "results" for o in command.options):
        words += ["--results", rng.choice(BUCKETS)]
    if any(word in ("-h", "--help", "--version", "--") for word in words):
        is_bad = False
    return command, [word.replace("{trial}", trial) for word in words], is_bad
