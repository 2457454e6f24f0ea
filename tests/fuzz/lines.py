"""Command lines over all commands: the parsers say which options there are, the pools which values.

A new command or option is fuzzed without a word here; its values are those of its name, or of
`NASTY`.
"""

import argparse
import contextlib
import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import analysis.__main__ as analysis
import sweeps.__main__ as sweeps
from pcore.cli import main as pcore
from pcore.cli.parser import COMMANDS
from pcore.config import TrialConfig, flatten
from sweeps.depth_ablation import SWEEP
from sweeps.engine.launch.cli import main as run_script
from sweeps.engine.search.rounds import main as run_search
from sweeps.packing_search import SEARCH

split = str.split
NEVER = ("", " ", "nan", "inf", "-inf", "x", "9-5")  # no number can be meant
NASTY = (
    *NEVER,
    *split("0 -1 1 2 3 1.5 -0.0 1e18 1e9 1000000000 99999999999999999999"),
    *split("1,,2 0x10 1_0 ² １２ none true 1-999999999 5-200:0 1:2:3 : 1-2-3 20-40:5 4,4"),
    *split("ünïcödé -- - %s%n {} ../.. <b> =1+1 own:Silent os:abort"),
    *("a\nb", "'; --", "a" * 5000, "\t", "\x00"),
)
PLACES = split("store empty damaged file.txt no/such ~nouser/x ftp://h/x s3:// ünïcödé .")
NAMES = split(
    "addition copy learned none lerned raises:X own:Raises own:Wrong own:Silent own:value os:abort"
)
POOLS: dict[str, Sequence[str]] = {  # good values and bad ones
    **dict.fromkeys(split("results into FROM from_results into_results a b"), PLACES),
    **dict.fromkeys(split("TASK NAME MODULE:CLASS task task.name position.encoding"), NAMES),
    **dict.fromkeys(split("out picture"), split("out/a out/a.png out /no/where/x file.txt/x")),
    "SWEEP": (
        *split("depth_ablation packing_search depth_ablatoin good.py raises.py syntax.py"),
        *split("nothing.py no.py sweeps/depth_ablation.py ../x .py /"),
    ),
    "CHECKPOINT": split("model.pt state.pt file.txt no.pt store own.pt"),
    "QUERY": (*split("1+1 12+34 1+ １+1 1+1=2 1+1+1"), "9" * 300),
    "FILE.md": split("page.md no.md file.txt store bad.md"),
    "TRIAL": split("{trial} 0 f zz * / depth_ablation/x/seed"),
    "checkpoint": split("last best oracle lost"),
    "tables": split("core cores headline depth_ablation"),
    "tracking_uri": split("sqlite:///out/m.db http://127.0.0.1:9 x://y"),
    "ray_address": split("127.0.0.1:9 x auto ray://"),
    "device": split("cpu cuda meta toaster cpu:0 cuda:99"),
    "seeds": split("2 2x2 4x2@100 0 x 2x @1 1x1x1"),
    "name": split("mine packing_search ../x"),
    "metric": split("exact_match loss los"),
    "LABEL": ("coupling*", "NoPE, 3 layers", "x"),
    "added": ("mine=NoPE, 3 layers+model.d_ff=8", "x=y+model.d_ff=8", "x=y"),
    "sets": split("optim.num_steps=2 model.num_layers=x model.dept=1 seed=1 x="),
    "axes": split("optim.num_steps=1,2 optim.num_steps=1,1 model.num_layers=0,1 x=1,2"),
}
Main = Callable[[Sequence[str]], Any]


@cache
def commands() -> list[tuple[Main, list[str], list[argparse.Action]]]:
    """Every command that there is: its program, its name, its options and arguments."""
    scripts = (lambda argv: run_script(SWEEP, argv), lambda argv: run_search(SEARCH, argv))
    found = [(main, list[str](), _actions_of(main)) for main in scripts]
    for main in (sweeps.main, analysis.main):
        (group,) = (a for a in _actions_of(main) if isinstance(a, argparse._SubParsersAction))
        found += [(main, [name], child._actions) for name, child in group.choices.items()]
    for name in COMMANDS:
        actions = _actions_of(pcore, name, *(("addition", "1+1") if name == "show" else ()))
        found.append((pcore, [name], actions))
        if name == "train":  # fields of a trial are options too
            for field, value in flatten(TrialConfig()).items():
                kind = float if type(value) in (int, float) else None
                actions.append(argparse.Action([f"--{field}"], field, type=kind))
    return found


def _actions_of(main: Main, *words: str) -> list[argparse.Action]:
    """Those of the parser that these words come to."""
    parse = patch.object(argparse.ArgumentParser, "parse_args", autospec=True)
    with parse as asked, contextlib.suppress(SystemExit):
        asked.side_effect = SystemExit
        main(words)
    return asked.call_args.args[0]._actions


def make_line(rng: random.Random, trial: str) -> tuple[Main, list[str], bool]:
    """A program, the words of a line of it, good and bad values mixed, and whether it must be
    refused: a value is one that no number can be.
    """
    main, named, actions = rng.choice(commands())
    words, options, is_bad = list(named), list[argparse.Action](), False
    for action in actions:
        if action.option_strings:
            options.append(action)
            continue
        least, most = {"*": (0, 2), "+": (1, 2), "?": (0, 1)}.get(str(action.nargs), (1, 1))
        words += [_make_value(rng, action) for _ in range(rng.randint(least, most))]
    for option in rng.sample(options, min(len(options), rng.choice((0, 1, 1, 2, 3)))):
        flag, value = option.option_strings[-1], _make_value(rng, option)
        if option.nargs == 0:
            words += [flag] if flag not in ("--help", "--version") else []
            continue
        is_bad |= value in NEVER and option.type not in (None, Path)
        words += [f"{flag}={value}"] if rng.random() < 0.5 else [flag, value]
    if rng.random() < 0.1:  # a word more or less
        place = rng.randrange(len(words) + 1)
        words[place : place + rng.randrange(2)] = [rng.choice(NASTY)] * rng.randrange(2)
        is_bad = False
    return main, [word.replace("{trial}", trial) for word in words], is_bad


def _make_value(rng: random.Random, action: argparse.Action) -> str:
    known = action.choices or POOLS.get(str(action.metavar), POOLS.get(action.dest, NASTY))
    return rng.choice(NASTY if rng.random() < 0.2 else list(known))
