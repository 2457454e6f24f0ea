"""The dashboard in a real browser: what `make dashboard` shows after a sweep."""

import os
import shutil
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from sweeps.engine.launch.launch import report_folder
from sweeps.engine.launch.mirror import charts
from sweeps.engine.launch.mirror.place import find_place, local_uri, shown_plan
from sweeps.engine.launch.mirror.process import Mirrored
from sweeps.engine.plan import make_plan
from sweeps.engine.store.store import Store
from tests.support.sweeps.tiny import make_sweep, run

ROOT = Path(__file__).parents[3]
BROWSER = shutil.which("chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of mlflow's own imports
    pytest.mark.skipif(BROWSER is None, reason="chromium is not installed"),
]


@pytest.fixture
def dashboard(tmp_path):
    """The address of `make dashboard` over a finished sweep."""
    assert run(make_sweep(), tmp_path, report=True) == 0
    store = Store(tmp_path)
    plan = make_plan(make_sweep(), "smoke", None, store, priced=False)
    folder = report_folder(plan, store)
    Mirrored(find_place(store, None), [shown_plan(plan)]).complete([folder], live=False)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["make", "dashboard", f"RESULTS={tmp_path}", f"PORT={port}"]
    server = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(address)
        yield address
    finally:
        os.killpg(server.pid, 15)
        server.wait(timeout=30)


def _wait_for(address: str) -> None:
    deadline = time.time() + 120
    while time.time() < deadline:
        try:
            urllib.request.urlopen(f"{address}/health", timeout=5).read()
            return
        except OSError:
            time.sleep(0.5)
    pytest.fail("the dashboard did not answer within two minutes")


def read_page(address: str, profile: Path, *expected: str) -> str:
    """The page as the browser has built it, given more and more time until it shows all of this."""
    page = ""
    for milliseconds in (20_000, 60_000, 180_000):
        page = _dump(address, profile / str(milliseconds), milliseconds)
        if all(text in page for text in expected):
            return page
    missing = [text for text in expected if text not in page]
    pytest.fail(f"{address} does not show {missing}")


def _dump(address: str, profile: Path, milliseconds: int) -> str:
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"]
    command += ["--no-first-run", "--disable-background-networking", "--disable-sync"]
    command += ["--disable-component-update", f"--user-data-dir={profile}"]
    command += ["--window-size=1500,6000", f"--virtual-time-budget={milliseconds}", "--dump-dom"]
    return subprocess.run([*command, address], capture_output=True, text=True, timeout=120).stdout


def test_a_browser_shows_the_sweep_and_its_curve_by_length(dashboard, tmp_path):
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=local_uri(Store(tmp_path)))
    experiment = client.get_experiment_by_name("tiny [smoke]").experiment_id
    read_page(f"{dashboard}/#/experiments/{experiment}/runs", tmp_path / "p1", "tiny [smoke]")
    titles = ("Exact match by length", "Training loss by step", "Group: two")
    read_page(charts.page(dashboard, experiment), tmp_path / "p0", *titles)
    runs = client.search_runs([experiment])
    child = next(r for r in runs if r.info.run_name == "two · seed 1")
    page = f"{dashboard}/#/experiments/{experiment}/runs/{child.info.run_id}/model-metrics"
    read_page(page, tmp_path / "p2", "two · seed 1", "exact_match_by_length", "loss")
