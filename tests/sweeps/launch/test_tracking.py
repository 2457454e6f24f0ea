"""The MLflow mirror: complete, nested, not repeated, and never in the way of a sweep."""

import json
import shutil
import sqlite3
import threading
import time
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import pytest

from sweeps.__main__ import main as command
from sweeps.engine.launch.cli import main
from sweeps.engine.launch.mirror import process
from sweeps.engine.launch.mirror.process import Mirror
from sweeps.engine.launch.mirror.target import PATIENCE, find_target, sqlite_uri
from sweeps.engine.launch.mirror.tracking import connect
from sweeps.engine.store.store import Store
from sweeps.engine.trial import running
from sweeps.engine.trial.processes import this_process
from tests.support.sweeps.tiny import make_sweep, run

pytestmark = pytest.mark.filterwarnings("ignore")  # of mlflow's own imports
VIEW = ("tiny", "smoke")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished sweep with its report, and a database that shows nothing yet: making one takes
    long.
    """
    results = tmp_path_factory.mktemp("finished")
    assert run(make_sweep(), results, report=True) == 0
    connect(find_target(Store(results), None))
    return results


@pytest.fixture
def store(finished, tmp_path):
    """A copy of it, in a folder whose name means something in an address."""
    return Store(shutil.copytree(finished, tmp_path / "50%? of#it"))


def mirror(store: Store, uri: str | None = None) -> Mirror:
    """Bring MLflow to what the store holds."""
    done = Mirror(find_target(store, uri), [VIEW])
    done.update()
    return done


def client_of(store: Store):
    from mlflow.tracking import MlflowClient

    return MlflowClient(tracking_uri=find_target(store, None).uri)


def runs_of(store: Store, title: str = "tiny [smoke]"):
    """(the runs of trials by name, the run of the sweep)."""
    client = client_of(store)
    found = client.search_runs([client.get_experiment_by_name(title).experiment_id])
    children = [run for run in found if "pcore.trial_id" in run.data.tags]
    (parent,) = [run for run in found if "pcore.trial_id" not in run.data.tags]
    assert len({run.info.run_name for run in children}) == len(children)
    return {run.info.run_name: run for run in children}, parent


def curve(store: Store, run, key: str = "loss") -> list[tuple[int, float]]:
    return [(m.step, m.value) for m in client_of(store).get_metric_history(run.info.run_id, key)]


@pytest.mark.slow
def test_the_mirror_shows_the_sweep_as_parent_and_its_trials_as_children(store, tmp_path):
    mirror(store)
    children, parent = runs_of(store)
    assert sorted(children) == [f"{c} · seed {s}" for c in ("one", "two") for s in (0, 1)]
    for one in children.values():
        assert one.data.tags["mlflow.parentRunId"] == parent.info.run_id
        (row,) = store.load([one.data.tags["pcore.trial_id"]], "trial").to_pylist()
        assert one.info.end_time - one.info.start_time == int(1000 * row["wall_seconds"])
        assert one.info.start_time == 1000 * datetime.fromisoformat(row["started_at"]).timestamp()
    assert {run.info.status for run in (*children.values(), parent)} == {"FINISHED"}
    assert parent.info.start_time == min(r.info.start_time for r in children.values())
    assert parent.info.end_time == max(r.info.end_time for r in children.values())

    child = children["two · seed 1"]
    said, differs = child.data.params, [c.data.tags["pcore.differs"] for c in children.values()]
    assert (said["model.num_layers"], said["seed"], said["data_seed"]) == ("2", "1", "1")
    assert len(said) < len(json.loads(row["config_json"])) / 2, "constants say nothing"
    assert sorted(differs) == ["base", "base", "model.num_layers=2", "model.num_layers=2"]
    rows = store.load([child.data.tags["pcore.trial_id"]]).to_pylist()
    evaluated = [row for row in rows if row["record"] == "evaluation"]
    matches = {row["length"]: row["num_correct"] / row["num_examples"] for row in evaluated}
    assert dict(curve(store, child, "last/exact_match_by_length")) == matches
    longest = max(matches)
    assert child.data.metrics[f"EM at {longest}"] == matches[longest]
    losses = [(r["step"], r["loss"]) for r in rows if r["record"] == "report"]
    assert curve(store, child) == losses

    client = client_of(store)
    shown = {file.path for file in client.list_artifacts(parent.info.run_id, "report")}
    assert {"report/table.md", "report/lengths.png"} <= shown
    note = parent.data.tags["mlflow.note.content"]
    assert note.startswith("A claim.")
    assert f"get-artifact?path=report/lengths.png&run_uuid={parent.info.run_id}" in note
    assert "| two " in note

    mirror(store)  # once more: nothing is written twice
    again, _ = runs_of(store)
    assert {r.info.run_id for r in again.values()} == {r.info.run_id for r in children.values()}
    assert curve(store, again["two · seed 1"]) == losses
    assert {path.name for path in tmp_path.iterdir()} == {store.folder.local.name}


@pytest.mark.slow
def test_a_run_is_there_while_its_trial_runs_and_never_two_for_one_trial(store, monkeypatch):
    shard = store.shards()[0]
    (row,) = store.load([shard.trial_id], "trial").to_pylist()
    data, kept = store.folder.read(shard.name), {"learning_rate": 0.1, "grad_norm": 1.0}
    store.folder.delete(shard.name)

    def begin(losses: dict[int, float], started: str, **process: str) -> None:
        """The file of an attempt at this trial that has come so far."""
        told = {
            "process": asdict(this_process()) | process,
            "launch": "x",
            "started_at": f"{started}T00:00:00+00:00",
            "config": json.loads(row["config_json"]),
            "curve": [{"step": s, "loss": v, "seconds": 1.0, **kept} for s, v in losses.items()],
        }
        store.folder.write(f"running/{shard.trial_id}.json", json.dumps(told).encode())

    def shown() -> tuple[str, str, list[tuple[int, float]]]:
        children, parent = runs_of(store)
        (one,) = [r for r in children.values() if r.data.tags["pcore.trial_id"] == shard.trial_id]
        return one.info.status, parent.info.status, sorted(curve(store, one))

    begin({10: 2.0}, "2026-01-01")
    live = mirror(Store(store.root))
    assert shown() == ("RUNNING", "RUNNING", [(10, 2.0)])
    begin({10: 2.0, 15: 1.5}, "2026-01-01")
    live.update()
    mirror(Store(store.root))  # another process that follows adds nothing
    assert shown() == ("RUNNING", "RUNNING", [(10, 2.0), (15, 1.5)])
    begin({10: 2.0, 15: 1.5}, "2026-01-01", born="long ago")  # its process is gone
    live.update()
    assert shown() == ("KILLED", "KILLED", [(10, 2.0), (15, 1.5)])
    monkeypatch.setattr(running, "PATIENCE", 0.0)
    begin({10: 2.0}, "2026-01-01", place="elsewhere")  # silent: after a while it is dead
    once = mirror(Store(store.root))
    assert shown()[0] == "RUNNING"
    once.settle()
    assert shown()[0] == "KILLED"
    monkeypatch.setattr(once, "update", None)
    once.settle()  # has waited
    begin({10: 2.0}, "2026-01-02")  # the next attempt takes the place of the run
    live.update()
    assert shown() == ("RUNNING", "RUNNING", [(10, 2.0)])
    store.folder.delete(f"running/{shard.trial_id}.json")
    store.folder.write(shard.name, data)
    live.update()
    children, parent = runs_of(store)
    assert len(children) == 4
    assert {run.info.status for run in (*children.values(), parent)} == {"FINISHED"}


@pytest.mark.slow
def test_moved_and_copied_results_are_mirrored_anew_and_the_old_place_is_left_alone(
    store, tmp_path
):
    mirror(store)
    old = {path: path.stat().st_mtime_ns for path in store.folder.local.rglob("*")}
    copied = Store(shutil.copytree(store.folder.local, tmp_path / "copied"))
    mirror(copied)
    assert {path: path.stat().st_mtime_ns for path in store.folder.local.rglob("*")} == old
    _, parent = runs_of(copied)
    assert parent.info.artifact_uri.startswith((tmp_path / "copied").as_uri())
    shared = shutil.copyfile(copied.folder.local / "mlflow.db", tmp_path / "shared.db")
    stores = (copied, store, copied)
    one, other, same = [mirror(s, sqlite_uri(shared)).experiments["tiny-smoke"] for s in stores]
    assert len(one._runs()) == len(other._runs()) == 5
    assert one.parent == same.parent != other.parent
    moved = Store(Path(shutil.move(copied.root, tmp_path / "moved")))
    mirror(moved)
    assert not (tmp_path / "copied").exists()
    assert len(runs_of(moved)[0]) == 4


@pytest.mark.slow
def test_a_broken_database_is_made_anew_and_one_of_others_is_left_alone(store, capsys):
    (database,) = [find_target(store, None).database]
    assert database is not None
    database.write_bytes(b"not a database " * 100)
    assert command(["mirror", "--results", store.root]) == 0
    assert len(runs_of(store)[0]) == 4
    assert len(list(store.folder.local.glob("mlflow.db.broken-*"))) == 1
    capsys.readouterr()
    database.unlink()
    with sqlite3.connect(database) as other:
        other.execute("CREATE TABLE recipes (name TEXT)")
    before = database.read_bytes()
    assert command(["mirror", "--results", store.root]) == 1
    assert "mlflow.db is a database of another program" in capsys.readouterr().out
    assert database.read_bytes() == before


@pytest.mark.slow
def test_a_file_system_without_links_and_locks_is_enough(store, monkeypatch):
    def refuse(*_, **__):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(process.fcntl, "flock", refuse)
    monkeypatch.setattr("os.link", refuse)
    mirror(store)
    assert len(runs_of(store)[0]) == 4
    assert not list(store.folder.local.glob(".*.tmp*"))


def test_a_dead_tracking_server_neither_stops_nor_slows_a_sweep(tmp_path, capfd):
    sweep, dead, results = make_sweep(one={}), "http://127.0.0.1:9", tmp_path / "my results"
    began = time.time()
    flags = ["--scale", "smoke", "--executor", "inline", "--no-report", "--results", str(results)]
    assert main(sweep, [*flags, "--tracking-uri", dead]) == 0
    assert time.time() - began < PATIENCE  # the longest that the end of a launch waits
    assert [s.status for s in Store(results).shards()] == ["ok", "ok"]
    out, err = capfd.readouterr()
    assert "MLflow mirror incomplete" in err
    assert f"`python -m sweeps mirror --results '{results}' --tracking-uri {dead}` shows" in err
    assert f"redraw: python -m analysis table tiny --scale smoke --results '{results}'" in out


def test_a_server_that_failed_is_asked_again_after_a_while_and_at_the_end(tmp_path, monkeypatch):
    tried, over = list[str](), threading.Event()

    def fail(target):
        tried.append(target.uri)
        raise OSError("no such server\nand more")

    monkeypatch.setattr(process, "connect", fail)
    threading.Timer(0.5, over.set).start()
    target = find_target(Store(tmp_path), None)
    assert process.follow(target, [VIEW], over, lambda: None) == "OSError: no such server"
    assert len(tried) == 2
