"""The MLflow mirror: complete, nested, not repeated, and never in the way of a sweep."""

import json
import queue
import threading
import time
from dataclasses import replace
from datetime import datetime

import pytest

from pcore.config import flatten
from sweeps.engine.launch.cli import main
from sweeps.engine.launch.launch import report_folder
from sweeps.engine.launch.mirror.hook import PATIENCE
from sweeps.engine.launch.mirror.process import Follower, Mirrored
from sweeps.engine.launch.mirror.target import Target, find_target, local_uri, shown_plan
from sweeps.engine.plan import make_plan
from sweeps.engine.store.store import Store
from tests.support.sweeps.tiny import make_sweep, run

pytestmark = pytest.mark.filterwarnings("ignore")  # of mlflow's own imports


@pytest.fixture
def finished(tmp_path):
    """A store with a finished sweep, and its plan."""
    assert run(make_sweep(), tmp_path, report=True) == 0
    store = Store(tmp_path)
    return store, make_plan(make_sweep(), "smoke", None, store, priced=False)


def mirror(store, plan, uri=None):
    """Bring MLflow to what the store holds."""
    folder = report_folder(plan, store)
    Mirrored(find_target(store, uri), [shown_plan(plan)]).complete([folder], live=False)


@pytest.mark.slow
def test_the_mirror_shows_the_sweep_as_parent_and_its_trials_as_children(finished):
    from mlflow.tracking import MlflowClient

    store, plan = finished
    mirror(store, plan)
    client = MlflowClient(tracking_uri=local_uri(store))
    experiment = client.get_experiment_by_name("tiny [smoke]")
    runs = client.search_runs([experiment.experiment_id])
    parents = [r for r in runs if "mlflow.parentRunId" not in r.data.tags]
    children = [r for r in runs if "mlflow.parentRunId" in r.data.tags]
    assert len(parents) == 1
    assert {r.data.tags["mlflow.parentRunId"] for r in children} == {parents[0].info.run_id}
    names = sorted(r.info.run_name for r in children)
    assert names == ["one · seed 0", "one · seed 1", "two · seed 0", "two · seed 1"]
    assert {r.info.status for r in runs} == {"FINISHED"}
    artifacts = {a.path for a in client.list_artifacts(parents[0].info.run_id, "report")}
    assert {"report/table.md", "report/lengths.png"} <= artifacts
    child = next(r for r in children if r.info.run_name == "two · seed 1")
    assert child.data.params["model.num_layers"] == "2"
    rows = store.load([child.data.tags["pcore.trial_id"]]).to_pylist()
    history = client.get_metric_history(child.info.run_id, "last/exact_match_by_length")
    assert {(m.step, m.value) for m in history} == {
        (r["length"], r["num_correct"] / r["num_examples"])
        for r in rows
        if r["record"] == "evaluation"
    }
    losses = client.get_metric_history(child.info.run_id, "loss")
    assert [(m.step, m.value) for m in losses] == [
        (r["step"], r["loss"]) for r in rows if r["record"] == "report"
    ]

    # A run lasts as long as its trial, the sweep from its first trial to its last.
    for r in children:
        (row,) = store.load([r.data.tags["pcore.trial_id"]], "trial").to_pylist()
        assert r.info.end_time - r.info.start_time == int(1000 * row["wall_seconds"])
        assert r.info.start_time == 1000 * datetime.fromisoformat(row["started_at"]).timestamp()
    assert parents[0].info.start_time == min(r.info.start_time for r in children)
    assert parents[0].info.end_time == max(r.info.end_time for r in children)
    median = client.get_metric_history(parents[0].info.run_id, "median exact match/two")
    assert [m.step for m in median] == sorted({r["length"] for r in rows if r["length"]})

    # Once more: nothing is written twice.
    mirror(store, plan)
    assert len(client.search_runs([experiment.experiment_id])) == len(runs)


def test_a_dead_tracking_server_neither_stops_nor_slows_a_sweep(tmp_path, capfd):
    sweep, dead = make_sweep(one={}), "http://127.0.0.1:9"
    began = time.time()
    flags = ["--scale", "smoke", "--executor", "inline", "--no-report", "--results", str(tmp_path)]
    assert main(sweep, [*flags, "--tracking-uri", dead]) == 0
    assert time.time() - began < PATIENCE  # the longest that the end of a launch waits
    assert [s.status for s in Store(tmp_path).shards()] == ["ok", "ok"]
    assert "MLflow mirror incomplete" in capfd.readouterr().err


class Driver:
    """A launch, as the mirror's process hears of it."""

    def __init__(self, target: Target, plan, search: bool = False):
        self.events: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.follower, self.answers = Follower(target, [shown_plan(plan, search)]), list[str]()
        self.thread = threading.Thread(target=self._follow)
        self.thread.start()

    def _follow(self) -> None:
        self.answers.append(self.follower.follow(self.events))

    def tell(self, **event) -> None:
        self.events.put(json.dumps({"time": int(1000 * time.time()), **event}))

    def die(self) -> None:
        self.events.put(None)
        self.thread.join()

    def close(self, folder) -> str:
        self.tell(close=[str(folder)], labels=[{}])
        self.thread.join()
        return self.answers[0]


def active(uri):
    """(name, status, losses by step) of the runs of trials that MLflow shows."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("tiny [smoke]")
    return [
        (
            run.info.run_name,
            run.info.status,
            [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, "loss")],
        )
        for run in (client.search_runs([experiment.experiment_id]) if experiment else [])
        if "pcore.trial_id" in run.data.tags
    ]


def wait_for(condition) -> None:
    deadline = time.time() + 60
    while not condition():
        assert time.time() < deadline
        time.sleep(0.1)


@pytest.mark.slow
def test_a_run_is_there_while_its_trial_runs_and_never_two_for_one_trial(finished, tmp_path):
    store, plan = finished
    target = find_target(store, f"sqlite:///{tmp_path / 'other' / 'mlflow.db'}")
    trial = plan.trials[0].trial
    start = {"start": trial.id, "config": flatten(trial.config)}
    points = [["loss", 2.0, 10], ["learning_rate", 0.1, 10], ["grad_norm", 1.0, 10]]
    rows = store.load([trial.id], "report").to_pylist()
    true = [(row["step"], row["loss"]) for row in rows]

    first = Driver(target, plan)
    first.tell(**start)
    first.tell(report=trial.id, points=points)
    wait_for(lambda: active(target.uri) == [("one · seed 0", "RUNNING", [(10, 2.0)])])
    first.die()
    assert active(target.uri) == [("one · seed 0", "KILLED", [(10, 2.0)])]

    second = Driver(target, plan)  # goes on from step 15: what was seen before stays
    second.tell(**start)
    second.tell(report=trial.id, points=[["loss", 1.5, 15]])
    shown = [("one · seed 0", "RUNNING", [(10, 2.0), (15, 1.5)])]
    wait_for(lambda: [(n, s, sorted(c)) for n, s, c in active(target.uri)] == shown)
    second.tell(finish=trial.id, status="ok")
    assert second.close(report_folder(plan, store)) == ""
    runs = {name: (status, curve) for name, status, curve in active(target.uri)}
    assert len(runs) == len(active(target.uri)) == 4
    assert {status for status, _ in runs.values()} == {"FINISHED"}
    assert set(true) <= set(runs["one · seed 0"][1])
    assert runs["one · seed 1"][1] == [
        (row["step"], row["loss"])
        for row in store.load([plan.trials[1].trial.id], "report").to_pylist()
    ]


@pytest.mark.slow
def test_a_search_shows_trials_that_it_did_not_know_when_it_began(finished, tmp_path):
    store, plan = finished
    target = find_target(store, f"sqlite:///{tmp_path / 'other' / 'mlflow.db'}")
    driver = Driver(target, replace(plan, trials=()), search=True)
    first, second, *_ = (planned.trial for planned in plan.trials)
    driver.tell(start=first.id, config=flatten(first.config), label="one, rate 0.1")
    driver.tell(report=first.id, points=[["loss", 2.0, 10]])
    wait_for(lambda: active(target.uri) == [("one, rate 0.1 · seed 0", "RUNNING", [(10, 2.0)])])
    driver.tell(finish=first.id, status="ok")
    driver.tell(close=[str(tmp_path)], labels=[{second.id: "stored before"}])
    driver.thread.join()
    shown = {(name, status) for name, status, _ in active(target.uri)}
    names = ("one, rate 0.1 · seed 0", "stored before · seed 1")
    assert shown == {(name, "FINISHED") for name in names}


@pytest.mark.slow
def test_a_server_that_comes_back_is_caught_up_with(finished, tmp_path, monkeypatch):
    from sweeps.engine.launch.mirror import process

    store, plan = finished
    target = find_target(store, f"sqlite:///{tmp_path / 'other' / 'mlflow.db'}")
    trial, connect = plan.trials[0].trial, process.connect
    tried: list[str] = []

    def fail(uri: str):
        tried.append(uri)
        raise OSError("no such server\nand more")

    monkeypatch.setattr(process, "connect", fail)
    driver = Driver(target, plan)
    for _ in range(5):
        driver.tell(start=trial.id, config=flatten(trial.config))
    wait_for(lambda: tried and driver.events.empty())
    assert driver.follower.problem == "OSError: no such server"
    assert len(tried) == 1  # it is not asked again for a while
    monkeypatch.setattr(process, "connect", connect)
    assert driver.close(report_folder(plan, store)) == ""
    assert [status for _, status, _ in active(target.uri)] == ["FINISHED"] * 4
