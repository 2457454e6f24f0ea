"""The dashboard: what `make dashboard` serves after a sweep."""

import contextlib
import os
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from sweeps.commands.dashboard import show_dashboard
from sweeps.engine.launch.cli import main
from sweeps.engine.launch.mirror.target import find_shown, find_target, report_of
from sweeps.engine.store.store import Store
from tests.support.services.servers import free_ports
from tests.support.sweeps.processes import wait_until
from tests.support.sweeps.tiny import make_sweep, run

ROOT = Path(__file__).parents[3]


@pytest.fixture
def address(tmp_path):
    """Of `make dashboard` over a finished sweep that MLflow knows nothing of yet."""
    assert run(make_sweep(), tmp_path, report=True) == 0
    (port,) = free_ports(1)
    command, log = ["make", "dashboard", f"RESULTS={tmp_path}", f"PORT={port}"], tmp_path / "log"
    with log.open("w") as out:
        server = subprocess.Popen(
            command, cwd=ROOT, start_new_session=True, stdout=out, stderr=subprocess.STDOUT
        )

    def answers() -> bool:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
            return True
        return False

    try:
        wait_until(lambda: server.poll() is not None or answers(), 240)
        assert server.poll() is None, log.read_text()
        assert f"MLflow: http://127.0.0.1:{port}" in log.read_text()
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, 15)
        server.wait(timeout=30)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of mlflow's own imports
def test_a_dashboard_shows_what_is_stored_and_what_a_launch_adds_under_its_own_names_only(
    address, tmp_path
):
    """A page in a browser may point a name of its own at this machine."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=address)

    def count_shown() -> int:
        found = client.get_experiment_by_name("tiny [smoke]")
        return len(client.search_runs([found.experiment_id], "status = 'FINISHED'")) if found else 0

    wait_until(lambda: count_shown() == 5)
    flags = ["--scale", "smoke", "--executor", "inline", "--no-report", "--results", str(tmp_path)]
    assert main(make_sweep(), [*flags, "--seeds", "3"]) == 0
    assert count_shown() == 7
    url = f"{address}/api/2.0/mlflow/experiments/search?max_results=1"
    assert urllib.request.urlopen(url, timeout=20).status == 200
    for host in ("192.168.1.5", "10.0.0.1:5000", "172.16.0.1", "evil.example"):
        asked = urllib.request.Request(url, headers={"Host": host})
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(asked, timeout=20)


def test_nothing_is_written_beside_rows_that_git_tracks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = Store(tmp_path / "published" / "laptop")
    assert run(make_sweep(one={}), store.folder.local, "--seeds", "1") == 0
    assert find_target(store, None).home == store.root
    (shown,) = find_shown(store, [("tiny", "smoke")])
    assert report_of(store, shown) == store.folder.local / "reports" / "tiny-smoke"
    for words in (["init", "-q"], ["add", "published"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    home = tmp_path / "results" / "dashboard" / "published-laptop"
    target = find_target(store, None)
    assert target.home == str(home)
    assert target.uri == f"sqlite:///{home}/mlflow.db"
    reports = tmp_path / "results" / "reports" / "published-laptop"  # where `analysis table` writes
    assert report_of(store, shown) == reports / "tiny-smoke"


def test_a_port_that_is_taken_is_refused_before_anything_is_mirrored(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=f"port {port} cannot be used .*choose another"):
            show_dashboard(str(tmp_path), None, port)
    assert not list(tmp_path.iterdir())
