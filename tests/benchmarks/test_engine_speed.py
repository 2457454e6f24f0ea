"""What the engine costs beside the trials: `pytest -m benchmark -s tests/benchmarks`.

On Ray a trial may cost MOST times what it costs inline. Plans, status and tables of a large store:
large_store.py.
"""

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from pcore.config import TrialConfig, override
from sweeps.baseline import addition
from sweeps.engine.executors import EXECUTORS, Executor, count_cpus
from sweeps.engine.executors.ray_tune import SCRATCH, tune
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Point, Sweep, axis, grid
from sweeps.engine.store.names import parse_shard
from sweeps.engine.store.store import Store
from tests.benchmarks.gpu import record

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]


def made_up(name: str, seeds: int, base: TrialConfig, **axes: Sequence[Point]) -> Sweep:
    """A grid for a measurement, with so many seeds at every scale."""
    replicates = dict.fromkeys(("smoke", "laptop", "paper"), str(seeds))
    return Sweep(
        name=name, title=name, claim=name, cells=lambda _: grid(base, **axes), seeds=replicates
    )


NO_OP = override(
    addition("smoke"),
    {"optim.num_steps": 1, "optim.batch_size": 1, "eval.num_examples": 1, "eval.near_lengths": ()},
)
MANY = made_up("many", 4, NO_OP, rate=axis("optim.learning_rate", *(i / 1e4 for i in range(1, 51))))
SECONDS = made_up(  # of some seconds each: laptop scale, but for the number of steps
    "seconds",
    3,
    override(addition("laptop"), {"optim.num_steps": 100}),
    rate=axis("optim.learning_rate", 1e-3, 2e-3),
)
EMPTY = 250  # trials of Tune that do nothing
MOST = 1.3  # times what is inline


@pytest.fixture(autouse=True)
def as_urgent(monkeypatch):
    """Ray's workers give way to other processes; beside some, trials inline would seem faster."""
    monkeypatch.setenv("RAY_worker_niceness", "0")


def test_overhead_per_trial(tmp_path):
    """Inline and on Ray, one after the other, and a trainable of Tune that does nothing."""
    each: dict[str, float] = {}
    for executor in EXECUTORS:
        each[executor], work = _measure_overhead(tmp_path, MANY, executor)
        record(f"engine: overhead per trial, {executor}", f"{each[executor]:.1f} ms")
        record(f"engine: a trial's own work, {executor}", f"{work:.1f} ms")
    empty = _measure_tune(tmp_path)
    ours = (each["ray"] - empty) / each["inline"]
    record("engine: an empty trial of Tune", f"{empty:.1f} ms")
    record("engine: overhead beyond it, over inline", f"{ours:.2f}", f"< {MOST}")
    assert ours < MOST


def test_trials_of_seconds_take_as_long_on_ray(tmp_path):
    """Seconds of a slot per trial at laptop scale with fewer steps. Attempts count as they took
    inline: how long they take when two run at once is a matter of the machine.
    """
    each = {e: _measure_overhead(tmp_path, SECONDS, e) for e in EXECUTORS}
    _, work = each["inline"]
    for executor, (overhead, _) in each.items():
        value = f"{(overhead + work) / 1000:.2f} s"
        record(f"engine: a trial of some seconds, {executor}", value)
    ratio = (each["ray"][0] + work) / (each["inline"][0] + work)
    record("engine: a trial of some seconds, Ray over inline", f"{ratio:.2f}", f"< {MOST}")
    assert ratio < MOST


@pytest.mark.parametrize("count", [1000, 5000, 10_000])
def test_thousands_of_trials_on_ray(tmp_path, count):
    """What a long launch costs: trials per second, the driver's memory, Tune's scratch folder."""
    memory, scratch, ended = [0], [0], threading.Event()

    def look() -> None:
        driver, places = psutil.Process(), f"{SCRATCH}{os.getpid()}-*"
        while not ended.wait(1.0):
            memory.append(driver.memory_info().rss)
            folders = Path(tempfile.gettempdir()).glob(places)
            with contextlib.suppress(FileNotFoundError):  # trials end meanwhile
                files = [f for folder in folders for f in folder.rglob("*") if f.is_file()]
                scratch.append(sum(f.stat().st_size for f in files))

    flags = ["--scale", "smoke", "--no-report", "--no-mlflow", "--executor", "ray"]
    thread, began = threading.Thread(target=look), time.perf_counter()
    thread.start()
    try:
        assert main(MANY, [*flags, "--results", str(tmp_path), "--seeds", str(count // 50)]) == 0
    finally:
        ended.set()
        thread.join()
    rate = count / (time.perf_counter() - began)
    record(f"engine: {count:,} trials on Ray", f"{rate:.1f} per second")
    record(f"engine: driver of {count:,} trials", f"{max(memory) / 2**20:.0f} MiB", "< 1,024 MiB")
    record(f"engine: scratch of {count:,} trials", f"{max(scratch) / 2**20:.1f} MiB", "< 256 MiB")
    assert max(memory) < 2**30
    assert max(scratch) < 2**28


def _measure_overhead(folder: Path, sweep: Sweep, executor: str) -> tuple[float, float]:
    """Milliseconds of a slot per trial, beside what the attempts took, and what they took."""
    place, slots = folder / sweep.name / executor, 1 if executor == "inline" else count_cpus()
    flags = ["--scale", "smoke", "--no-report", "--no-mlflow", "--executor", executor]
    assert main(sweep, [*flags, "--results", str(place)]) == 0
    ends = {parse_shard(entry.name): entry.modified for entry in Store(place).folder.list("trials")}
    slot, counted = _slot_seconds(ends, slots)
    names = [shard.trial_id for shard in counted if shard]
    work = Store(place).load(names, record="trial", columns=["wall_seconds"])
    each = float(np.mean(work.column("wall_seconds").to_numpy()))
    return 1000 * (slot - each), 1000 * each


def _slot_seconds(ends: Mapping[Any, float], slots: int) -> tuple[float, list[Any]]:
    """Seconds of a slot per trial, from when trials ended, and the trials that count: not the first
    ones, before which Ray and its workers started.
    """
    names = sorted(ends, key=lambda name: ends[name])[max(slots - 1, len(ends) // 10) :]
    return slots * (ends[names[-1]] - ends[names[0]]) / (len(names) - 1), names[1:]


def _measure_tune(folder: Path) -> float:
    """Milliseconds of a slot per trial of a trainable that does nothing, run as ours are."""

    class Empty(tune.Trainable):  # here, so that workers need not import this file
        def reset_config(self, new_config: dict[str, object]) -> bool:
            return True

        def step(self) -> dict[str, object]:
            return {"done": True, "at": time.time()}

    with Executor().session(Store(folder)) as slots:
        ended = tune.Tuner(
            tune.with_resources(Empty, {"CPU": 1}),
            param_space={"trial": tune.grid_search(list(range(EMPTY)))},
            tune_config=tune.TuneConfig(reuse_actors=True),
            run_config=tune.RunConfig(
                name="empty",
                storage_path=str(folder),
                verbose=0,
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            ),
        ).fit()
    ends = {i: (ended[i].metrics or {})["at"] for i in range(EMPTY)}
    return 1000 * _slot_seconds(ends, slots)[0]
