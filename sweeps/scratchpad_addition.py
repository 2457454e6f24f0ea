#!/usr/bin/env python
"""Can a model add more and longer numbers than in any training example?

Figure of the follow-up (arXiv 2410.15787): sums of 2-10 operands of 1-10 digits, tested on a grid
to 30 digits x 30 operands, for coupling, NoPE and FIRE, each with and without scratchpad. Published
(abstract): with a scratchpad and coupling on two levels both lengths extend approximately 2-3
times; that this means 30 x 30 is read from figures. The first caption says that with a scratchpad
all three methods extend. Another series trains to 7 x 7 and 13 x 13, with a batch of 200 and 2 x 2
seeds; our seeds are 4 x 2 as in the other arms, which includes those. Numbers of operands that were
never trained are an open question: here every column beyond the trained ones. Different from the
paper: without a scratchpad the digit counts of operands are independent, with one they are equal in
half of the examples. The paper also compares formats without zero padding, with the response or all
numbers reversed; these arms are missing. Layouts are made once per shape, and ten operands and
their sums, all of own widths, make nearly every example a shape of its own: the task refuses them.
Expected at laptop scale: with a scratchpad more of the grid outside the trained square is reached,
most with coupling. There we add rings in packed rows (not a published method), and alone as their
control. Small moduli let trained sums have IDs that are equal in one ring and not in others: with
5, 7 and 9, 54 % of the sums of four numbers of six digits were right, whose top digit is the first
with the ID of `=` modulo 7, and 98 % with 3, 4, 5 and 7 (a tuning seed, 1030, one run of each).
All cells are compared with the first, coupling with a scratchpad. Cost: see `--plan`.
"""

from typing import Any

from pcore.config import TrialConfig
from sweeps.baseline import FIRE, level_rings, log_length, many_operands, packed_and_alone
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid

PAPER_SIZES: dict[str, Any] = {"optim.batch_size": 200}
SIZES: dict[Scale, tuple[int, ...]] = {"smoke": (), "laptop": (3,), "paper": (7, 13)}
# Rings and rows of several problems, at laptop scale: tuned up to 8 x 8, tested beyond.
RINGS: dict[str, Any] = {
    **level_rings(3, 4, 5, 7),
    "model.d_ff": 256,
    "optim.num_steps": 8000,
    "data.problems_per_row": (1, 2, 4, 8),
    "data.packing_begins": (0.05, 0.1, 0.15),
    "eval.near_lengths": (5, 6, 8),
    "eval.test_lengths": (10, 12, 16),
    "eval.second_lengths": (2, 3, 4, 5, 6, 8, 10, 12, 16),
}


def cells(scale: Scale) -> list[Cell]:
    """Three methods with and without scratchpad; coupling trained on other squares; rings."""
    base = many_operands(scale)
    points: dict[str, dict[str, Any]] = {}
    for label, scratchpad in {"scratchpad": True, "no scratchpad": False}.items():
        shown = {"task.scratchpad": scratchpad}
        points[f"{label}, coupling"] = shown | log_length(scale)
        points[f"{label}, NoPE"] = shown | {"position.encoding": "none"}
        points[f"{label}, FIRE"] = shown | FIRE
    for size in SIZES[scale]:
        label = f"scratchpad, coupling, trained to {size} x {size}"
        points[label] = _trained(base, size) | log_length(scale)
        points[label] |= PAPER_SIZES if scale == "paper" else {}
    if scale == "laptop":
        points |= packed_and_alone(base, RINGS, "scratchpad, rings, {rows}")
    return grid(base, arm=arms(points))


def _trained(base: TrialConfig, size: int) -> dict[str, Any]:
    """A trained square of this side; what lies between it and the tested lengths is near, or tested
    too where the base has no near range.
    """
    name = "near_lengths" if base.eval.near_lengths else "test_lengths"
    last = max(getattr(base.eval, name))
    lengths = tuple(range(size + 1, last + 1))
    return {"task.num_operands": size, "data.max_length": size, f"eval.{name}": lengths}


SWEEP = Sweep(title="Addition of many operands: scratchpad, both lengths tested", cells=cells)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
