"""The MLflow mirror on a real PostgreSQL, as `cluster/compose.yaml` runs it: password, allowed
hosts, nested runs.
"""

import contextlib
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from tests.sweeps.launch.test_ray import ROOT, environment, sweep_command


def _find_server() -> Path | None:
    """Folder of PostgreSQL's programs; Debian keeps them off the PATH."""
    if found := shutil.which("initdb"):
        return Path(found).parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return folders[-1].parent if folders else None


SERVER = _find_server()
pytestmark = [
    pytest.mark.services,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),  # of mlflow's own imports
    pytest.mark.skipif(SERVER is None, reason="postgresql is not installed"),
]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def process(command: Sequence[str], log: Path, **options) -> Generator[subprocess.Popen]:
    """A server and its children, ended by the number of their group."""
    with log.open("wb") as out:
        server = subprocess.Popen(
            command, stdout=out, stderr=out, start_new_session=True, **options
        )
    try:
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, 15)
        server.wait(timeout=60)


def user_for_postgres() -> dict[str, int | list[int]]:
    """PostgreSQL refuses to run as root: then as the user that its package made."""
    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam("postgres")
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


@pytest.fixture(scope="module")
def database() -> Generator[str]:
    """The address of an empty database, password included, on a port of its own."""
    user, password, port = user_for_postgres(), secrets.token_hex(16), free_port()
    folder = Path(tempfile.mkdtemp(prefix="pcore-pg-", dir="/tmp"))
    try:
        (folder / "password").write_text(password)
        if user:
            for path in (folder, folder / "password"):
                os.chown(path, int(user["user"]), int(user["group"]))
        init = [SERVER / "initdb", "--pgdata", folder / "data", "--username", "mlflow"]
        init += ["--auth", "scram-sha-256", "--pwfile", folder / "password"]
        done = subprocess.run(init, cwd=folder, capture_output=True, text=True, **user)
        assert done.returncode == 0, done.stderr
        run = [SERVER / "postgres", "-D", folder / "data", "-p", str(port), "-k", folder]
        run += ["-c", "listen_addresses=127.0.0.1"]
        with process(run, folder / "log", cwd=folder, **user):
            _create_database(port, password, folder / "log")
            yield f"postgresql+psycopg2://mlflow:{password}@127.0.0.1:{port}/mlflow"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _create_database(port: int, password: str, log: Path) -> None:
    import psycopg2

    deadline = time.time() + 60
    where = {"host": "127.0.0.1", "port": port, "user": "mlflow", "dbname": "postgres"}
    while True:
        try:
            connection = psycopg2.connect(**where, password=password)
            break
        except psycopg2.OperationalError:
            assert time.time() < deadline, log.read_text()
            time.sleep(0.2)
    connection.autocommit = True
    connection.cursor().execute("CREATE DATABASE mlflow")
    connection.close()


@pytest.fixture(scope="module")
def server(database, tmp_path_factory) -> Generator[str]:
    """The address of an MLflow server over the database."""
    folder, port = tmp_path_factory.mktemp("mlflow"), free_port()
    variables = environment(folder, MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false")
    variables |= {"MLFLOW_BACKEND_STORE_URI": database, "DO_NOT_TRACK": "true"}
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--workers", "1", "--allowed-hosts", f"127.0.0.1:{port}"]
    command += ["--artifacts-destination", str(folder / "artifacts")]
    address = f"http://127.0.0.1:{port}"
    with process(command, folder / "log", cwd=folder, env=variables) as running:
        deadline = time.time() + 240
        while True:
            try:
                with urllib.request.urlopen(f"{address}/health", timeout=5):
                    break
            except OSError:
                late = time.time() > deadline or running.poll() is not None
                assert not late, (folder / "log").read_text()
                time.sleep(0.5)
        yield address


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
    assert _count_rows(database, "runs") == 13


def _count_rows(database: str, table: str) -> int:
    import psycopg2

    connection = psycopg2.connect(database.replace("+psycopg2", ""))
    cursor = connection.cursor()
    cursor.execute(f"SELECT count(*) FROM {table}")
    (number,) = cursor.fetchone()
    connection.close()
    return number


def test_a_page_of_another_name_is_refused(server):
    """--allowed-hosts: a site that sends a browser here under its own name gets nothing."""
    request = urllib.request.Request(f"{server}/api/2.0/mlflow/experiments/search?max_results=1")
    request.add_header("Host", "evil.example.com")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=30)
    with refused.value as answer:
        assert answer.code == 403
