"""Stored trials run again: the same bits here, a verdict where not, the store as it was."""

import shutil
from copy import deepcopy
from pathlib import Path

import pytest

from sweeps.__main__ import main
from sweeps.commands import replicate as command
from sweeps.commands.replicate import judge, spread
from sweeps.engine.store.store import Store
from tests.support.sweeps.tiny import make_sweep, run


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    assert run(make_sweep(), folder / "results") == 0
    return folder


@pytest.fixture
def stored(finished, tmp_path) -> Path:
    return shutil.copytree(finished, tmp_path, dirs_exist_ok=True)


def replicate(folder: Path, *flags: str) -> int:
    command = ["replicate", "tiny", "--scale", "smoke"]
    command += ["--results", str(folder / "results"), "--into", str(folder / "again"), *flags]
    return main(command)


def contents(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_rerun_on_one_machine_is_identical_and_leaves_the_store_alone(
    stored, capsys, monkeypatch
):
    before = contents(stored / "results")
    assert replicate(stored, "--trials", "3") == 0
    printed = capsys.readouterr().out
    assert "rerunning 3 of 4 trials" in printed
    assert "3 of 3 identical: every count and loss as stored" in printed
    assert contents(stored / "results") == before
    rows = Store(str(stored / "again")).load(record="trial").to_pylist()
    assert len(rows) == 3
    assert all(row["cpu_model"] and row["cpu_capability"] for row in rows), "rows say which CPU"
    assert rows[0]["cpu_model"] in printed
    assert replicate(stored, "--trials", "4", "--seed", "1", "--cpus-per-trial", "2") == 0
    rows = Store(str(stored / "again")).load(record="trial").to_pylist()
    assert sorted(row["num_threads"] for row in rows) == [1, 1, 1, 2], "none twice"
    assert capsys.readouterr().out.count(", 2 threads\n") == 1
    monkeypatch.setattr(command, "is_same_code", lambda code: False)
    assert replicate(stored, "--trials", "1") == 2
    assert "by other code: name another --into" in capsys.readouterr().err


def test_a_stored_row_that_no_rerun_gives_is_found(stored, capsys, monkeypatch):
    """All rows of the store say that everything was right."""
    load = command.load_runs

    def planted(store, trials):
        runs = load(store, trials)
        for row in (row for one in runs.values() for row in one["lengths"].values()):
            if store.root == str(stored / "results"):
                row["num_correct"] = row["num_examples"]
        return runs

    monkeypatch.setattr(command, "load_runs", planted)
    assert replicate(stored, "--trials", "1") == 1
    assert "1 of 1 beyond the spread" in capsys.readouterr().out


def make_run(*right: int) -> dict:
    counts = {"num_examples": 100, "num_correct_tokens": 9, "loss_sum": 1.0}
    return {
        ("test", length, None): {**counts, "num_correct": n, "test_set": f"set {length}"}
        for length, n in enumerate(right)
    }


def test_verdicts():
    seeds = [make_run(90, 50), make_run(80, 20), make_run(85, 40)]
    assert spread(seeds, ("test", 1, None)) == pytest.approx(0.3)
    assert judge(seeds[0], deepcopy(seeds[0]), seeds) == "identical"
    assert judge(seeds[0], make_run(80, 30), seeds) == "within the spread"
    assert judge(seeds[0], make_run(90, 19), seeds) == "beyond the spread"
    assert judge(seeds[0], make_run(79, 50), seeds) == "beyond the spread"
    assert judge(seeds[0], make_run(90), seeds) == "not comparable"
    assert judge(seeds[0], make_run(90, 49), seeds[:1]) == "not comparable", "no other seed"
    other = deepcopy(seeds[0])
    other["test", 1, None]["test_set"] = "another"
    assert judge(seeds[0], other, seeds) == "not comparable"
    rounded = deepcopy(seeds[0])
    rounded["test", 1, None]["loss_sum"] = 1.0001
    assert judge(seeds[0], rounded, seeds) == "within the spread", "not the same bits"


def test_a_store_is_no_place_for_its_own_reruns(finished, capsys, monkeypatch):
    monkeypatch.chdir(finished)
    assert replicate(finished, "--into", "results") == 2
    assert "is the store itself: name another folder" in capsys.readouterr().err
