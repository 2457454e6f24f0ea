"""Training and evaluation on one CPU thread against the obvious version, in the same minutes:
`pytest -m benchmark -s tests/benchmarks`.

Limits hold for the paper's shape: training and evaluation 3 times the obvious version, half of the
rate at which this thread multiplies matrices, generation 2 % of a step.
"""

import copy
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from pcore.config import TrialConfig, override
from pcore.evaluation import evaluation_ids, judge, make_test_set
from pcore.tasks import Batch
from pcore.training import Run, learning_rate
from sweeps.baseline import addition
from sweeps.engine.arithmetic import process_settings
from tests.benchmarks.gpu import record, step_flops
from tests.support.obvious import ObviousTrainer, find_right

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]
CONFIGS: dict[str, TrialConfig] = {
    # 1 layer, 4 heads, d_model 512, d_ff 2048, trained on 1-30 digits
    "paper": override(addition("paper"), {"optim.batch_size": 100, "data.num_examples": None}),
    "laptop": addition("laptop"),
}
MULTIPLY = 2 * 1024**3
ROUNDS = {"paper": 12, "laptop": 60}
EVALUATED = {"paper": (60, 200), "laptop": (24, 500)}  # length, examples
MEMORY_LIMIT = {"paper": 512, "laptop": 64}  # MiB; docs/performance.md has 393 and 25
MEMORY = """
import torch
from pcore.training import Run
from tests.benchmarks.test_training_speed import CONFIGS, read_status
torch.set_num_threads(1)
torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], fused=True)  # imports what it needs
before = read_status("VmRSS")
run = Run(CONFIGS[{name!r}], "cpu")
for _ in range(5):
    run.update(run.data.next_batch(), 1e-4)
print(read_status("VmHWM") - before)
"""


def read_status(name: str) -> int:
    """A size of this process in MiB, from the kernel."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{name}:"))
    return int(line.split()[1]) // 1024


@pytest.fixture(autouse=True)
def one_thread():
    with process_settings(num_threads=1):  # as in an attempt
        yield


def alternate(works: list[Callable[[], object]], rounds: int) -> list[float]:
    """Median seconds of each, one call of each after the other, so that noise meets all alike."""
    times: list[list[float]] = [[] for _ in works]
    for i in range(rounds + 1):
        for work, taken in zip(works, times, strict=True):
            began = time.perf_counter()
            work()
            if i:  # the first round warms up
                taken.append(time.perf_counter() - began)
    return [statistics.median(taken) for taken in times]


def multiply() -> Callable[[], object]:
    """A large matrix product of MULTIPLY operations."""
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    return lambda: a @ b


@pytest.mark.parametrize("name", CONFIGS)
def test_training_steps_per_second(name):
    config = CONFIGS[name]
    run = Run(config, "cpu")
    obvious = ObviousTrainer(copy.deepcopy(run.model), config)
    batches = [run.data.next_batch() for _ in range(ROUNDS[name] + 1)]
    rate = learning_rate(config.optim, 0)
    mine, other = iter(batches), iter(batches)
    fast, slow, generation, multiplied = alternate(
        [
            lambda: float(run.update(next(mine), rate)[0]),
            lambda: obvious.update(next(other), rate, config.optim.weight_decay),
            run.data.next_batch,
            multiply(),
        ],
        ROUNDS[name],
    )
    peak, size = MULTIPLY / multiplied, config.optim.batch_size
    share = step_flops(config) / (fast + generation) / peak
    record(f"{name}: matmul rate of a thread", f"{peak / 1e9:.0f} GFLOP/s")
    record(f"{name}: training", f"{size / (fast + generation):,.0f} examples/s")
    record(f"{name}: training, obvious version", f"{size / (slow + generation):,.0f} examples/s")
    limits = name == "paper"
    record(
        f"{name}: training, times obvious",
        f"{(slow + generation) / (fast + generation):.2f}",
        ">= 3" if limits else "",
    )
    record(f"{name}: share of the matmul rate", f"{100 * share:.0f} %", ">= 50 %" if limits else "")
    record(f"{name}: generation", f"{size / generation:,.0f} examples/s")
    part = generation / (fast + generation)
    record(f"{name}: generation, share of a step", f"{100 * part:.1f} %", "<= 2 %" * limits)
    if limits:
        assert (slow + generation) / (fast + generation) >= 3
        assert share >= 0.5
        assert part <= 0.02


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
        [
            lambda: judge(model, batch, config),
            lambda: [find_right(model, config, *part) for part in parts],
        ],
        5,
    )
    record(f"{name}: evaluation at {length} digits", f"{count / fast:,.0f} examples/s")
    record(f"{name}: evaluation, obvious version", f"{count / slow:,.0f} examples/s")
    limits = name == "paper"
    record(f"{name}: evaluation, times obvious", f"{slow / fast:.2f}", ">= 3" if limits else "")
    if limits:
        assert slow / fast >= 3


@pytest.mark.parametrize("name", CONFIGS)
def test_peak_memory_of_training(name):
    code = MEMORY.format(name=name)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    peak, limit = int(done.stdout), MEMORY_LIMIT[name]
    record(f"{name}: peak memory of training", f"{peak:,} MiB", f"<= {limit} MiB")
    assert 0 < peak <= limit
