"""The dashboard: what `make dashboard` serves after a sweep."""

import os
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from sweeps.commands.dashboard import show_dashboard
from sweeps.engine.launch.mirror.target import find_home, find_shown, local_uri, report_of
from sweeps.engine.store.store import Store
from tests.support.services.servers import free_ports
from tests.support.sweeps.processes import wait_until
from tests.support.sweeps.tiny import make_sweep, run

ROOT = Path(__file__).parents[3]


@pytest.fixture
def dashboard(tmp_path):
    """The address of `make dashboard` over a finished sweep that MLflow knows nothing of yet, and
    what it opened in the browser of the person.
    """
    assert run(make_sweep(), tmp_path, report=True) == 0
    (port,) = free_ports(1)
    browser, opened, log = tmp_path / "browser", tmp_path / "opened", tmp_path / "printed"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    command = ["make", "dashboard", f"RESULTS={tmp_path}", f"PORT={port}"]
    proxy = "http://127.0.0.1:9"  # where nobody answers; its own server is asked without it
    variables = os.environ | {"BROWSER": str(browser), "http_proxy": proxy, "HTTP_PROXY": proxy}
    with log.open("w") as out:
        server = subprocess.Popen(
            command, cwd=ROOT, start_new_session=True, stdout=out, stderr=out, env=variables
        )
    try:
        wait_until(lambda: server.poll() or (opened.exists() and opened.read_text()), 240)
        assert server.poll() is None, log.read_text()
        yield f"http://127.0.0.1:{port}", opened.read_text().strip()
    finally:
        os.killpg(server.pid, 15)
        server.wait(timeout=30)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of mlflow's own imports
def test_a_dashboard_fills_mlflow_while_it_serves_its_pages_under_their_own_names_only(
    dashboard, tmp_path
):
    """A page in a browser may point a name of its own at this machine."""
    from mlflow.tracking import MlflowClient

    address, opened = dashboard
    assert opened == address
    client = MlflowClient(tracking_uri=local_uri(Store(tmp_path)))
    wait_until(lambda: client.get_experiment_by_name("tiny [smoke]"))
    experiment = client.get_experiment_by_name("tiny [smoke]").experiment_id
    wait_until(lambda: len(client.search_runs([experiment], "status = 'FINISHED'")) == 5)
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
    assert find_home(store) is None
    (shown,) = find_shown(store, [("tiny", "smoke")])
    assert report_of(store, shown) == store.folder.local / "reports" / "tiny-smoke"
    for words in (["init", "-q"], ["add", "published"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    home = tmp_path / "results" / "dashboard" / "published-laptop"
    assert find_home(store) == home
    assert local_uri(store, home) == f"sqlite:///{home}/mlflow.db"
    reports = tmp_path / "results" / "reports" / "published-laptop"  # where `analysis table` writes
    assert report_of(store, shown) == reports / "tiny-smoke"


def test_a_port_that_is_taken_is_refused_before_anything_is_mirrored(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=f"port {port} cannot be used .*choose another"):
            show_dashboard(str(tmp_path), None, port, browser=False)
    assert not list(tmp_path.iterdir())
