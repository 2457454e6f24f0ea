"""The Ray executor on real clusters: embedded, and a head started by hand with jobs submitted to
it.

Processes are ended by their pids; nothing here stops a Ray that the test did not start.
"""

import os
import shutil
import subprocess
from pathlib import Path

import psutil
import pytest

from sweeps.engine.store.store import Store
from tests.support.sweeps.processes import (
    BIN,
    PYTHON,
    ROOT,
    check_complete,
    depth_ablation,
    end,
    environment,
    finish,
    job_environment,
    mentions,
    start_fresh,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def head(tmp_path_factory):
    """A Ray head with token authentication on loopback; yields the environment of its users."""
    folder = Path(f"/tmp/ph{os.getpid()}")  # short: Ray puts sockets below it
    token = tmp_path_factory.mktemp("token") / "auth_token"
    token.write_text("0123456789abcdef" * 4)
    secret = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
    secret |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_API_SERVER_ADDRESS": "http://127.0.0.1:8377"}
    before = {process.pid for process in psutil.process_iter()}
    command = [str(BIN / "ray"), "start", "--head", "--port", "6477", "--num-cpus", "2"]
    command += ["--dashboard-host", "127.0.0.1", "--dashboard-port", "8377"]
    command += ["--dashboard-agent-listen-port", "8378"]  # a port that other clusters do not take
    command += ["--object-store-memory", "200000000", "--temp-dir", str(folder)]
    users = environment(PCORE_RESULTS=tmp_path_factory.mktemp("head"), **secret)
    try:
        started = subprocess.run(command, cwd=ROOT, env=users, capture_output=True, text=True)
        assert started.returncode == 0, started.stdout + started.stderr
        yield secret
    finally:
        mine = [p for p in psutil.process_iter() if p.pid not in before and mentions(p, folder)]
        end(mine)
        shutil.rmtree(folder, ignore_errors=True)


def test_job_submit_with_a_working_dir(head, tmp_path):
    command = [str(BIN / "ray"), "job", "submit", "--working-dir", "."]
    command += ["--runtime-env-json", job_environment(tmp_path), "--", *depth_ablation()]
    code, output = finish(start_fresh(command, PCORE_RESULTS=tmp_path, **head))
    assert code == 0, output
    check_complete(tmp_path, output)
    rows = Store(tmp_path).load(record="trial", columns=["git_commit"]).to_pylist()
    assert {row["git_commit"] for row in rows} == {"abc"}


HOG = """
import time, ray

@ray.remote(num_cpus=2)
class Hog:
    def hold(self):
        return "held"

ray.init(log_to_driver=False)
hog = Hog.remote()
print(ray.get(hog.hold.remote()), flush=True)
time.sleep(600)
"""


IMPATIENT = """
from sweeps.depth_ablation import SWEEP
from sweeps.engine.launch import progress
from sweeps.engine.launch.cli import main

progress.SILENCE = 5.0
raise SystemExit(main(SWEEP))
"""


def test_a_sweep_that_finds_no_room_says_who_holds_it_and_goes_on_later(head, tmp_path):
    users = head | {"RAY_ADDRESS": "127.0.0.1:6477", "PCORE_RESULTS": tmp_path}
    hog = start_fresh([PYTHON, "-c", HOG], **users)
    driver = None
    try:
        assert any("held" in line for line in hog.stdout)
        flags = depth_ablation("--executor", "ray", "--no-mlflow")[2:]
        driver, lines = start_fresh([PYTHON, "-c", IMPATIENT, *flags], **users), []
        for line in driver.stdout:
            lines.append(line)
            if "no trial could be placed for" in line:
                break
        assert "free in the Ray cluster: 0 of 2 CPU; held by: Hog (job " in lines[-1]
        hog.kill()
        code, output = finish(driver, 300)
        assert code == 0, output
        check_complete(tmp_path, "".join(lines) + output)
    finally:
        for process in (hog, driver):
            if process is not None:
                process.kill()
                process.wait()
                process.stdout.close()
