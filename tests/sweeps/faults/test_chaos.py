"""Kills at random moments, many in one run, and at every single write: the table is the same."""

import json
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from sweeps.engine.launch.leases import LaunchLease
from sweeps.engine.store.folder import Folder
from sweeps.engine.store.store import Store
from tests.support.sweeps.processes import (
    PYTHON,
    ROOT,
    check_once,
    end,
    environment,
    finish_fresh,
    ok_shards,
    rows,
    run,
    start,
    start_fresh,
    wait_until,
)

pytestmark = [pytest.mark.services, pytest.mark.timeout(1500)]
MANY: dict[str, object] = {"arms": 20, "steps": 120, "loose": 12}  # forty trials, checkpoints
KILLS = 55


def table(results: Path, sweep: str = "faulty") -> str:
    """The table as anybody can print it, without its note on code and machine."""
    command = [PYTHON, "-m", "analysis", "table", sweep, "--scale", "smoke", "--results"]
    done = subprocess.run(
        [*command, str(results)], cwd=ROOT, env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split("Code:")[0]


class Watch:
    """Looks after each kill: what was finished once stays, byte for byte."""

    def __init__(self, results: Path):
        self.results, self.kills = results, 0
        self.beside = 0  # trials that died with another one, by one kill
        self.kept: dict[str, bytes] = {}

    def look(self) -> None:
        for shard in ok_shards(self.results):
            self.kept.setdefault(shard.name, (self.results / shard.name).read_bytes())
        for name, data in self.kept.items():
            assert (self.results / name).read_bytes() == data

    def check_end(self, count: int) -> None:
        """All trials once, nothing lost, and nothing left that a next run would stumble over."""
        self.look()
        check_once(self.results, count)
        statuses = [shard.status for shard in Store(self.results).shards()]
        assert set(statuses) <= {"ok", "lost"}
        assert statuses.count("lost") <= self.kills + self.beside
        folder = Folder(self.results)
        assert not LaunchLease(folder).living()  # which also removes the dead
        assert not folder.list("launches")
        assert len(folder.list(hidden=True)) <= self.kills  # writes cut short, unseen by readers
        finished = {shard.trial_id for shard in ok_shards(self.results)}
        left = {Path(entry.name).stem for entry in folder.list("running")}
        assert left <= finished  # a marker outlives a process killed between its last two acts
        states = {file.parent.name for file in self.results.glob("checkpoints/*/state.pt")}
        assert states <= finished


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The sweep without any fault, and how many seconds its trials took."""
    results = tmp_path_factory.mktemp("undisturbed")
    began = time.monotonic()
    code, output = run(results, **MANY)
    assert code == 0, output
    return results, time.monotonic() - began


def test_fifty_kills_at_random_moments_leave_the_same_table(undisturbed, tmp_path):
    """SIGKILL of the driver, which trains, checkpoints, writes shards and packs."""
    whole, seconds = undisturbed
    rng, watch = random.Random(0), Watch(tmp_path)
    while watch.kills < KILLS:
        child = start(tmp_path, **MANY)
        time.sleep(rng.uniform(0.0, 2.0 * seconds / KILLS))
        child.kill()
        watch.kills += child.wait() == -signal.SIGKILL
        watch.look()
    print(f"{watch.kills} kills, {len(watch.kept)} of 40 trials finished under them")
    assert len(watch.kept) >= 4
    code, output = run(tmp_path, **MANY)
    assert code == 0, output
    watch.check_end(40)
    code, output = run(tmp_path, **MANY)
    assert code == 0, output
    assert "40 trials, 40 finished, 0 to run" in output
    assert rows(tmp_path) == rows(whole)
    assert table(tmp_path) == table(whole)


def test_kills_in_every_phase_of_a_whole_command(tmp_path):
    """Fresh interpreters with mirror and report, killed from the first import to the last line."""
    faults: dict[str, object] = {"arms": 3, "steps": 120, "loose": 3}
    code, output = run(tmp_path / "whole", **faults)
    assert code == 0, output
    rng, watch = random.Random(1), Watch(tmp_path / "killed")
    began, seconds = time.monotonic(), 0.0
    for part in range(8):
        driver = start_fresh(watch.results, **faults)
        if part == 0:
            wait_until(lambda: ok_shards(watch.results))
            seconds = time.monotonic() - began
        else:
            time.sleep(rng.uniform(0.1, 2.0) * seconds)
        tree = psutil.Process(driver.pid).children(recursive=True) if driver.poll() is None else []
        driver.kill()
        finish_fresh(driver)
        watch.kills += driver.returncode == -signal.SIGKILL
        psutil.wait_procs(tree, timeout=60)  # a report that is being drawn comes to its end
        watch.look()
    driver = start_fresh(watch.results, **faults)
    output = finish_fresh(driver)
    assert driver.returncode == 0, output
    assert "mirror incomplete" not in output
    watch.check_end(6)
    assert watch.kills >= 5
    assert rows(watch.results) == rows(tmp_path / "whole")
    assert table(watch.results) == table(tmp_path / "whole")


@pytest.mark.parametrize("moment", ["before", "amid", "after"])
def test_a_kill_at_every_single_write_leaves_the_same_rows(tmp_path, moment):
    """Views, launches, markers, states, weights, shards and packs, one after the other."""
    faults: dict[str, object] = {"arms": 5, "steps": 51, "loose": 2}
    before, whole, counter = tmp_path / "before", tmp_path / "whole", tmp_path / "count"
    code, output = run(before, "--seeds", "1", **faults | {"arms": 3})  # shards to pack
    assert code == 0, output
    shutil.copytree(before, whole)
    code, output = run(whole, "--seeds", "1", count=counter, **faults)
    assert code == 0, output
    num_writes, expected = int(counter.read_text()), rows(whole)
    print(f"{num_writes} writes")
    assert num_writes > 10
    for n in range(1, num_writes + 1):
        results = tmp_path / str(n)
        shutil.copytree(before, results)
        child = start(results, "--seeds", "1", kill=f"{n},{moment}", **faults)
        assert child.wait() == -signal.SIGKILL, f"write {n}: {child.output}"
        watch = Watch(results)
        watch.kills = 1
        watch.look()
        code, output = run(results, "--seeds", "1", **faults)
        assert code == 0, output
        watch.check_end(5)
        assert rows(results) == expected, f"write {n}"


def test_kills_of_drivers_and_workers_on_ray(tmp_path):
    """The same with the Ray executor: now the driver, now a process that trains."""
    rng, watch = random.Random(2), Watch(tmp_path / "killed")
    command = [PYTHON, "sweeps/depth_ablation.py", "--scale", "smoke", "--seeds", "4"]
    command += ["--no-mlflow", "--no-report", "--executor", "ray", "--results"]
    for part in range(3):
        driver = subprocess.Popen(
            [*command, str(watch.results)],
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        have = len(ok_shards(watch.results))
        wait_for_shards(watch.results, have + rng.randint(1, 3), driver)
        if part % 2:
            watch.kills += kill_a_worker(watch.results)
            output = finish_fresh(driver)
            assert driver.returncode == 0, output
        else:
            tree = psutil.Process(driver.pid).children(recursive=True)
            driver.kill()
            finish_fresh(driver)
            end(tree)
            watch.kills += 1
            died = len(list((watch.results / "running").glob("*.json")))
            watch.beside += max(0, died - 1)
        watch.look()
        if len(ok_shards(watch.results)) == 24:
            command[command.index("--seeds") + 1] = "6"
    driver = subprocess.Popen(
        [*command, str(watch.results)], cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL
    )
    assert driver.wait(timeout=400) == 0
    assert watch.kills >= 2
    count = 6 * int(command[command.index("--seeds") + 1])
    watch.check_end(count)
    inline = [*command, str(tmp_path / "whole"), "--executor", "inline"]
    assert subprocess.run(inline, cwd=ROOT, env=environment()).returncode == 0
    assert rows(watch.results) == rows(tmp_path / "whole")


def wait_for_shards(results: Path, count: int, driver: subprocess.Popen) -> None:
    wait_until(lambda: len(ok_shards(results)) >= count or driver.poll() is not None)


def kill_a_worker(results: Path) -> int:
    """SIGKILL the process that a marker names; 0 if none trains any more."""
    for marker in (results / "running").glob("*.json"):
        try:
            pid = json.loads(marker.read_text())["process"]["pid"]
            psutil.Process(pid).kill()
        except (OSError, ValueError, psutil.NoSuchProcess):
            continue
        return 1
    return 0
