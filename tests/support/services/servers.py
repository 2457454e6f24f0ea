"""Real servers on loopback for tests: PostgreSQL and MLflow's tracking server."""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Generator, Sequence
from pathlib import Path

import sqlalchemy

from tests.support.sweeps.processes import PYTHON, environment, wait_until


def _find_postgres() -> Path | None:
    """Folder of PostgreSQL's programs; Debian keeps them off the PATH."""
    if found := shutil.which("initdb"):
        return Path(found).parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return folders[-1].parent if folders else None


POSTGRES = _find_postgres()


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, all different."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


@contextlib.contextmanager
def serve(command: Sequence[str], log: Path, **options) -> Generator[subprocess.Popen]:
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


def _user_for_postgres() -> dict[str, int | list[int]]:
    """PostgreSQL refuses to run as root: then as the user that its package made."""
    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam("postgres")
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def create_database(port: int, password: str, log: Path) -> None:
    """An empty database "mlflow", as soon as the server answers."""
    address = f"postgresql+psycopg2://mlflow:{password}@127.0.0.1:{port}/postgres"

    def is_created() -> bool:
        with contextlib.suppress(sqlalchemy.exc.OperationalError), connect(address) as connection:
            connection.exec_driver_sql("CREATE DATABASE mlflow")
            return True
        return False

    wait_until(is_created, 60, 0.2, log.read_text)


def connect(address: str) -> sqlalchemy.Connection:
    """A connection of its own to a SQLAlchemy address, without transactions."""
    options = {"poolclass": sqlalchemy.NullPool, "isolation_level": "AUTOCOMMIT"}
    return sqlalchemy.create_engine(address, **options).connect()


def count_rows(database: str, table: str) -> int:
    """Rows of a table (and its WHERE clause) at a SQLAlchemy address."""
    with connect(database) as connection:
        return connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one()


def check_shown(database: str, count: int) -> None:
    """The mirror shows one parent, and each trial once."""
    of_runs = "tags JOIN runs USING (run_uuid) WHERE lifecycle_stage = 'active' AND key ="
    assert count_rows(database, f"{of_runs} 'pcore.trial_id'") == count
    shown = f"(SELECT DISTINCT value FROM {of_runs} 'pcore.trial_id') AS trials"
    assert count_rows(database, shown) == count
    assert count_rows(database, f"{of_runs} 'pcore.view'") == 1


@contextlib.contextmanager
def tracking_server(folder: Path, port: int, database: str) -> Generator[subprocess.Popen]:
    """MLflow over a database, once it answers; its log and artifacts are in the folder."""
    variables = environment(MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false", DO_NOT_TRACK="true")
    variables["MLFLOW_BACKEND_STORE_URI"] = database  # a password is no part of a command line
    command = [PYTHON, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--workers", "1", "--artifacts-destination", str(folder / "artifacts")]
    with serve(command, folder / "log", cwd=folder, env=variables) as running:

        def answers() -> bool:
            assert running.poll() is None, (folder / "log").read_text()
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                return True
            return False

        wait_until(answers, 240)
        yield running


def kill_group(leader: subprocess.Popen) -> None:
    """A server and its children, which are in a session of their own."""
    os.killpg(leader.pid, signal.SIGKILL)
    leader.wait()


@contextlib.contextmanager
def postgres(folder: Path, port: int, password: str) -> Generator[subprocess.Popen]:
    """A PostgreSQL server; the folder is made if it is not there."""
    user = _user_for_postgres()
    if not (folder / "data").exists():
        (folder / "password").write_text(password)
        for path in (folder, folder / "password") if user else ():
            os.chown(path, int(user["user"]), int(user["group"]))
        init = [POSTGRES / "initdb", "--pgdata", folder / "data", "--username", "mlflow"]
        init += ["--auth", "scram-sha-256", "--pwfile", folder / "password"]
        subprocess.run(init, cwd=folder, capture_output=True, check=True, **user)
    run = [POSTGRES / "postgres", "-D", folder / "data", "-p", str(port), "-k", folder]
    run += ["-c", "listen_addresses=127.0.0.1"]
    with serve(run, folder / "log", cwd=folder, **user) as running:
        yield running
