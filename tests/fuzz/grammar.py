"""Command lines over all commands: the parsers say which options there are, the pools which values.

A new command or option is fuzzed without a word here; its values are those of its name, or of
`NASTY`.
"""

import argparse
import random
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import analysis.__main__ as analysis
import sweeps.__main__ as sweeps
from pcore.cli import main as pcore
from pcore.cli.parser import COMMANDS
from pcore.config import TrialConfig, flatten
from sweeps.depth_ablation import SWEEP
from sweeps.engine.launch.cli import main as run_script
from sweeps.engine.search.rounds import main as run_search
from sweeps.lr_search import SEARCH

NUMBERS = (
    "0",
    "-1",
    "1",
    "2",
    "3",
    "1.5",
    "-0.0",
    "1e18",
    "1e9",
    "1000000000",
    "99999999999999999999",
)
NOT_NUMBERS = (
    "",
    " ",
    "nan",
    "inf",
    "-inf",
    "x",
    "1,,2",
    "0x10",
    "1_0",
    "²",
    "１２",
    "none",
    "true",
)
RANGES = ("9-5", "1-999999999", "5-200:0", "5-200:-5", "1:2:3", "-", ":", "1-2-3", "20-40:5", "4,4")
TEXTS = (
    "ünïcödé",
    "a\nb",
    "--",
    "-",
    "%s%n",
    "{}",
    "'; --",
    "../..",
    "a" * 5000,
    "\t",
    "<b>",
    "=1+1",
)
NASTY = (*NUMBERS, *NOT_NUMBERS, *RANGES, *TEXTS)
PLACES = ("store", "empty", "file.txt", "no/such", "~nouser/x", "", "ftp://h/x", "s3://", "://")
PLACES += ("\x00", "a\nb", "ünïcödé", ".", "readonly", "damaged")
BUCKETS = ("s3://no-such-bucket-of-pcore/x", "gs://no-such-bucket-of-pcore/x")
SWEEPS = ("depth_ablation", "lr_search", "depth_ablatoin", "", "good.py", "raises.py", "syntax.py")
SWEEPS += (
    "nothing.py",
    "cells.py",
    "no.py",
    "sweeps/depth_ablation.py",
    "../x",
    "a\nb",
    ".py",
    "/",
)
CODE = (
    "own:Raises",
    "own:Wrong",
    "own:Plain",
    "own:value",
    "own:missing",
    "own",
    ":",
    "own:",
    ":x",
)
CODE += (
    "os:abort",
    "no.module:X",
    "broken:X",
    "a:b:c",
    "own:Silent",
    "own:function",
    "subprocess:Popen",
)
QUERIES = (
    "1+1",
    "12+34",
    "-",
    "",
    "+",
    "1+",
    "9" * 300,
    "１+1",
    "a\nb",
    "x",
    "1+1=2",
    "1+1+1",
    "\x00",
)
FILES = ("model.pt", "state.pt", "file.txt", "no.pt", "store", "", "~nouser/m.pt", "own.pt", "\x00")
OUT = ("out/a", "out/a.png", "out", "/no/where/x", "", "x" * 300, "file.txt/x", "\x00")
POOLS: dict[str, Sequence[str]] = {
    "results": PLACES,
    "source": PLACES,
    "target": PLACES,
    "a": PLACES,
    "b": PLACES,
    "sweep": SWEEPS,
    "sweeps": SWEEPS,
    "tables": ("core", "cores", "headline", "", "depth_ablation", "\n"),
    "trial": ("0", "f", "zz", "", "{trial}", "a" * 64, "*", "\n", "/", "depth_ablation/x/seed 1"),
    "checkpoint": ("last", "best", "oracle", "lost", ""),
    "CHECKPOINT": FILES,
    "model": FILES,
    "queries": QUERIES,
    "query": QUERIES,
    "files": ("page.md", "no.md", "file.txt", "store", "", "bad.md"),
    "out": OUT,
    "picture": OUT,
    "tracking_uri": ("sqlite:///out/m.db", "http://127.0.0.1:9", "x://y", ""),
    "ray_address": ("127.0.0.1:9", "x", "auto", "ray://"),
    "device": ("cpu", "cuda", "meta", "toaster", "", "cpu:0", "cuda:99"),
    "task": ("addition", "copy", "additon", *CODE),
    "name": ("addition", "multiplication", "scratchpad", "none", "learned", "lerned", *CODE),
    "cell": ("coupling, 1 layer", "x", ""),
    "scale": ("smoke", "laptop", "paper", "smok", ""),
    "seeds": (
        "2",
        "2x2",
        "4x2@100",
        "0",
        "x",
        "2x",
        "@1",
        "1x1x1",
        "²",
        "1000000000",
        "2@1" + "0" * 30,
    ),
    "metric": CODE,
    "position.encoding": ("none", "rotary", "lerned", *CODE),
    "task.name": ("copy", "parity", "additon", *CODE),
}
NUMERIC = (int, float)


@dataclass(frozen=True, kw_only=True)
class Option:
    """An option of a command. numeric: only finite numbers can be meant."""

    flag: str
    dest: str
    takes_value: bool
    numeric: bool = False


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command, its options and its positional arguments."""

    main: Callable[[Sequence[str]], Any]
    words: tuple[str, ...]
    options: tuple[Option, ...]
    positional: tuple[tuple[str, Any], ...]  # name of a pool, nargs


@dataclass(frozen=True, kw_only=True)
class Line:
    """A command line. must_refuse: it holds a value that no number can be."""

    main: Callable[[Sequence[str]], Any]
    words: tuple[str, ...]
    must_refuse: bool


class _Seen(BaseException):
    """Carries a parser out of a command."""


@contextmanager
def _seeing():
    def see(parser: argparse.ArgumentParser, *rest: Any) -> None:
        raise _Seen(parser)

    real, argparse.ArgumentParser.parse_args = argparse.ArgumentParser.parse_args, see  # type: ignore
    try:
        yield
    finally:
        argparse.ArgumentParser.parse_args = real


def _parser_of(main: Callable[[Sequence[str]], Any], words: Sequence[str]) -> Any:
    with _seeing():
        try:
            main(words)
        except _Seen as seen:
            return seen.args[0]
    raise AssertionError(f"{words} parses nothing")


def _command(main: Callable[..., Any], words: Sequence[str], parser: Any) -> Command:
    options, positional = [], []
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction | argparse._SubParsersAction):
            continue
        if action.option_strings:
            numeric = action.type is not None and action.type.__name__ not in ("Path", "str")
            flag, takes = action.option_strings[-1], action.nargs != 0
            options.append(
                Option(flag=flag, dest=action.dest, takes_value=takes, numeric=takes and numeric)
            )
        else:
            name = action.metavar if action.metavar == "CHECKPOINT" else action.dest
            positional.append((name, action.nargs))
    return Command(
        main=main, words=tuple(words), options=tuple(options), positional=tuple(positional)
    )


def _script(argv: Sequence[str]) -> int:
    return run_script(SWEEP, argv)


def _search(argv: Sequence[str]) -> int:
    return run_search(SEARCH, argv)


def commands() -> list[Command]:
    """Every command that there is."""
    found = [_command(main, [], _parser_of(main, [])) for main in (_script, _search)]
    for main in (sweeps.main, analysis.main):
        parser = _parser_of(main, [])
        (group,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
        found += [_command(main, [name], child) for name, child in group.choices.items()]
    fields = flatten(TrialConfig())
    for name in COMMANDS:
        words = [name, "addition", "1+1"] if name == "show" else [name]
        command = _command(pcore, [name], _parser_of(pcore, words))
        if name in ("train", "show"):
            own = [f for f in fields if name == "train" or f.startswith("task.")]
            extra = [_field(f if name == "train" else f[5:], fields[f], f) for f in own]
            options = (*command.options, *extra)
            command = Command(
                main=pcore, words=(name,), options=options, positional=command.positional
            )
        found.append(command)
    return found


def _field(name: str, value: Any, dest: str) -> Option:
    numeric = type(value) in NUMERIC or dest in ("eval.test_lengths", "eval.num_examples")
    return Option(flag=f"--{name}", dest=dest, takes_value=True, numeric=numeric)


def make_line(command: Command, rng: random.Random, trial: str, remote: bool = False) -> Line:
    """A random line of a command, good and bad values mixed. remote: now and then with a bucket
    that is not there, which takes the client seconds to find out.
    """
    words, bad = list(command.words), False
    for name, nargs in command.positional:
        least, most = {"*": (0, 2), "+": (1, 2), "?": (0, 1), None: (1, 1)}.get(nargs, (1, 1))
        count = rng.randint(least, most) if rng.random() < 0.9 else rng.choice((0, 2))
        pool = POOLS.get(name, NASTY)
        words += [rng.choice(pool if rng.random() < 0.85 else NASTY) for _ in range(count)]
    if command.words[:1] == ("train",):
        words += ["--preset", "smoke"]
    for option in rng.sample(
        command.options, min(len(command.options), rng.choice((0, 1, 1, 2, 3)))
    ):
        if not option.takes_value:
            words.append(option.flag)
            continue
        pool = POOLS.get(option.dest, NASTY)
        value = rng.choice(pool if rng.random() < 0.8 else NASTY)
        never = value in ("", " ", "nan", "inf", "-inf", "x", "9-5")
        bad |= option.numeric and never
        words += [f"{option.flag}={value}"] if rng.random() < 0.5 else [option.flag, value]
        if rng.random() < 0.1:
            words += [option.flag, rng.choice(NASTY)]
            bad = False  # the last one may be meant
    if rng.random() < 0.05:
        words.insert(rng.randint(0, len(words)), rng.choice(NASTY))
        bad = False
    if remote and rng.random() < 0.01 and any(o.dest == "results" for o in command.options):
        words += ["--results", rng.choice(BUCKETS)]
    words = [word.replace("{trial}", trial) for word in words]
    if any(word in ("-h", "--help", "--version", "--") for word in words):
        bad = False
    return Line(main=command.main, words=tuple(words), must_refuse=bad)
