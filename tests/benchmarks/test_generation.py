"""Speed of example generation on one thread: `pytest -m benchmark -s tests/benchmarks`.

Measured in seconds of CPU time, so that other work on the machine disturbs it less.
"""

import time

import pytest
import torch

from pcore.tasks import Task
from pcore.tasks.addition import Addition
from pcore.tasks.commands import Commands
from pcore.tasks.minesweeper import Minesweeper
from pcore.tasks.multiplication import Multiplication
from pcore.tasks.strings import Copy, Parity, Reverse, Sorting

BATCH = 10_000
CASES: dict[str, tuple[Task, int, int, int]] = {  # task, shortest, longest, least examples/s
    "addition": (Addition(), 1, 30, 300_000),
    "addition-nopad": (Addition(zero_pad=False), 1, 30, 50_000),
    "addition-hints": (Addition(index_hints=True), 1, 30, 50_000),
    "addition-4": (Addition(num_operands=4), 1, 30, 50_000),
    "addition-scratchpad": (
        Addition(num_operands=10, min_operands=2, scratchpad=True),
        1,
        10,
        50_000,
    ),
    "multiplication": (Multiplication(), 1, 40, 50_000),
    "multiplication-scratchpad": (Multiplication(scratchpad=True), 1, 10, 50_000),
    "copy": (Copy(), 1, 40, 50_000),
    "reverse": (Reverse(), 1, 40, 50_000),
    "minesweeper": (Minesweeper(), 5, 9, 50_000),
    "parity-scratchpad": (Parity(scratchpad=True), 1, 20, 50_000),
    "sorting": (Sorting(), 1, 40, 50_000),
    "commands": (Commands(coupling="both_ways"), 1, 10, 50_000),
}


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.benchmark
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", CASES)
def test_examples_per_second(name: str):
    task, low, high, least = CASES[name]
    rng = torch.Generator().manual_seed(0)
    task.sample_mixture(BATCH, low, high, rng)
    best = 0.0
    for _ in range(3):
        began, rounds = time.process_time(), 5
        for _ in range(rounds):
            task.sample_mixture(BATCH, low, high, rng)
        best = max(best, rounds * BATCH / (time.process_time() - began))
    print(f"\n{name:26s} {best:12,.0f} examples/s")
    assert best >= least
