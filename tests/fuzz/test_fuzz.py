"""No command line, script, checkpoint or state ends in a traceback, hangs, or is taken in silence.

Lines run in this process, where shapes are checked too. INPUTS=2000 in the environment tries so
many of each kind, with buckets that are not there among them.
"""

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pcore.checkpoint import unpack_state
from pcore.cli import main as pcore
from pcore.config import TrialConfig, override
from sweeps.__main__ import main as sweeps
from tests.fuzz.checkpoints import CHANGES, damaged, save_again
from tests.fuzz.lines import Command, commands, lines, split
from tests.fuzz.sandbox import nothing_computes, run
from tests.fuzz.scripts import scripts
from tests.fuzz.world import make_world
from tests.support.tiny_config import TINY

INPUTS = int(os.environ.get("INPUTS", "0"))  # for more than CI has time for
PLACES = ("PCORE_RESULTS", "RAY_ADDRESS", "MLFLOW_TRACKING_URI", "RAY_JOB_SUBMISSION_ID")


@pytest.fixture
def trial(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """The id of a trial in the store of a folder full of good and bad files, which is entered."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.chdir(tmp_path)
    with patch.dict(os.environ):  # commands set some
        for name in PLACES:
            os.environ.pop(name, None)
        yield make_world(tmp_path)


Checked = tuple[st.SearchStrategy, Callable[[Any], Iterator[bool]]]


def fuzz_lines(folder: Path, trial: str) -> Checked:
    """Random command lines over all commands."""

    def check(line: tuple[Command, list[str], bool]) -> Iterator[bool]:
        command, words, is_bad = line
        is_refused = refuses(command.main, words, folder)
        assert is_refused or not is_bad, f"accepted in silence: {words}"
        yield is_refused

    return lines(commands(), trial, remote=bool(INPUTS)), check


def fuzz_checkpoints(folder: Path, trial: str) -> Checked:
    """Damaged checkpoints through the commands that read them. Refused, or answered: whatever is in
    a file, its answers are those of the weights in it.
    """

    def check(data: bytes) -> Iterator[bool]:
        (folder / "damaged.pt").write_bytes(data)
        yield refuses(pcore, ["solve", "damaged.pt", "1+1"], folder)
        yield refuses(pcore, split("explain damaged.pt --length 2 --examples 4"), folder)

    files = ((folder / name).read_bytes() for name in ("model.pt", "own.pt"))
    return damaged(CHANGES, *files), check


def fuzz_scripts(folder: Path, trial: str) -> Checked:
    """Sweep scripts: planned, or refused."""

    def check(text: str) -> Iterator[bool]:
        (folder / "fuzzed.py").write_text(text)
        yield refuses(sweeps, split("plan fuzzed.py --scale smoke --results store"), folder)

    return scripts(), check


def fuzz_states(folder: Path, trial: str) -> Checked:
    """Whatever is not a state of the trial byte for byte is no state of it."""
    config, whole = override(TrialConfig(), TINY), (folder / "state.pt").read_bytes()
    assert unpack_state(whole, config) is not None

    def check(data: bytes) -> Iterator[bool]:
        is_state = unpack_state(data, config) is not None
        assert is_state == (data == whole)
        yield not is_state

    return damaged([save_again], whole, whole), check


def refuses(main: Callable[[Sequence[str]], Any], words: Sequence[str], folder: Path) -> bool:
    """Whether a command line is refused, as it should be if it is."""
    code, fault = run(main, words, folder)
    assert not fault, (words, fault)
    return code == 2


FEW = {fuzz_lines: 120, fuzz_checkpoints: 24, fuzz_scripts: 60, fuzz_states: 100}


def test_every_command_is_fuzzed():
    words = {" ".join(command.words) for command in commands()}
    assert {"plan", "run", "gc", "merge", "table", "report", "solve", "train", "show", ""} <= words
    assert sum(len(command.options) for command in commands()) > 150


@pytest.mark.timeout(0 if INPUTS else 600)
@pytest.mark.parametrize("times", [1, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("fuzz", FEW)
def test_inputs_of_every_kind_end_in_no_fault(tmp_path: Path, trial: str, fuzz, times):
    count, ended = INPUTS or times * FEW[fuzz], Counter[bool]()
    inputs, check = fuzz(tmp_path, trial)

    @settings(
        max_examples=count,
        deadline=None,
        derandomize=True,  # the same examples in every run, of which none is kept
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(inputs)
    def try_one(example):
        ended.update(check(example))

    with contextlib.nullcontext() if fuzz is fuzz_checkpoints else nothing_computes():
        try_one()
    print(f"{fuzz.__name__}: {count:,} inputs, {ended[True]:,} refused, {ended[False]:,} survived")
    assert ended[True] > count / 6
    assert ended[False] > count / 12 or fuzz is fuzz_states


def _raise(words):
    raise KeyError(words)


def _loop(words):
    while True:
        pass


def _write(words):
    Path(words[0]).write_text("x")
    return 0


def _chat(words):
    print("one\ntwo", file=sys.stderr)
    return 2


@pytest.mark.parametrize(
    ("main", "words", "fault"),
    [
        (_raise, ["x"], "traceback"),
        (_loop, [], "hang"),
        (_write, ["{elsewhere}"], "writes"),
        (_write, ["here.txt"], ""),
        (_chat, [], "2 lines instead of a sentence"),
        (lambda words: 3, [], "exit code 3"),
    ],
)
def test_the_fuzzer_sees_every_fault(tmp_path, monkeypatch, main, words, fault):
    monkeypatch.setattr("tests.fuzz.sandbox.SECONDS", 0.2)
    monkeypatch.setattr("tests.fuzz.sandbox.HARMLESS", ())
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside)
    words = [word.format(elsewhere=tmp_path / "x.txt") for word in words]
    _, found = run(main, words, inside)
    assert found.startswith(fault)
    assert bool(found) == bool(fault)
