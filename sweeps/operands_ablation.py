#!/usr/bin/env python
"""Does position coupling add three numbers as well as two?

Figure of the paper (arXiv 2405.20671): sums of three operands of 1-40 digits, coupling with 1 to 3
layers, NoPE and random-start APE with 6, four runs each. Published: with three layers 95 % holds to
90 digits, the most consistent; one layer holds to about 100 digits in some runs; the others fail
right after the trained lengths. Expected at laptop scale: coupling goes beyond the trained lengths,
the others do not; packed rows and rings go far beyond. Width and steps are those with which two
layers fit the trained lengths (tuning seed 1030: 100 % of each; with d_ff 128 and 2,000 steps 73 to
92 %); the other methods have as many of both and two layers too, packed rows fewer steps. A third
layer costs 12 minutes of a core a run and is left out there. All cells are compared with the first,
coupling at the depth that was published as most consistent (at laptop scale two layers). Cost: see
`--plan`.
"""

from typing import Any

from pcore.config import override
from sweeps.baseline import (
    BASELINE_DEPTH,
    addition,
    coupling_by_depth,
    log_length,
    packed,
    with_log_base,
    without_coupling,
)
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid

SETTING: dict[Scale, dict[str, Any]] = {
    "smoke": {},
    "laptop": {
        "model.d_ff": 512,
        "optim.num_steps": 8000,
        "data.max_length": 8,
        "position.max_position": 20,
        "eval.near_lengths": (9, 10, 11),
        "eval.test_lengths": (12, 14, 16),
    },
    "paper": {
        "data.max_length": 40,
        "position.max_position": 102,
        "eval.test_lengths": tuple(range(45, 101, 5)),
    },
}
DEPTHS: dict[Scale, tuple[int, ...]] = {
    "smoke": (2, 1),
    "laptop": (2, 1),
    "paper": (3, 1, 2),
}
OTHERS = BASELINE_DEPTH | {"laptop": 2}


def cells(scale: Scale) -> list[Cell]:
    """Coupling at every depth, the reference first; the other methods; four operands, not at
    laptop scale."""
    base = override(addition(scale), {"task.num_operands": 3} | SETTING[scale])
    points = coupling_by_depth(DEPTHS[scale], log_length(scale))
    depth = OTHERS[scale]
    shape = {"model.num_layers": depth} | ({"optim.batch_size": 800} if scale == "paper" else {})
    for name, changes in without_coupling(base, 1023 if scale == "paper" else 0).items():
        points[f"{name}, {depth} layers"] = changes | shape
    if scale != "laptop":
        four = {"task.num_operands": 4, "model.num_layers": max(DEPTHS[scale])}
        points[f"4 operands, coupling, {max(DEPTHS[scale])} layers"] = four | log_length(scale)
    return grid(base, arm=arms(points)) + (_packed() if scale == "laptop" else [])


def _packed() -> list[Cell]:
    """The recipe of `thousand_digits` with two layers and more steps."""
    base = packed("laptop")
    changes = {
        "task.num_operands": 3,
        "model.num_layers": 2,
        "optim.num_steps": 6000,
        "data.max_length": 8,
        "eval.near_lengths": (9, 10, 11),
        "eval.test_lengths": (12, 14, 16, 24, 32, 64, 130, 330),
        "eval.num_examples": 500,
        "eval.length_budget": 50_000,
    }
    points = {"coupling, 2 layers, rings, packed": with_log_base(base, changes)}
    return grid(base, arm=arms(points))


SWEEP = Sweep(
    title="Addition of three operands: depth with position coupling",
    cells=cells,
    seeds={"smoke": "2", "laptop": "2x2@700", "paper": "4"},
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
