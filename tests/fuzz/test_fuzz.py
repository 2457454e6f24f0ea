"""No command line, script, checkpoint or state ends in a traceback, hangs, or is taken in silence.

Lines run in this process, where shapes are checked too. INPUTS=2000 in the environment tries so
many of each kind, with buckets that are not there among them.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from pcore.checkpoint import unpack_state
from pcore.cli import main as pcore
from pcore.config import TrialConfig, override
from sweeps.__main__ import main as sweeps
from tests.fuzz.checkpoints import damaged, damaged_states
from tests.fuzz.lines import commands, lines
from tests.fuzz.sandbox import nothing_computes, run
from tests.fuzz.scripts import scripts
from tests.fuzz.world import enter_world, make_world
from tests.support.tiny_config import TINY

INPUTS = int(os.environ.get("INPUTS", "0"))  # for more than CI has time for


@pytest.fixture
def trial(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """The id of a trial in the store of a folder full of good and bad files, which is entered."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before, here = dict(os.environ), Path.cwd()
    torch.set_num_threads(1)
    name = make_world(tmp_path)
    enter_world(tmp_path)
    yield name
    os.chdir(here)
    os.environ.clear()
    os.environ.update(before)


def tries(count: int) -> settings:
    """The same examples in every run, of which none is kept."""
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def fuzz_lines(folder: Path, trial: str, count: int) -> Counter[str]:
    """Random command lines over all commands; how many were refused, and how many survived."""
    ended, known = Counter[str](), commands()

    @tries(count)
    @given(lines(known, trial, remote=bool(INPUTS)))
    def check(line):
        command, words, is_bad = line
        code, fault = run(command.main, words, folder)
        assert not fault, words
        assert code == 2 or not is_bad, f"accepted in silence: {words}"
        ended["refused" if code == 2 else "survived"] += 1

    with nothing_computes():
        check()
    return ended


def fuzz_checkpoints(folder: Path, trial: str, count: int) -> Counter[str]:
    """Damaged checkpoints through the commands that read them. Refused, or answered: whatever is in
    a file, its answers are those of the weights in it.
    """
    ended, file = Counter[str](), folder / "damaged.pt"
    good = [(folder / name).read_bytes() for name in ("model.pt", "own.pt")]

    @tries(count)
    @given(damaged(*good))
    def check(data):
        file.write_bytes(data)
        for words in (["solve", "damaged.pt", "1+1"], ["explain", "damaged.pt", "--length", "2"]):
            code, fault = run(pcore, [*words, *["--examples", "4"] * (words[0] != "solve")], folder)
            assert not fault, fault
            ended["refused" if code == 2 else "survived"] += 1

    check()
    return ended


def fuzz_scripts(folder: Path, trial: str, count: int) -> Counter[str]:
    """Sweep scripts: planned, or refused."""
    ended, words = Counter[str](), ["plan", "fuzzed.py", "--scale", "smoke", "--results", "store"]

    @tries(count)
    @given(scripts())
    def check(text):
        (folder / "fuzzed.py").write_text(text)
        code, fault = run(sweeps, words, folder)
        assert not fault, fault
        ended["refused" if code == 2 else "survived"] += 1

    with nothing_computes():
        check()
    return ended


def fuzz_states(folder: Path, trial: str, count: int) -> Counter[str]:
    """Whatever is not a state of the trial byte for byte is no state of it."""
    config, whole = override(TrialConfig(), TINY), (folder / "state.pt").read_bytes()
    ended = Counter[str]()
    assert unpack_state(whole, config) is not None

    @tries(count)
    @given(damaged_states(whole))
    def check(data):
        is_state = unpack_state(data, config) is not None
        assert is_state == (data == whole)
        ended["survived" if is_state else "refused"] += 1

    check()
    return ended


FEW = {fuzz_lines: 120, fuzz_checkpoints: 24, fuzz_scripts: 60, fuzz_states: 100}


def test_every_command_is_fuzzed():
    words = {" ".join(command.words) for command in commands()}
    assert {"plan", "run", "gc", "merge", "table", "report", "solve", "train", "show", ""} <= words
    assert sum(len(command.options) for command in commands()) > 150


@pytest.mark.timeout(0 if INPUTS else 600)
@pytest.mark.parametrize("times", [1, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("fuzz", FEW)
def test_inputs_of_every_kind_end_in_no_fault(tmp_path: Path, trial: str, fuzz, times):
    count = INPUTS or times * FEW[fuzz]
    ended = fuzz(tmp_path, trial, count)
    print(f"{fuzz.__name__}: {count:,} inputs, {dict(ended)}")
    assert ended["refused"] > count / 6
    assert ended["survived"] > count / 12 or fuzz is fuzz_states


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
