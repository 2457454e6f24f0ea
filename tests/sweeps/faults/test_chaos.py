"""Kills at random moments, many in one run, and at every single write: the rows are the same.

KILLS=50 in the environment asks for more kills than CI has time for, and for every write at each of
its three moments instead of one of them in turn.
"""

import contextlib
import itertools
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from sweeps.engine.store.folder import Folder
from sweeps.engine.store.store import Store
from tests.support.services.servers import check_shown, count_rows
from tests.support.sweeps.processes import (
    PYTHON,
    ROOT,
    Child,
    check_once,
    end,
    environment,
    mentions,
    ok_shards,
    rows,
    run,
    start,
    start_whole,
)

KILLS = int(os.environ.get("KILLS", "0"))
pytestmark = [pytest.mark.services, pytest.mark.timeout(0 if KILLS else 1500)]
MOMENTS = ("before", "amid", "after")


class Watch:
    """Looks after each kill: what was finished once stays, byte for byte."""

    def __init__(self, results: Path):
        self.results, self.kills = results, 0
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
        assert statuses.count("lost") <= self.kills
        folder = Folder(self.results)
        cut_short = [entry for entry in folder.walk() if entry.is_hidden]  # unseen by readers
        assert len(cut_short) <= self.kills
        finished = {shard.trial_id for shard in ok_shards(self.results)}
        left = {Path(entry.name).stem[:16] for entry in folder.list("running")}
        assert left <= finished  # a marker outlives a process killed between its last two acts
        states = {file.parent.name for file in self.results.glob("checkpoints/*/state.pt")}
        assert states <= finished


def test_a_kill_at_every_single_write_leaves_the_same_rows(tmp_path):
    """Views, markers, states, weights, shards and packs, one after the other."""
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
    writes = range(1, num_writes + 1)
    turns = [(n, MOMENTS[n % len(MOMENTS)]) for n in writes]
    for n, moment in itertools.product(writes, MOMENTS) if KILLS else turns:
        results = tmp_path / f"{n}-{moment}"
        shutil.copytree(before, results)
        child = start(results, "--seeds", "1", kill=f"{n},{moment}", **faults)
        assert child.wait() == -signal.SIGKILL, f"write {n}: {child.output}"
        watch = Watch(results)
        watch.kills = 1
        watch.look()
        code, output = run(results, "--seeds", "1", **faults)
        assert code == 0, output
        watch.check_end(5)
        assert rows(results) == expected, f"{moment} write {n}"


def test_kills_of_a_launch_its_mirror_or_both_leave_the_same_rows(tmp_path):
    """At random moments. After each kill of all, `sweeps mirror` ends what nobody runs; at last
    every trial is there once, in the rows and in MLflow.
    """
    rng, watch, count = random.Random(1), Watch(tmp_path / "results"), KILLS or 3
    faults: dict[str, object] = {"arms": 10 * count, "steps": 51}
    uri = f"sqlite:///{watch.results / 'mlflow.db'}"
    killed = Counter[str]()

    def show() -> None:
        command = [PYTHON, "-m", "sweeps", "mirror", "--results", str(watch.results)]
        subprocess.run(command, cwd=ROOT, env=environment(), check=True)
        assert count_rows(uri, "runs WHERE status = 'RUNNING'") == 0

    while watch.kills < count:
        launch = start_whole(watch.results, "--no-report", "--seeds", "1", slow=2.0, **faults)
        try:
            while launch.code is None and not mirrors(launch):
                time.sleep(0.01)
            time.sleep(rng.uniform(0.0, 10.0))  # MLflow alone takes some seconds to start
            victim = ("mirror", "launch", "both")[watch.kills % 3]
            if victim != "launch":
                killed["mirror"] += len(followers := mirrors(launch))
                end(followers)
            if victim == "mirror":
                time.sleep(rng.uniform(0.0, 1.0))
        finally:
            launch.kill()
        assert launch.wait() == -signal.SIGKILL, f"it ended before kill {watch.kills + 1}"
        watch.kills, killed["launch"] = watch.kills + 1, killed["launch"] + 1
        watch.look()
        if victim == "both":
            show()
    print(f"{dict(killed)} killed, {len(watch.kept)} of {10 * count} trials finished under them")
    launch = start_whole(watch.results, "--no-report", "--seeds", "1", **faults)
    assert launch.wait() == 0, launch.output
    watch.check_end(10 * count)
    show()
    check_shown(uri, 10 * count)
    code, output = run(tmp_path / "whole", "--seeds", "1", **faults)
    assert code == 0, output
    assert rows(watch.results) == rows(tmp_path / "whole")


def mirrors(launch: Child) -> list[psutil.Process]:
    """The process that shows this launch in MLflow, if it runs."""
    name, found = "sweeps.engine.launch.mirror.process", []
    with contextlib.suppress(psutil.NoSuchProcess):
        found = psutil.Process(launch.pid).children()
    return [process for process in found if mentions(process, name)]
