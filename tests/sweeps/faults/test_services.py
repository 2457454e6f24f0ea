"""The faults of docs/faults.md that need a Ray cluster, a tracking server or a database. Processes
are ended by their numbers, and only those that a test started.
"""

import contextlib
import json
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from sweeps.engine.store.store import Store
from sweeps.engine.trial.failures import MAX_TRIES
from tests.support.services.servers import (
    POSTGRES,
    check_shown,
    count_rows,
    create_database,
    free_ports,
    kill_group,
    postgres,
    tracking_server,
)
from tests.support.sweeps.processes import (
    Child,
    check_once,
    depth_ablation,
    end,
    finish,
    is_trainer,
    ok_shards,
    rows,
    start,
    start_fresh,
    start_whole,
    wait_until,
)

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
INCOMPLETE = "MLflow mirror incomplete ("


# Ray


@pytest.mark.timeout(1500)  # it starts Ray three times
def test_killed_workers_a_killed_driver_and_an_interrupt_on_ray_leave_the_same_rows(tmp_path):
    """A trial loses its worker as often as it is tried and is left to the next launch, which is
    killed; the third is interrupted (SIGTERM, which has the same handler, is what Slurm sends); one
    without Ray ends the sweep.
    """
    results = tmp_path / "ray"
    command = depth_ablation("--name", "longer", "--except", "*2 layers*", "--no-mlflow")
    command += ["--no-report", "--set", "optim.num_steps=500", "--results", str(results)]
    driver = start_fresh([*command, "--seeds", "1", "--executor", "ray"])
    victim = kill_workers(results, driver)
    code, output = finish(driver)
    assert code == 1, output
    assert f"({victim})" in output[output.index("lost: ") :]
    assert f"its worker died {MAX_TRIES} times" in output
    statuses = Counter(shard.status for shard in Store(results).shards())
    assert statuses == {"ok": 1, "lost": MAX_TRIES}

    command += ["--seeds", "3"]
    code, output = stop_on_ray(results, command, signal.SIGKILL)
    assert code == -signal.SIGKILL, output
    code, output = stop_on_ray(results, command, signal.SIGINT)
    assert code == 130, output
    assert "interrupted; finished trials are stored, the same command resumes" in output
    assert "Traceback" not in output
    states = {file.parent.name for file in results.glob("checkpoints/*/state.pt")}
    assert states

    code, output = finish(start_fresh([*command, "--executor", "inline"]))
    assert code == 0, output
    check_once(results, 6)
    assert not list((results / "running").iterdir())
    continued = Store(results).load(states, "trial", ["status", "first_step"]).to_pylist()
    assert all(row["status"] == "ok" and row["first_step"] > 0 for row in continued)
    command[command.index("--results") + 1] = str(tmp_path / "whole")
    code, output = finish(start_fresh([*command, "--executor", "inline"]))
    assert code == 0, output
    assert rows(results) == rows(tmp_path / "whole")


def kill_workers(results: Path, driver: subprocess.Popen) -> str:
    """SIGKILL every worker that claims the trial which is claimed first, until the driver ends or
    gives that trial up; its id."""
    victim, kills = "", set[int]()
    while driver.poll() is None and len(kills) < MAX_TRIES:
        for marker in sorted((results / "running").glob("*.json")):
            victim = victim or marker.stem[:16]
            with contextlib.suppress(OSError, ValueError, psutil.Error):
                pid = json.loads(marker.read_text())["process"]["pid"]
                if marker.stem[:16] == victim and pid not in kills:
                    psutil.Process(pid).kill()
                    kills.add(pid)
        time.sleep(0.02)
    return victim


def stop_on_ray(results: Path, command: list[str], number: int) -> tuple[int, str]:
    """Run a sweep on Ray, and end its driver by this signal as soon as a trial is finished. What it
    says; nothing goes on training.
    """
    have = len(ok_shards(results))
    driver = start_fresh([*command, "--executor", "ray"])
    tree = list[psutil.Process]()
    try:
        wait_until(lambda: len(ok_shards(results)) > have or driver.poll() is not None, 300, 0.2)
        time.sleep(0.6)  # the next one is in the middle of its training
        assert driver.poll() is None, finish(driver)
        tree = psutil.Process(driver.pid).children(recursive=True)
        trainers = [p for p in tree if p.is_running() and is_trainer(" ".join(p.cmdline()))]
        assert trainers
        driver.send_signal(number)
        code, output = finish(driver, 100)
        _, alive = psutil.wait_procs(trainers, timeout=60)
        assert not alive, f"still training after the driver ended: {alive}"
    finally:
        driver.kill()
        end(tree)
    return code, output


# The tracking server and its database


def mirrored(database: str) -> int | None:
    """How many finished trials a database shows; None if it does not answer."""
    try:
        return count_rows(database, "tags WHERE key = 'pcore.shard'")
    except Exception:  # of whichever driver
        return None


def launch_seconds(output: str) -> float:
    minutes, seconds = re.search(r"launch ended after (?:(\d+) min )?(\d+) s", output).groups()
    return 60 * int(minutes or 0) + int(seconds)


SLOW: dict[str, object] = {"arms": 4, "steps": 51, "slow": 1.0}  # eight trials of two seconds


def sweep(results: Path, uri: str, **faults: object) -> Child:
    return start_whole(results, "--no-report", "--tracking-uri", uri, **(SLOW | faults))


def disturbed(results: Path, uri: str, database: str, disturb: Callable[[], object]) -> str:
    """What a launch says whose mirror is disturbed when it shows the first trials. Its rows are
    complete; `database`: where to see what MLflow shows.
    """
    driver = sweep(results, uri)
    wait_until(lambda: mirrored(database) or driver.code is not None)
    disturb()
    assert driver.wait() == 0, driver.output
    check_once(results, 8)
    return driver.output


def catch_up(results: Path, uri: str, database: str) -> None:
    """The next launch, which has nothing to run, adds to MLflow what is missing."""
    driver = sweep(results, uri)
    assert driver.wait() == 0, driver.output
    assert INCOMPLETE not in driver.output
    check_shown(database, 8)


def test_a_killed_tracking_server_costs_the_sweep_nothing_and_is_caught_up_with(tmp_path):
    results, (port,) = tmp_path / "results", free_ports(1)
    uri, database = f"http://127.0.0.1:{port}", f"sqlite:///{tmp_path / 'mlflow.db'}"
    with tracking_server(tmp_path, port, database) as server:
        output = disturbed(results, uri, database, lambda: kill_group(server))
    assert INCOMPLETE in output
    assert f"the rows in {results} are complete" in output
    with tracking_server(tmp_path, port, database):
        catch_up(results, uri, database)


def test_a_silent_tracking_server_makes_no_trial_slower(tmp_path):
    """Trials take as long as without a mirror; the server is waited for once, at the end."""
    driver = start(tmp_path / "none", **SLOW)
    assert driver.wait() == 0, driver.output
    plain, patience, results = launch_seconds(driver.output), 8, tmp_path / "silent"
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(64)
        driver = sweep(results, f"http://127.0.0.1:{silent.getsockname()[1]}", patience=patience)
        assert driver.wait() == 0, driver.output
    assert INCOMPLETE in driver.output
    check_once(results, 8)
    took = launch_seconds(driver.output)
    print(f"silent: {took:.0f} s, without a mirror {plain:.0f} s")
    assert trial_seconds(results) < 1.5 * trial_seconds(tmp_path / "none") + 5
    assert took < plain + patience + 15


def trial_seconds(results: Path) -> float:
    table = Store(results).load(record="trial", columns=["wall_seconds"])
    return sum(table.column("wall_seconds").to_pylist())


def test_a_database_that_is_deleted_under_the_sweep_is_filled_anew(tmp_path):
    results = tmp_path / "results"
    uri = f"sqlite:///{results / 'mlflow.db'}"

    def delete() -> None:
        for file in results.glob("mlflow.db*"):
            file.unlink()

    disturbed(results, uri, uri, delete)
    delete()
    catch_up(results, uri, uri)


def test_a_locked_database_costs_the_sweep_nothing(tmp_path):
    results = tmp_path / "results"
    uri = f"sqlite:///{results / 'mlflow.db'}"
    with contextlib.ExitStack() as stack:

        def lock() -> None:
            held = sqlite3.connect(results / "mlflow.db", timeout=60, isolation_level=None)
            stack.enter_context(contextlib.closing(held)).execute("BEGIN EXCLUSIVE")

        assert INCOMPLETE in disturbed(results, uri, uri, lock)
    catch_up(results, uri, uri)


@pytest.mark.skipif(POSTGRES is None, reason="postgresql is not installed")
def test_a_killed_postgresql_costs_the_sweep_nothing_and_is_caught_up_with(tmp_path):
    results, (port, database) = tmp_path / "results", free_ports(2)
    address = f"postgresql+psycopg2://mlflow:secret@127.0.0.1:{database}/mlflow"
    uri = f"http://127.0.0.1:{port}"
    folder = Path(tempfile.mkdtemp(prefix="pcore-pg-", dir="/tmp"))  # its user has to get there
    try:
        with contextlib.ExitStack() as stack:
            with postgres(folder, database, "secret") as server:
                create_database(database, "secret", folder / "log")
                stack.enter_context(tracking_server(tmp_path, port, address))
                output = disturbed(results, uri, address, lambda: kill_group(server))
            assert INCOMPLETE in output
            server = stack.enter_context(postgres(folder, database, "secret"))
            stack.callback(kill_group, server)  # asked to end it would wait for its clients
            wait_until(lambda: mirrored(address) is not None)
            catch_up(results, uri, address)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_two_launches_with_one_mirror_show_every_trial_once(tmp_path):
    """Also when both begin at once on a database that does not exist yet."""
    uri = f"sqlite:///{tmp_path / 'results' / 'mlflow.db'}"
    pair = [sweep(tmp_path / "results", uri), sweep(tmp_path / "results", uri)]
    assert [driver.wait() for driver in pair] == [0, 0], [driver.output for driver in pair]
    check_once(tmp_path / "results", 8)
    assert not any(INCOMPLETE in driver.output for driver in pair)
    check_shown(uri, 8)
