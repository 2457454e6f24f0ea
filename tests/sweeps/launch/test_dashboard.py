"""The dashboard in a real browser: what `make dashboard` shows after a sweep."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from sweeps.commands.dashboard import show_dashboard
from sweeps.engine.launch.launch import report_folder
from sweeps.engine.launch.mirror import charts
from sweeps.engine.launch.mirror.target import find_home, local_uri
from sweeps.engine.plan import make_plan
from sweeps.engine.store.store import Store
from tests.support.browser import BROWSER, FLAGS
from tests.support.sweeps.tiny import make_sweep, run

ROOT = Path(__file__).parents[3]


@pytest.fixture
def dashboard(tmp_path):
    """The address of `make dashboard` over a finished sweep that MLflow knows nothing of yet, what
    it printed, and what it opened in the browser of the person.
    """
    assert run(make_sweep(), tmp_path, report=True) == 0
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    browser, opened, printed = tmp_path / "browser", tmp_path / "opened", tmp_path / "printed"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    command = ["make", "dashboard", f"RESULTS={tmp_path}", f"PORT={port}"]
    variables = os.environ | {"BROWSER": str(browser)}
    with printed.open("w") as out:
        server = subprocess.Popen(
            command, cwd=ROOT, start_new_session=True, stdout=out, stderr=out, env=variables
        )
    try:
        _wait_for(opened, server)
        yield f"http://127.0.0.1:{port}", printed.read_text(), opened.read_text().strip()
    finally:
        os.killpg(server.pid, 15)
        server.wait(timeout=30)


def _wait_for(opened: Path, server: subprocess.Popen) -> None:
    deadline = time.time() + 240
    while time.time() < deadline and server.poll() is None:
        if opened.exists() and opened.read_text():
            return
        time.sleep(0.5)
    pytest.fail("the dashboard opened no page within four minutes")


def read_page(address: str, profile: Path, *expected: str) -> str:
    """The page as the browser has built it, given more and more time until it shows all of this."""
    page = ""
    for attempt, seconds in enumerate((20, 60, 180, 180, 180)):
        page = _dump(address, profile / str(attempt), 1000 * seconds)
        if all(text in page for text in expected):
            return page
    missing = [text for text in expected if text not in page]
    pytest.fail(f"{address} does not show {missing}")


def _dump(address: str, profile: Path, milliseconds: int) -> str:
    command = [str(BROWSER), *FLAGS, "--disable-quic", f"--user-data-dir={profile}"]
    command += ["--window-size=1500,6000", f"--virtual-time-budget={milliseconds}", "--dump-dom"]
    return subprocess.run([*command, address], capture_output=True, text=True, timeout=120).stdout


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of mlflow's own imports
@pytest.mark.skipif(BROWSER is None, reason="chromium is not installed")
def test_a_browser_shows_the_sweep_and_its_curve_by_length(dashboard, tmp_path):
    address, printed, opened = dashboard
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=local_uri(Store(tmp_path)))
    experiment = client.get_experiment_by_name("tiny [smoke]").experiment_id
    read_page(f"{address}/#/experiments/{experiment}/runs", tmp_path / "p1", "tiny [smoke]")
    titles = (*charts.CHARTS.values(), "Group: two")  # grouped, charts are called as metrics
    assert opened == charts.page(address, experiment)
    assert f"  tiny [smoke]  {opened}" in printed
    read_page(opened, tmp_path / "p0", *titles)
    runs = client.search_runs([experiment])
    child = next(r for r in runs if r.info.run_name == "two · seed 1")
    page = f"{address}/#/experiments/{experiment}/runs/{child.info.run_id}/model-metrics"
    read_page(page, tmp_path / "p2", "two · seed 1", "exact_match_by_length", "loss")


def test_nothing_is_written_beside_rows_that_git_tracks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = Store(tmp_path / "published" / "laptop")
    assert run(make_sweep(one={}), store.folder.local, "--seeds", "1") == 0
    assert find_home(store) is None
    plan = make_plan(make_sweep(one={}), "smoke", "1", store, priced=False)
    assert report_folder(plan, store) == store.folder.local / "reports" / "tiny-smoke"
    for words in (["init", "-q"], ["add", "published"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    home = tmp_path / "results" / "dashboard" / "published-laptop"
    assert find_home(store) == home
    assert local_uri(store, home) == f"sqlite:///{home}/mlflow.db"
    reports = tmp_path / "results" / "reports" / "published-laptop"  # where `analysis table` writes
    assert report_folder(plan, store) == reports / "tiny-smoke"


SERVER = """#!{python}
import os, signal, sys, threading
from http.server import BaseHTTPRequestHandler, HTTPServer


class Page(BaseHTTPRequestHandler):  # says what it is asked, on stderr
    def do_GET(self):
        self.send_error(404) if "api" in self.path else self.send_response(200)
        self.end_headers()


def end():
    print("12:00 ERROR mlflow.server: broken", flush=True)
    threading.Timer(2, os.kill, (os.getppid(), signal.SIGINT)).start()


print("12:00 INFO: Started", flush=True)
threading.Timer(1, end).start()
HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Page).serve_forever()
"""


def _serve_with(source: str, folder: Path, monkeypatch) -> int:
    """The port at which this program stands for MLflow's server."""
    program = folder / "server"
    program.write_text(source.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    (folder / "mlflow.db").touch()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_the_terminal_has_the_address_and_errors_the_log_all_else(tmp_path, monkeypatch, capfd):
    port = _serve_with(SERVER, tmp_path, monkeypatch)
    assert show_dashboard(str(tmp_path), None, port, browser=False) == 0  # until Ctrl-C
    printed = capfd.readouterr()
    log = tmp_path / f"dashboard-{port}.log"
    assert printed.out.splitlines() == [
        f"charts: http://127.0.0.1:{port}/#/experiments?workflowType=machine_learning",
        f"press Ctrl-C to stop; MLflow's log: {log}",
        "",
    ]
    assert printed.err == "12:00 ERROR mlflow.server: broken\n"
    assert "INFO: Started" in log.read_text()
    assert "GET /health" in log.read_text()


def test_a_server_that_ends_by_itself_is_reported_with_its_last_words(tmp_path, monkeypatch, capfd):
    failing = "#!/bin/sh\nseq 1 100; echo no such table >&2; exit 3\n"
    port = _serve_with(failing, tmp_path, monkeypatch)
    with pytest.raises(ValueError, match=f"ended with code 3; its log: .*dashboard-{port}.log"):
        show_dashboard(str(tmp_path), None, port, browser=False)
    told = capfd.readouterr().err.splitlines()
    assert (len(told), told[-1]) == (20, "no such table")


def test_a_port_that_is_taken_is_refused_before_anything_is_mirrored(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=f"port {port} cannot be used .*choose another"):
            show_dashboard(str(tmp_path), None, port, browser=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_nothing_but_addresses_is_printed(dashboard):
    _, printed, _ = dashboard
    lines = [line for line in printed.splitlines() if not line.startswith(("make", ".venv"))]
    assert [line.split()[0] for line in lines] == ["mirroring", "tiny", "charts:", "press"]


@pytest.mark.slow
def test_the_dashboard_answers_to_its_own_names_only(dashboard):
    """A page in a browser may point a name of its own at this machine."""
    address, _, _ = dashboard
    url = f"{address}/api/2.0/mlflow/experiments/search?max_results=1"
    assert urllib.request.urlopen(url, timeout=20).status == 200
    for host in ("192.168.1.5", "10.0.0.1:5000", "172.16.0.1", "evil.example"):
        asked = urllib.request.Request(url, headers={"Host": host})
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(asked, timeout=20)
