"""The MLflow mirror: complete, nested, not repeated, and never in the way of a sweep."""

import time

import pytest

from sweeps.engine.launch.cli import main
from sweeps.engine.launch.launch import report_folder
from sweeps.engine.launch.tracking import Mirror, local_uri, shown_plan
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


@pytest.mark.slow
def test_the_mirror_shows_the_sweep_as_parent_and_its_trials_as_children(finished):
    from mlflow.tracking import MlflowClient

    store, plan = finished
    folder = report_folder(plan, store)
    assert Mirror(shown_plan(plan), store, local_uri(store)).close(folder) is None
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

    # Once more: nothing is written twice. After the database is deleted: everything again.
    assert Mirror(shown_plan(plan), store, local_uri(store)).close(folder) is None
    assert len(client.search_runs([experiment.experiment_id])) == len(runs)


def test_a_dead_tracking_server_neither_stops_nor_slows_a_sweep(tmp_path, capfd):
    sweep, dead = make_sweep(one={}), "http://127.0.0.1:9"
    began = time.time()
    flags = ["--scale", "smoke", "--executor", "inline", "--no-report", "--results", str(tmp_path)]
    assert main(sweep, [*flags, "--tracking-uri", dead]) == 0
    assert time.time() - began < 30
    assert [s.status for s in Store(tmp_path).shards()] == ["ok", "ok"]
    assert "MLflow mirror incomplete" in capfd.readouterr().err
