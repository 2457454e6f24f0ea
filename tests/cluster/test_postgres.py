"""The MLflow mirror on a real PostgreSQL, as `cluster/compose.yaml` runs it: password, allowed
hosts, nested runs.
"""

import secrets
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.services.servers import (
    POSTGRES,
    count_rows,
    create_database,
    free_port,
    postgres,
    tracking_server,
)
from tests.support.sweeps.commands import ROOT, environment, sweep_command

pytestmark = [
    pytest.mark.services,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),  # of mlflow's own imports
    pytest.mark.skipif(POSTGRES is None, reason="postgresql is not installed"),
]


@pytest.fixture(scope="module")
def database() -> Generator[str]:
    """The address of an empty database, password included, on a port of its own."""
    password, port = secrets.token_hex(16), free_port()
    folder = Path(tempfile.mkdtemp(prefix="pcore-pg-", dir="/tmp"))  # its user has to get there
    try:
        with postgres(folder, port, password):
            create_database(port, password, folder / "log")
            yield f"postgresql+psycopg2://mlflow:{password}@127.0.0.1:{port}/mlflow"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def server(database, tmp_path_factory) -> Generator[str]:
    """The address of an MLflow server over the database."""
    folder, port = tmp_path_factory.mktemp("mlflow"), free_port()
    hosts = ("--allowed-hosts", f"127.0.0.1:{port}")
    with tracking_server(folder, port, database, *hosts):
        yield f"http://127.0.0.1:{port}"


def test_a_sweep_is_mirrored_into_postgresql(server, database, tmp_path):
    """One parent run per sweep, one nested run per trial, with parameters, metrics and curves."""
    command = sweep_command("--executor", "inline", "--tracking-uri", server)
    done = subprocess.run(
        command, cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "mirror incomplete" not in done.stderr
    assert not (tmp_path / "mlflow.db").exists()

    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=server)
    experiments = [e for e in client.search_experiments() if e.name != "Default"]
    assert len(experiments) == 1
    runs = client.search_runs([experiments[0].experiment_id])
    children = [run for run in runs if "mlflow.parentRunId" in run.data.tags]
    parents = [run for run in runs if run not in children]
    assert (len(parents), len(children)) == (1, 12)
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parents[0].info.run_id}
    for run in children:
        assert run.info.status == "FINISHED"
        assert run.data.params["model.num_layers"] in ("1", "2", "3")
        curve = client.get_metric_history(run.info.run_id, "last/exact_match_by_length")
        assert {point.step for point in curve} == {1, 2, 3, 4, 5, 6}
    assert count_rows(database, "runs") == 13


def test_a_page_of_another_name_is_refused(server):
    """--allowed-hosts: a site that sends a browser here under its own name gets nothing."""
    request = urllib.request.Request(f"{server}/api/2.0/mlflow/experiments/search?max_results=1")
    request.add_header("Host", "evil.example.com")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=30)
    with refused.value as answer:
        assert answer.code == 403
