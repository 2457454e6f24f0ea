"""No command line and no checkpoint ends in a traceback, hangs, or is taken in silence.

The quick part runs in this process, where shapes are checked too. The long one is the command that
docs/faults.md names.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import run
from tests.fuzz.grammar import commands
from tests.fuzz.sandbox import run as answer
from tests.support.sweeps.processes import ROOT


@pytest.fixture(autouse=True)
def place(monkeypatch):
    """The fuzzers change the working folder, the path and the environment."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before, here = dict(os.environ), Path.cwd()
    yield
    os.chdir(here)
    os.environ.clear()
    os.environ.update(before)


def test_every_command_is_fuzzed():
    words = {" ".join(command.words) for command in commands()}
    assert {"plan", "run", "gc", "merge", "table", "report", "solve", "train", "show", ""} <= words
    assert sum(len(command.options) for command in commands()) > 150


def test_some_command_lines_are_answered_or_refused_in_a_sentence(tmp_path):
    tally = run.fuzz_lines(tmp_path, 120, seed=1)
    assert not tally.found, "\n".join(tally.found)
    assert tally.refused > 20
    assert tally.survived > 10


def test_some_damaged_checkpoints_are_answered_or_refused_in_a_sentence(tmp_path):
    tally = run.fuzz_checkpoints(tmp_path, 24, seed=1)
    assert not tally.found, "\n".join(tally.found)
    assert tally.refused > 10


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
    monkeypatch.setattr("tests.fuzz.sandbox.CPU_SECONDS", 0.2)
    monkeypatch.setattr("tests.fuzz.sandbox.HARMLESS", ())
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside)
    words = [word.format(elsewhere=tmp_path / "x.txt") for word in words]
    assert answer(main, words, inside).fault.startswith(fault)
    assert bool(answer(main, words, inside).fault) == bool(fault)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_thousands_of_command_lines_and_checkpoints_end_in_no_fault():
    command = [sys.executable, "-m", "tests.fuzz", "--lines", "2000", "--checkpoints", "500"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "command lines: 2000 tried" in done.stdout
    assert "checkpoints: 500 tried" in done.stdout
