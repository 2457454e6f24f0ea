"""Training and evaluation on one CPU thread against the obvious version, in the same minutes:
`pytest -m benchmark -s tests/benchmarks`.

Limits count at the paper's shape: training and evaluation 3 times the obvious version, half of the
rate at which this thread multiplies matrices, generation 2 % of a step.
"""

import copy
import multiprocessing
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from pcore.config import TrialConfig, override
from pcore.evaluation import evaluation_ids, judge, make_test_set
from pcore.flops import count_example_flops
from pcore.tasks import Batch
from pcore.training import Run, learning_rate
from sweeps.baseline import addition
from sweeps.engine.arithmetic import process_settings
from tests.benchmarks.record import record
from tests.support.obvious import ObviousTrainer, find_right

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]
CONFIGS: dict[str, TrialConfig] = {
    # 1 layer, 4 heads, d_model 512, d_ff 2048, trained on 1-30 digits
    "paper": override(addition("paper"), {"optim.batch_size": 100, "data.num_examples": None}),
    "laptop": addition("laptop"),
}
ROUNDS = {"paper": 12, "laptop": 60}
EVALUATED = {"paper": (60, 200), "laptop": (24, 500)}  # length, examples
MEMORY_LIMIT = {"paper": 512, "laptop": 64}  # MiB; docs/performance.md has 393 and 25
# Times the obvious version, of the thread's rate of multiplying, of a step for making its batch.
LIMITS = {"paper": (3.0, 0.5, 0.02), "laptop": (1.0, 0.0, 1.0)}


@pytest.fixture(autouse=True)
def one_thread():
    with process_settings(num_threads=1):  # as in an attempt
        yield


def alternate(rounds: int, *works: Callable[[], object]) -> list[float]:
    """Median seconds of each, one call of each after the other, so that noise meets all alike."""
    times: list[list[float]] = [[] for _ in works]
    for i in range(rounds + 1):
        for work, taken in zip(works, times, strict=True):
            began = time.perf_counter()
            work()
            if i:  # the first round warms up
                taken.append(time.perf_counter() - began)
    return [statistics.median(taken) for taken in times]


def step_flops(config: TrialConfig) -> float:
    """What a step needs: the mean over trained lengths, times batch size, times 3."""
    lengths = range(config.data.min_length, config.data.max_length + 1)
    mean = statistics.mean(count_example_flops(config, length) for length in lengths)
    return 3 * config.optim.batch_size * mean


@pytest.mark.parametrize("name", CONFIGS)
def test_training_steps_per_second(name):
    config, (least_times, least_share, most_part) = CONFIGS[name], LIMITS[name]
    run, matrix = Run(config, "cpu"), torch.randn(1024, 1024)
    obvious = ObviousTrainer(copy.deepcopy(run.model), config)
    batches = [run.data.next_batch() for _ in range(ROUNDS[name] + 1)]
    rate = learning_rate(config.optim, 0)
    mine, other = iter(batches), iter(batches)
    fast, slow, generation, multiplied = alternate(
        ROUNDS[name],
        lambda: float(run.update(next(mine), rate)[0]),
        lambda: obvious.update(next(other), rate, config.optim.weight_decay),
        run.data.next_batch,
        lambda: matrix @ matrix,
    )
    size, step, peak = config.optim.batch_size, fast + generation, 2 * 1024**3 / multiplied
    times, share = (slow + generation) / step, step_flops(config) / step / peak
    part = generation / step
    record(f"{name}: matmul rate of a thread", peak / 1e9, "{:.0f} GFLOP/s")
    record(f"{name}: training", size / step, "{:,.0f} examples/s")
    record(f"{name}: generation", size / generation, "{:,.0f} examples/s")
    kept = [
        record(f"{name}: training, times obvious", times, "{:.2f}", least_times),
        record(f"{name}: share of the matmul rate", share, "{:.0%}", least_share),
        record(f"{name}: generation, share of a step", part, "{:.1%}", most=most_part),
    ]
    assert all(kept)


@pytest.mark.parametrize("name", CONFIGS)
def test_evaluated_examples_per_second(name):
    config, (length, count) = CONFIGS[name], EVALUATED[name]
    config = override(config, {"eval.num_examples": count, "eval.test_lengths": (length,)})
    model = Run(config, "cpu").model
    batch = make_test_set(config, length)
    ids, size = evaluation_ids(batch, config), config.optim.batch_size
    parts = [
        (Batch(*(t[i : i + size] for t in batch)), ids[i : i + size]) for i in range(0, count, size)
    ]
    fast, slow = alternate(
        5,
        lambda: judge(model, batch, config),
        lambda: [find_right(model, config, *part) for part in parts],
    )
    record(f"{name}: evaluation at {length} digits", count / fast, "{:,.0f} examples/s")
    assert record(f"{name}: evaluation, times obvious", slow / fast, "{:.2f}", LIMITS[name][0])


def read_status(name: str) -> int:
    """A size of this process in MiB, from the kernel."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{name}:"))
    return int(line.split()[1]) // 1024


def peak_of_training(name: str) -> int:
    """MiB that training adds to a process."""
    torch.set_num_threads(1)
    torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], fused=True)  # imports what it needs
    before = read_status("VmRSS")
    run = Run(CONFIGS[name], "cpu")
    for _ in range(5):
        run.update(run.data.next_batch(), 1e-4)
    return read_status("VmHWM") - before


@pytest.mark.parametrize("name", CONFIGS)
def test_peak_memory_of_training(name):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        peak = pool.apply(peak_of_training, (name,))
    assert record(f"{name}: peak memory of training", peak, "{:,} MiB", 1, MEMORY_LIMIT[name])
