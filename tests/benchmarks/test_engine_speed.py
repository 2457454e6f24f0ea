"""What the engine costs beside the trials: `pytest -m benchmark -s tests/benchmarks`.

On Ray a trial may cost MOST times what it costs inline. Plans, status and tables of a large store:
large_store.py.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from pcore.config import TrialConfig, override
from sweeps.baseline import addition
from sweeps.engine.executors import EXECUTORS, Executor, count_cpus
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Sweep, axis, grid
from sweeps.engine.store.names import parse_shard
from sweeps.engine.store.store import Store
from tests.benchmarks.record import record

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]


def made_up(name: str, seeds: int, base: TrialConfig, *rates: float) -> Sweep:
    """Learning rates for a measurement, with so many seeds."""
    cells, seeded = grid(base, rate=axis("optim.learning_rate", *rates)), {"smoke": str(seeds)}
    return Sweep(name=name, title=name, claim=name, cells=lambda _: cells, seeds=seeded)


NO_OP = override(
    addition("smoke"),
    {"optim.num_steps": 1, "optim.batch_size": 1, "eval.num_examples": 1, "eval.near_lengths": ()},
)
MANY = made_up("many", 4, NO_OP, *(i / 1e4 for i in range(1, 51)))
# Of some seconds each: laptop scale, but for the number of steps.
SECONDS = made_up("seconds", 3, override(addition("laptop"), {"optim.num_steps": 100}), 1e-3, 2e-3)
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
        record(f"engine: overhead per trial, {executor}", each[executor], "{:.1f} ms")
        record(f"engine: a trial's own work, {executor}", work, "{:.1f} ms")
    empty = _measure_tune(tmp_path)
    record("engine: an empty trial of Tune", empty, "{:.1f} ms")
    ours = (each["ray"] - empty) / each["inline"]
    assert record("engine: overhead beyond it, over inline", ours, "{:.2f}", most=MOST)


def test_trials_of_seconds_take_as_long_on_ray(tmp_path):
    """Seconds of a slot per trial at laptop scale with fewer steps. Attempts count as they took
    inline: how long they take when two run at once is a matter of the machine.
    """
    each = {e: _measure_overhead(tmp_path, SECONDS, e) for e in EXECUTORS}
    seconds = {e: (overhead + each["inline"][1]) / 1000 for e, (overhead, _) in each.items()}
    for executor, value in seconds.items():
        record(f"engine: a trial of some seconds, {executor}", value, "{:.2f} s")
    ratio = seconds["ray"] / seconds["inline"]
    assert record("engine: a trial of some seconds, Ray over inline", ratio, "{:.2f}", most=MOST)


@pytest.mark.parametrize("count", [1000, 10_000])
def test_thousands_of_trials_on_ray(tmp_path, count):
    """What a long launch costs: trials per second, the driver's memory at its end."""
    flags = ["--scale", "smoke", "--no-report", "--no-mlflow", "--executor", "ray"]
    began = time.perf_counter()
    assert main(MANY, [*flags, "--results", str(tmp_path), "--seeds", str(count // 50)]) == 0
    rate = count / (time.perf_counter() - began)
    memory = psutil.Process().memory_info().rss / 2**20
    record(f"engine: {count:,} trials on Ray", rate, "{:.1f} per second")
    assert record(f"engine: driver of {count:,} trials", memory, "{:,.0f} MiB", most=1024)


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
    from sweeps.engine.executors.ray_tune import tune  # seconds, at every start of a worker

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
