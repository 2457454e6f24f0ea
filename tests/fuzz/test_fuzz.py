"""No command line, script or checkpoint ends in a traceback, hangs, or is taken in silence.

Lines run in this process, where shapes are checked too. INPUTS=2000 in the environment tries so
many of each kind.
"""

import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from pcore.cli import main as pcore
from sweeps.__main__ import main as sweeps
from tests.fuzz.files import damage_checkpoint, make_script
from tests.fuzz.lines import make_line, split
from tests.fuzz.sandbox import nothing_computes, refuses
from tests.fuzz.world import make_world

INPUTS = int(os.environ.get("INPUTS", "0"))  # for more than CI has time for
PLACES = ("PCORE_RESULTS", "RAY_ADDRESS", "MLFLOW_TRACKING_URI", "RAY_JOB_SUBMISSION_ID")


def fuzz_lines(rng: random.Random, folder: Path, trial: str) -> Iterator[bool]:
    """Random command lines over all commands."""
    main, words, is_bad = make_line(rng, trial)
    with nothing_computes():
        is_refused = refuses(main, words, folder)
    assert is_refused or not is_bad, f"accepted in silence: {words}"
    yield is_refused


def fuzz_checkpoints(rng: random.Random, folder: Path, trial: str) -> Iterator[bool]:
    """Damaged checkpoints through the commands that read them. Refused, or answered: whatever is in
    a file, its answers are those of the weights in it.
    """
    data = (folder / ("own.pt" if rng.random() < 0.05 else "model.pt")).read_bytes()
    (folder / "damaged.pt").write_bytes(damage_checkpoint(data, rng))
    yield refuses(pcore, ["solve", "damaged.pt", "1+1"], folder)
    yield refuses(pcore, split("explain damaged.pt --length 2 --examples 4"), folder)


def fuzz_scripts(rng: random.Random, folder: Path, trial: str) -> Iterator[bool]:
    """Sweep scripts: planned, or refused."""
    (folder / "fuzzed.py").write_text(make_script(rng))
    yield refuses(sweeps, split("plan fuzzed.py --scale smoke --results store"), folder)


FEW = {fuzz_lines: 120, fuzz_checkpoints: 24, fuzz_scripts: 60}


@pytest.mark.timeout(0 if INPUTS else 600)
@pytest.mark.parametrize("times", [1, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("fuzz", FEW)
def test_inputs_of_every_kind_end_in_no_fault(tmp_path: Path, monkeypatch, fuzz, times):
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.chdir(tmp_path)
    count, ended = INPUTS or times * FEW[fuzz], Counter[bool]()
    with patch.dict(os.environ):  # commands set some
        for name in PLACES:
            os.environ.pop(name, None)
        trial = make_world(tmp_path)
        for number in range(count):
            ended.update(fuzz(random.Random(number), tmp_path, trial))
    print(f"{fuzz.__name__}: {count:,} inputs, {ended[True]:,} refused, {ended[False]:,} survived")
    assert ended[True] > count / 6
    assert ended[False] > count / 12


@pytest.mark.parametrize(
    ("main", "fault"),
    [
        (lambda words: words[0], "ends in IndexError"),
        (lambda words: [0 for _ in iter(int, 1)], "ends in Hang"),
        (lambda words: print("Traceback"), "prints a traceback"),
        (lambda words: print("one\ntwo", file=sys.stderr) or 2, "says no sentence: one"),
        (lambda words: 3, "ends with 3"),
        (lambda words: Path("../x.txt").write_text("x"), "writes .*x.txt"),
    ],
)
def test_the_fuzzer_sees_every_fault(tmp_path, monkeypatch, main, fault):
    monkeypatch.setattr("tests.fuzz.sandbox.SECONDS", 0.2)
    monkeypatch.setattr("tests.fuzz.sandbox.TEMPORARY", "/dev/")
    (inside := tmp_path / "inside").mkdir()
    monkeypatch.chdir(inside)
    assert not refuses(lambda words: Path("here.txt").write_text("x"), [], inside)
    with pytest.raises(AssertionError, match=fault):
        refuses(main, [], inside)
