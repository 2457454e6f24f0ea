"""The engine, inline: what is missing runs, what is done stays, whatever ends a run."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from analysis.__main__ import main as analyse
from pcore.checkpoint import load_model
from pcore.config import override, trial_id
from sweeps.engine.options import parse_duration
from sweeps.engine.plan import make_plan
from sweeps.engine.spec import Cell, Sweep
from sweeps.engine.store.location import find_results
from sweeps.engine.store.store import Store
from sweeps.engine.trial import attempt, provenance
from sweeps.engine.trial.attempt import Settings, run_attempt
from sweeps.engine.trial.markers import MAX_LOST, record_lost
from sweeps.engine.trial.processes import this_process
from tests.support.sweeps.tiny import (
    CONFIG,
    TIMING,
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


def test_a_larger_sweep_reuses_the_trials_it_shares(tmp_path, capfd):
    assert run(make_sweep(one={}), tmp_path) == 0
    assert run(make_sweep(base={}, wide={"model.d_ff": 128}), tmp_path) == 0
    assert "4 trials, 2 finished, 2 to run" in capfd.readouterr().out
    assert len(Store(tmp_path).shards()) == 4


def test_the_plan_runs_nothing(tmp_path, capfd):
    assert run(make_sweep(), tmp_path, "--plan") == 0
    assert "4 trials, 0 finished, 4 to run" in capfd.readouterr().out
    assert not list(tmp_path.iterdir())


def test_prices_come_from_measured_rows_once_there_are_some(tmp_path):
    sweep, store = make_sweep(one={}), Store(tmp_path)
    assert run(sweep, tmp_path, "--seeds", "1") == 0
    (planned,) = make_plan(sweep, "smoke", "2", store).to_run
    assert planned.price is not None
    assert planned.price.source == "measured"
    wall = store.load(record="trial", columns=["wall_seconds"]).to_pylist()[0]["wall_seconds"]
    assert planned.price.seconds == pytest.approx(wall)


def test_divergence_is_recorded_once_and_is_final(tmp_path, capfd):
    sweep = make_sweep(wild={"optim.learning_rate": 1e3, "optim.weight_decay": 1e3})
    assert run(sweep, tmp_path) == 0
    assert "diverged: wild, seed 0" in capfd.readouterr().out
    assert [shard.status for shard in Store(tmp_path).shards()] == ["diverged"] * 2
    assert run(sweep, tmp_path) == 0
    assert len(Store(tmp_path).shards()) == 2


def test_an_error_is_a_row_with_its_text_and_the_others_go_on(tmp_path, capfd, monkeypatch):
    real = attempt.train

    def broken(config, **options):
        if config.model.num_layers == 2:
            raise RuntimeError("planted")
        return real(config, **options)

    monkeypatch.setattr(attempt, "train", broken)
    assert run(make_sweep(), tmp_path) == 1
    assert "RuntimeError: planted" in capfd.readouterr().out
    statuses = [shard.status for shard in Store(tmp_path).shards()]
    assert sorted(statuses) == ["error", "error", "ok", "ok"]
    monkeypatch.setattr(attempt, "train", real)
    assert run(make_sweep(), tmp_path) == 1
    assert "0 to run, 2 not run again after an error" in capfd.readouterr().out
    assert run(make_sweep(), tmp_path, "--retry-errors") == 0
    assert "4 trials, 2 finished, 2 to run" in capfd.readouterr().out


def test_out_of_memory_has_its_own_status(tmp_path, monkeypatch):
    def starved(config, **options):
        raise torch.OutOfMemoryError("planted")

    monkeypatch.setattr(attempt, "train", starved)
    Store(tmp_path).prepare()
    assert run_attempt(CONFIG, Settings(results=str(tmp_path))).status == "oom"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_trial_continues_exactly(tmp_path, number):
    """A run that ends after every report has the rows of a whole one."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    config = override(CONFIG, {"optim.num_steps": 170})
    for folder in (whole, cut):
        Store(folder).prepare()
    assert run_attempt(config, Settings(results=str(whole))).status == "ok"
    evaluated = len(Store(whole).load(record="evaluation"))
    for _ in range(4 + evaluated):  # after each report, each length too
        with pytest.raises(KeyboardInterrupt):
            interrupt_attempt(config, cut, number)
    assert run_attempt(config, Settings(results=str(cut))).status == "ok"

    def rows(folder):
        table = Store(folder).load().drop_columns(["seconds", *TIMING])
        return table.to_pylist()

    assert rows(cut) == rows(whole)
    weights = [
        load_model(f / "checkpoints" / trial_id(config) / "last.pt")[0] for f in (whole, cut)
    ]
    for a, b in zip(weights[0].parameters(), weights[1].parameters(), strict=True):
        assert torch.equal(a, b)


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


def test_a_trial_that_takes_its_workers_with_it_is_given_up_for_this_launch(tmp_path):
    store = Store(tmp_path)
    store.prepare()
    child = subprocess.Popen(["true"])
    child.wait()
    dead = this_process().as_dict() | {"pid": child.pid, "born": "0"}
    marker = tmp_path / "running" / f"{trial_id(CONFIG)}.json"
    marker.parent.mkdir()
    for count in range(1, MAX_LOST + 1):
        owner = {"process": dead, "launch": "first", "started_at": "2026-01-01"}
        marker.write_text(json.dumps(owner))
        assert record_lost(store, CONFIG, "first") == count
        assert not marker.exists()
    assert [shard.status for shard in store.shards()] == ["lost"] * MAX_LOST
    outcome = run_attempt(CONFIG, Settings(results=str(tmp_path), launch="first"))
    assert outcome.status == "lost"
    assert "its worker died 3 times" in outcome.error
    (planned,) = make_plan(make_sweep(one={}), "smoke", "1", store).trials
    assert planned.state == "retry"
    outcome = run_attempt(CONFIG, Settings(results=str(tmp_path), launch="second"))
    assert outcome.status == "ok"


@pytest.mark.slow
def test_killed_at_any_moment_nothing_is_lost_and_nothing_repeated(tmp_path, capfd):
    """SIGKILL at growing delays, then one run to the end: each trial has exactly one ok shard."""
    code = (
        "import sys, tests.support.sweeps.tiny as t\nsys.exit(t.run(t.make_sweep(), sys.argv[1]))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "killed")]
    finished: set[str] = set()
    for delay in (2.5, 3.0, 3.5):
        child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        time.sleep(delay)
        child.send_signal(signal.SIGKILL)
        child.wait()
        ok = {s.name for s in Store(tmp_path / "killed").shards() if s.status == "ok"}
        assert finished <= ok
        finished = ok
    assert run(make_sweep(), tmp_path / "killed", report=True) == 0
    killed = capfd.readouterr().out
    shards = [s for s in Store(tmp_path / "killed").shards() if s.status == "ok"]
    assert finished <= {shard.name for shard in shards}
    assert len(shards) == len({shard.trial_id for shard in shards}) == 4
    assert run(make_sweep(), tmp_path / "whole", report=True) == 0
    whole = capfd.readouterr().out
    title = "A tiny sweep ("
    assert _table(killed, title) == _table(whole, title)


def _table(output: str, title: str) -> str:
    """The printed table without its footnotes on code and machine."""
    return output[output.rindex(title) :].split("Code:")[0]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--seeds", "0"), "--seeds '0'"),
        (("--device", "tpu"), "neither cpu nor cuda"),
        (("--results", "/proc/nowhere"), "cannot be written"),
    ],
)
def test_bad_options_are_refused_in_a_sentence(tmp_path, capfd, flags, message):
    assert run(make_sweep(), tmp_path, *flags) == 2
    captured = capfd.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert not Store(tmp_path).shards()


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


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("20m", 1200), ("3h", 10800)]
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


def test_cells_are_refused_before_anything_is_written(tmp_path, capfd):
    bad = Cell(label="bad", config=override(CONFIG, {"position.max_position": 4}))
    sweep = make_sweep()
    sweep = Sweep(name="tiny", title="t", claim="c", cells=lambda scale: [bad], seeds=sweep.seeds)
    assert run(sweep, tmp_path / "new") == 2
    assert (
        "cell 'bad': position.max_position=4 is below 5, which addition at length 3"
        in capfd.readouterr().err
    )
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(("commit", "told"), [(None, True), ("abc", False)])
def test_a_launch_without_git_asks_for_the_commit_that_its_rows_will_name(
    tmp_path, capsys, monkeypatch, commit, told
):
    monkeypatch.setattr(provenance, "_git_state", lambda: (None, None))
    monkeypatch.delenv("PCORE_GIT_COMMIT", raising=False)
    if commit:
        monkeypatch.setenv("PCORE_GIT_COMMIT", commit)
    provenance.code_provenance.cache_clear()
    try:
        assert run(make_sweep(one={}), tmp_path, "--scale", "laptop", "--seeds", "1") == 0
    finally:
        provenance.code_provenance.cache_clear()
    assert ("set PCORE_GIT_COMMIT" in capsys.readouterr().out) == told
    (row,) = Store(tmp_path).load(record="trial").to_pylist()
    assert (row["git_commit"], row["git_dirty"]) == (commit, None)
