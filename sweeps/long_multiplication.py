#!/usr/bin/env python
"""How far do packed rows carry N x M multiplication, and what in its layout limits them?

Not a published result. In the follow-up's layout (arXiv 2410.15787) product j and running sum j
have the same IDs on two of three levels, and a sum ends where the longest product does. In ours
(`sweeps/product_rows.py`) products and sums have IDs of their own, and a sum ends with its product.
Rings in packed rows, two layers; the control is the published layout in the same recipe (one
problem per row: `scratchpad_multiplication`). The recipe was chosen for our layout on tuning seeds
(1030-1033) up to 12 x 12 and is tested beyond. With it two of them had 91 and 61 % of 8 x 8 digits
right; the first 28.5 with packing from 25 % of the steps on. Smaller moduli (5, 7 and 9; 11 and 13;
17 and 19) fit less well, or let keys of a longer problem look like others in one ring: with 24 and
25 so do those from the ninth product and from the twelfth digit of the first number on. Expected:
only our layout leaves the trained square in both directions. All cells are compared with the first.
Cost: see `--plan`.
"""

from typing import Any

from pcore.config import override
from sweeps.baseline import TWO_LENGTHS, addition, level_rings, with_log_base
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid
from sweeps.scratchpad_multiplication import SETTING, TASK

ROWS = {"task.name": "sweeps.product_rows:ProductRows", "task.scratchpad": True}
RECIPE: dict[Scale, dict[str, Any]] = {
    "smoke": {
        **level_rings(4, 5),
        "data.problems_per_row": (1, 2),
        "data.packing_begins": (0.5,),
        "data.packed_overlap": 0.5,
    },
    "laptop": {
        **level_rings(24, 25),
        "model.d_model": 128,
        "model.d_head": 64,
        "optim.num_steps": 4800,
        "data.problems_per_row": (1, 2, 4),
        "data.packing_begins": (0.05, 0.1),
        "data.packed_overlap": 0.5,
        "eval.near_lengths": (5, 6, 8, 10, 12),
        "eval.test_lengths": (14, 16),
        "eval.second_lengths": (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16),
        "eval.num_examples": 200,
    },
    "paper": {
        **level_rings(94, 95),
        "data.problems_per_row": (1, 2, 5),
        "data.packing_begins": (0.05, 0.1),
        "data.packed_overlap": 0.5,
    },
}


def cells(scale: Scale) -> list[Cell]:
    """Our layout and the published one, in packed rows."""
    base = override(addition(scale), TASK | TWO_LENGTHS[scale] | SETTING[scale] | RECIPE[scale])
    points = {
        "separate IDs, packed": with_log_base(base, ROWS),
        "published IDs, packed": with_log_base(base, {}),
    }
    return grid(base, arm=arms(points))


SWEEP = Sweep(
    title="N x M multiplication: IDs of their own for products and sums",
    cells=cells,
    seeds={"smoke": "2", "laptop": "2x2@740", "paper": "4x2@740"},
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
