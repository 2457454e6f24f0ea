"""A Ray cluster of three nodes, each with its own address and host name: one has other own code
than the rest, one is lost in the middle of a sweep. Jobs are submitted to it.
"""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from sweeps.engine.store.store import Store
from tests.support.services.machines import Machine, machines, missing
from tests.support.sweeps.processes import (
    BIN,
    PYTHON,
    ROOT,
    check_complete,
    depth_ablation,
    environment,
    finish,
    is_trainer,
    job_environment,
    start_fresh,
    wait_until,
)

REASON = missing()
pytestmark = [
    pytest.mark.services,
    pytest.mark.timeout(900),
    pytest.mark.skipif(REASON is not None, reason=str(REASON)),
]
PORT, DASHBOARD = "6479", "8379"
OWN = "from pcore.encodings.embeddings import Learned\n\n\nclass Mine(Learned):\n    number = {}\n"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A head without CPUs and two workers with token authentication; the nodes, and the environment
    of their users. On the last one there is another file where the others have `mine.py`.
    """
    private = tmp_path_factory.mktemp("cluster")
    token = private / "token"
    token.touch(mode=0o600)
    token.write_text("0123456789abcdef" * 4)
    secret = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
    for number, name in enumerate(("code", "other")):
        (private / name).mkdir()
        (private / name / "mine.py").write_text(OWN.format(number))
    path = f"{private / 'code'}{os.pathsep}{ROOT}"
    secret |= {"RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": path}
    # A node that is silent is dead after 5 s, not after 50.
    secret |= {"RAY_health_check_period_ms": "1000", "RAY_health_check_timeout_ms": "5000"}
    secret |= {"RAY_API_SERVER_ADDRESS": f"http://127.0.0.1:{DASHBOARD}"}
    users = environment(PCORE_RESULTS=private / "results", **secret)
    try:
        with machines(["head", "left", "right"]) as nodes:
            _start_nodes(nodes, users, private)
            yield nodes, users
    finally:
        for folder in Path("/tmp").glob(f"pn{os.getpid()}*"):
            shutil.rmtree(folder) if folder.is_dir() else folder.unlink()


def _start_nodes(nodes: list[Machine], users: dict[str, str], private: Path) -> None:
    head = nodes[0]
    mount = f"mount --bind {private / 'other'} {private / 'code'}"
    options = ["--head", "--port", PORT, "--node-ip-address", head.address]
    options += ["--dashboard-host", "127.0.0.1", "--dashboard-port", DASHBOARD]
    _start(head, users, "--num-cpus", "0", *options)
    for node in nodes[1:]:
        join = ["--address", _address(head), "--node-ip-address", node.address]
        _start(node, users, "--num-cpus", "1", *join, first=mount if node is nodes[-1] else "true")
    _wait_for_nodes(head, users, 3)


def _start(node: Machine, users: dict[str, str], *options: str, first: str = "true") -> None:
    """`ray start` on a node after another command. Its processes end with the machine, and see its
    mounts alone.
    """
    folder = f"/tmp/pn{os.getpid()}{node.name[0]}"  # short: Ray puts sockets below it
    command = ["unshare", "--mount", "sh", "-c", f'{first} && exec "$0" "$@"']
    command += [str(BIN / "ray"), "start", "--temp-dir", folder, *options]
    command += ["--object-store-memory", "200000000"]
    log = Path(f"{folder}.log")
    with log.open("wb") as out:  # a pipe would stay open as long as Ray runs
        done = subprocess.run(
            node.command(*command), cwd=ROOT, env=users, stdout=out, stderr=out, timeout=300
        )
    assert done.returncode == 0, log.read_text()


def _wait_for_nodes(head: Machine, users: dict[str, str], number: int) -> None:
    listing = [str(BIN / "ray"), "list", "nodes", "--filter", "state=ALIVE", "--format", "json"]
    listing += ["--address", users["RAY_API_SERVER_ADDRESS"]]

    def count() -> int:
        done = subprocess.run(head.command(*listing), env=users, capture_output=True, text=True)
        return done.stdout.count('"node_id"')

    wait_until(lambda: count() == number, 300, 1)


def test_a_stranger_without_the_token_is_refused(cluster):
    (head, *_), users = cluster
    command = head.command(str(BIN / "ray"), "job", "submit", "--", "echo", "hello", "stranger")
    guess = {"RAY_AUTH_TOKEN": "fedcba9876543210" * 4}
    done = subprocess.run(command, env=users | guess, capture_output=True, text=True)
    output = done.stdout + done.stderr
    assert done.returncode != 0, output
    assert re.search("token|unauth", output, re.IGNORECASE), output
    assert "hello stranger\n" not in output


def test_a_node_with_other_own_code_is_named_before_the_first_trial(cluster, tmp_path):
    (head, *_), users = cluster
    own = ["--set", "position.encoding=mine:Mine", "--name", "own", "--only", "coupling, 1 layer"]
    own += ["--executor", "ray", "--no-mlflow", "--results", str(tmp_path / "results")]
    command = head.command(*depth_ablation(*own))
    code, output = finish(start_fresh(command, **users, RAY_ADDRESS=_address(head)), 300)
    assert code != 0, output
    assert "own code differs: mine on node right is another file than here" in output
    assert not Store(tmp_path / "results").shards()


HOG = """
import time, ray

@ray.remote(num_cpus=1)
class Hog:
    def hold(self):
        return "held"

ray.init(log_to_driver=False)
hogs = [Hog.remote(), Hog.remote()]
print(ray.get([hog.hold.remote() for hog in hogs]), flush=True)
time.sleep(600)
"""


def test_a_job_without_room_says_who_holds_it_and_then_survives_the_death_of_a_node(
    cluster, tmp_path
):
    """`ray job submit sweeps/depth_ablation.py`, which runs by its shebang, with the folder, which
    Ray copies to the nodes. SIGKILL of one node's raylet while a trial runs there: all trials are
    finished on the other node.
    """
    (head, left, _), users = cluster
    hog = start_fresh(head.command(PYTHON, "-c", HOG), **users, RAY_ADDRESS=_address(head))
    driver, lines = None, list[str]()
    submit = [str(BIN / "ray"), "job", "submit", "--working-dir", "."]
    submit += ["--runtime-env-json", job_environment(tmp_path), "--"]
    submit += depth_ablation("--no-mlflow")[1:]
    try:
        assert any("held" in line for line in hog.stdout)
        driver = start_fresh(head.command(*submit), **users)
        for line in driver.stdout:
            lines.append(line)
            if "no trial could be placed for" in line:
                break
        assert "free in the Ray cluster: 0 of 2 CPU; held by: Hog (job " in lines[-1]
        hog.kill()
        killed = _kill_raylet_at_work(left, tmp_path, driver)
        code, output = finish(driver, 600)
        output = "".join(lines) + output
        assert code == 0, output
        assert killed, output
        check_complete(tmp_path, output)
        rows = Store(tmp_path).load(record="trial", columns=["git_commit"]).to_pylist()
        assert {row["git_commit"] for row in rows} == {"abc"}
    finally:
        for process in (hog, driver):
            if process is not None:
                process.kill()
                process.wait()
                process.stdout.close()


def _address(head: Machine) -> str:
    return f"{head.address}:{PORT}"


def _kill_raylet_at_work(node: Machine, results: Path, driver: subprocess.Popen) -> bool:
    """Whether the raylet was killed in the middle of the sweep, with a trainer on its node."""
    commands = dict[int, str]()

    def is_at_work() -> bool:
        commands.update({process.pid: _command(process) for process in node.processes()})
        return bool(Store(results).shards()) and any(map(is_trainer, commands.values()))

    wait_until(lambda: is_at_work() or driver.poll() is not None, 300, 0.05)
    (raylet,) = [p for p, text in commands.items() if "raylet/raylet" in text.partition(" ")[0]]
    os.kill(raylet, signal.SIGKILL)
    return driver.poll() is None


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
