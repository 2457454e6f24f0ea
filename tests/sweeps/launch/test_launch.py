"""The engine, inline: what is missing runs, what is done stays, whatever ends a run."""

import signal
import subprocess
from pathlib import Path

import pytest
import torch

from analysis.__main__ import main as analyse
from pcore.checkpoint import load_model
from pcore.config import override, trial_id
from sweeps.engine.store.location import find_results
from sweeps.engine.store.store import Store
from sweeps.engine.trial import attempt, provenance
from sweeps.engine.trial.attempt import Attempt, Settings, run_attempt
from tests.support.sweeps.processes import rows
from tests.support.sweeps.tiny import (
    CONFIG,
    attempt_telling,
    interrupt_attempt,
    make_sweep,
    run,
)

ROOT = Path(__file__).parents[3]


def test_a_second_run_starts_nothing_and_prints_the_same_table(tmp_path, capfd, monkeypatch):
    draw_in_this_process(monkeypatch)
    assert run(make_sweep(), tmp_path, report=True) == 0
    first = capfd.readouterr().out
    shards = {shard.name for shard in Store(tmp_path).shards()}
    assert len(shards) == 4
    monkeypatch.setattr(attempt, "train", lambda *a, **k: pytest.fail("a trial was started"))
    assert run(make_sweep(), tmp_path, report=True) == 0
    second = capfd.readouterr().out
    assert {shard.name for shard in Store(tmp_path).shards()} == shards
    assert "4 trials, 4 finished, 0 to run" in second
    assert first[first.index("A tiny sweep (") :].split("\nwritten")[0] in second


def draw_in_this_process(monkeypatch) -> None:
    """The report of a launch, without the seconds that a new process takes to import."""
    real = subprocess.run

    def run_here(command, **options):
        if command[1:3] != ["-m", "analysis"]:
            return real(command, **options)
        return subprocess.CompletedProcess(command, analyse(command[3:]))

    monkeypatch.setattr(subprocess, "run", run_here)


def test_an_interrupted_trial_continues_exactly(tmp_path):
    """A run that ends after every report, by one signal or the other, has the rows of a whole
    one.
    """
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    config = override(CONFIG, {"optim.num_steps": 170})
    for folder in (whole, cut):
        Store(folder).folder.check_writable()
    assert run_attempt(config, Settings(results=str(whole))).status == "ok"
    evaluated = len(Store(whole).load(record="evaluation"))
    for i in range(4 + evaluated):  # after each report, each length too
        with pytest.raises(KeyboardInterrupt):
            interrupt_attempt(config, cut, (signal.SIGTERM, signal.SIGINT)[i % 2])
    assert run_attempt(config, Settings(results=str(cut))).status == "ok"
    assert rows(cut) == rows(whole)
    weights = [
        load_model(f / "checkpoints" / trial_id(config) / "last.pt")[0] for f in (whole, cut)
    ]
    for a, b in zip(weights[0].parameters(), weights[1].parameters(), strict=True):
        assert torch.equal(a, b)


def test_other_code_starts_an_interrupted_trial_anew(tmp_path, monkeypatch):
    config = override(CONFIG, {"optim.num_steps": 170})
    with pytest.raises(KeyboardInterrupt):
        interrupt_attempt(config, tmp_path)
    attempt = Attempt(config, Settings(results=str(tmp_path)), Store(tmp_path))
    assert attempt.resume() is not None
    monkeypatch.setattr("sweeps.engine.trial.attempt.hash_sources", lambda: "a2:000000000000")
    assert attempt.resume() is None


def test_a_second_interrupt_ends_at_once_and_one_at_the_end_begins_no_other_trial(tmp_path):
    def twice(report):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    def at_the_end(report):
        if report.finished:
            signal.raise_signal(signal.SIGINT)

    settings, handler = Settings(results=str(tmp_path)), signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        attempt_telling(CONFIG, tmp_path, twice)
    assert not list(tmp_path.rglob("state.pt"))
    with pytest.raises(KeyboardInterrupt):
        attempt_telling(CONFIG, tmp_path, at_the_end)
    assert run_attempt(CONFIG, settings).status == "done"
    assert signal.getsignal(signal.SIGINT) is handler


def test_results_of_a_ray_job_do_not_land_in_its_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("PCORE_RESULTS", raising=False)
    monkeypatch.chdir(tmp_path)
    assert find_results(None) == str(tmp_path / "results")
    monkeypatch.setenv("PCORE_RESULTS", "/data/x")
    assert find_results(None) == "/data/x"
    assert find_results("y") == str(tmp_path / "y")
    monkeypatch.delenv("PCORE_RESULTS")
    folder = tmp_path / "runtime_resources" / "working_dir_files" / "_ray_pkg_1"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    assert find_results(None) == str(Path.home() / "pcore-results")


def test_nothing_is_trained_into_published_rows(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "published" / "laptop"
    assert run(make_sweep(one={}), folder) == 0
    for words in (["init", "-q"], ["add", "published"]):
        subprocess.run(["git", "-C", tmp_path, *words], check=True)
    before = sorted(path.name for path in folder.rglob("*"))
    capsys.readouterr()
    assert run(make_sweep(one={}), folder) == 0  # nothing to train
    assert run(make_sweep(), folder) == 2
    assert f"python -m sweeps merge {folder} results" in capsys.readouterr().err
    assert sorted(path.name for path in folder.rglob("*")) == before


def test_a_launch_without_git_asks_for_the_commit_that_its_rows_will_name(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(provenance, "_git_state", lambda: (None, None))
    monkeypatch.delenv("PCORE_GIT_COMMIT", raising=False)
    provenance.code_provenance.cache_clear()
    try:
        assert run(make_sweep(one={}), tmp_path, "--scale", "laptop", "--seeds", "1") == 0
    finally:
        provenance.code_provenance.cache_clear()
    assert "set PCORE_GIT_COMMIT" in capsys.readouterr().out
    (row,) = Store(tmp_path).load(record="trial").to_pylist()
    assert (row["git_commit"], row["git_dirty"]) == (None, None)
