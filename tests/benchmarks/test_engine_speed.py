"""What the engine costs beside the trials: `pytest -m benchmark -s tests/benchmarks`.

Limits: planning 10,000 trials 2 s, of which their prices 1 s, their status 3 s, loading and
tabulating them 5 s, 20 ms for each of 500 trials beyond what the trial itself takes.
"""

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from analysis.load import load_sweep
from analysis.tables.sweep_tables import ablation_table
from pcore.config import override
from pcore.flops import count_train_flops
from sweeps.baseline import addition
from sweeps.commands.catalogue import list_sweep
from sweeps.commands.show import show_status
from sweeps.engine.executors.ray_tune import SCRATCH
from sweeps.engine.launch.cli import main
from sweeps.engine.launch.launch import view_rows
from sweeps.engine.plan import make_plan
from sweeps.engine.spec import Sweep, axis, grid
from sweeps.engine.store.store import Store
from sweeps.engine.trial import provenance

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]
STEPS = tuple(range(1, 101))
DEEPER = Sweep(
    name="deeper",
    title="A large sweep of which nothing was measured",
    claim="100 cells, 100 seeds.",
    cells=lambda scale: grid(
        override(addition("smoke"), {"model.num_layers": 4}), steps=axis("optim.num_steps", *STEPS)
    ),
    seeds={"smoke": "100", "laptop": "100", "paper": "100"},
)
LARGE = Sweep(
    name="large",
    title="A large sweep",
    claim="100 cells, 100 seeds.",
    cells=lambda scale: grid(
        addition("smoke"),
        steps=axis("optim.num_steps", *STEPS[:25]),
        heads=axis("model.num_heads", 1, 2, 4, 8),
    ),
    seeds={"smoke": "100", "laptop": "100", "paper": "100"},
)
NO_OP = override(
    addition("smoke"),
    {"optim.num_steps": 1, "optim.batch_size": 1, "eval.num_examples": 1, "eval.near_lengths": ()},
)
MANY = Sweep(
    name="many",
    title="Trials that do next to nothing",
    claim="One step on one example.",
    cells=lambda scale: grid(
        NO_OP, rate=axis("optim.learning_rate", *(i / 1e4 for i in range(1, 51)))
    ),
    seeds={"smoke": "10", "laptop": "10", "paper": "10"},
)


def seconds(work: Callable[[], object]) -> float:
    """Wall seconds of the faster of two runs."""
    times: list[float] = []
    for _ in range(2):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


@pytest.fixture(scope="module")
def filled(tmp_path_factory) -> Store:
    """10,000 finished trials of 100 cells and 4 different steps, with 20 reports and 6 evaluations
    each.
    """
    store = Store(tmp_path_factory.mktemp("large"))
    plan = make_plan(LARGE, "smoke", None, store, priced=False)
    store.write_view(view_rows(plan))
    counts = {
        "checkpoint": "last",
        "num_examples": 50,
        "num_tokens": 500,
        "num_correct_tokens": 500,
    }
    kinds = dict.fromkeys(("num_missed_stop", "num_early_stop", "num_wrong_symbol"), 0)
    ranges = {1: "train", 2: "train", 3: "train", 4: "near", 5: "test", 6: "test"}
    evaluations = [
        counts | kinds | {"range": kind, "length": length, "num_correct": 50, "loss_sum": 0.1}
        for length, kind in ranges.items()
    ]
    reports = [{"step": i, "loss": 1.0, "grad_norm": 1.0, "seconds": 0.1} for i in range(20)]
    times = {"wall_seconds": 3.0, "train_seconds": 2.0, "eval_seconds": 1.0, "first_step": 0}
    place = {"device": "cpu", "num_threads": 1, "started_at": "2026-01-01T00:00:00+00:00"}
    trial = {**times, **place, **provenance.code_provenance()}
    began = time.perf_counter()
    for planned in plan.trials:
        flops = {"train_flops": count_train_flops(planned.trial.config)}
        store.write(planned.trial.config, "ok", trial | flops, reports, evaluations)
    print(f"\nwriting 10,000 shards: {time.perf_counter() - began:.1f} s")
    return store


def test_planning_10000_trials(tmp_path, record):
    took = seconds(lambda: make_plan(LARGE, "smoke", None, Store(tmp_path), priced=False))
    record("engine: planning 10,000 trials, empty store", f"{took:.2f} s", "< 2 s")
    assert took < 2


def test_reading_10000_trials(filled, record):
    began = time.perf_counter()
    assert isinstance(Store(filled.root).load(record="trial"), pa.Table)
    cold = time.perf_counter() - began
    began = time.perf_counter()
    Store(filled.root).pack()
    packing = time.perf_counter() - began
    plan = seconds(lambda: make_plan(LARGE, "smoke", None, Store(filled.root)))
    from_speed = make_plan(DEEPER, "smoke", None, Store(filled.root))
    assert {p.price.source for p in from_speed.to_run if p.price} == {"speed of 25 cells"}
    priced = seconds(lambda: make_plan(DEEPER, "smoke", None, Store(filled.root)))
    unpriced = seconds(lambda: make_plan(DEEPER, "smoke", None, Store(filled.root), priced=False))
    status = seconds(lambda: show_status(filled.root, [list_sweep(LARGE, "smoke")]))
    table = seconds(lambda: ablation_table(load_sweep(filled.root, "large", "smoke")))
    record("engine: reading 10,000 loose shards", f"{cold:.1f} s")
    record("engine: packing 10,000 shards", f"{packing:.1f} s")
    record("engine: planning 10,000 finished trials", f"{plan:.2f} s", "< 2 s")
    record("engine: planning 10,000 trials, prices from other cells", f"{priced:.2f} s", "< 2 s")
    record("engine: of that, prices", f"{priced - unpriced:.2f} s", "< 1 s")
    record("engine: status of 10,000 trials", f"{status:.2f} s", "< 3 s")
    record("engine: loading and tabulating 10,000 trials", f"{table:.2f} s", "< 5 s")
    assert max(plan, priced) < 2
    assert priced - unpriced < 1
    assert status < 3
    assert table < 5


@pytest.mark.parametrize("mirror", [False, True], ids=["alone", "mirror"])
def test_overhead_of_500_trials(tmp_path, mirror, record):
    """Inline and on Ray, one after the other; mirror: with the live mirror beside the trials, whose
    process takes a part of the same cores.
    """
    beside = ", with the live mirror" if mirror else ""
    each: dict[str, float] = {}
    for executor in ("inline", "ray"):
        each[executor], work = _measure_overhead(tmp_path / executor, executor, mirror)
        limit = "" if mirror else "< 20 ms"
        record(f"engine: overhead per trial, {executor}{beside}", f"{each[executor]:.1f} ms", limit)
        record(f"engine: a trial's own work, {executor}{beside}", f"{work:.1f} ms")
    ratio = each["ray"] / each["inline"]
    record(f"engine: overhead on Ray over inline{beside}", f"{ratio:.2f}", "" if mirror else "1.2")
    if not mirror:
        assert max(each.values()) < 20
        assert ratio <= 1.2


@pytest.mark.parametrize("count", [1000, 5000, 10_000])
def test_thousands_of_trials_on_ray(tmp_path, count, record):
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


def _measure_overhead(folder: Path, executor: str, mirror: bool) -> tuple[float, float]:
    """Milliseconds per trial: wall time of the launch minus starting Ray, over all slots, minus
    what the attempts took; and what they took.
    """
    slots = 1 if executor == "inline" else os.cpu_count() or 1
    flags = ["--scale", "smoke", "--no-report", "--executor", executor]
    flags += [] if mirror else ["--no-mlflow"]
    assert main(MANY, [*flags, "--results", str(folder / "warm"), "--seeds", "1"]) == 0
    began = time.perf_counter()
    assert main(MANY, [*flags, "--results", str(folder / "none"), "--seeds", "1"]) == 0
    small = time.perf_counter() - began
    began = time.perf_counter()
    assert main(MANY, [*flags, "--results", str(folder / "all")]) == 0
    wall = time.perf_counter() - began
    work = (_attempt_seconds(folder / "all") - _attempt_seconds(folder / "none")) / 450
    return 1000 * ((wall - small) * slots / 450 - work), 1000 * work


def _attempt_seconds(folder: Path) -> float:
    table = Store(folder).load(record="trial", columns=["wall_seconds"])
    return sum(table.column("wall_seconds").to_pylist())
