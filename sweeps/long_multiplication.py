#!/usr/bin/env python
"""How far do packed rows carry N x M multiplication, and what in its layout limits them?

Not a published result, and without rows yet. In the follow-up's layout (arXiv 2410.15787) product j
and running sum j have the same IDs on two of three levels, and no ID shows where A or B ends. In
ours (`sweeps/product_rows.py`) products and sums have IDs of their own, and `*` those that come
after the digits of both numbers. Rings in packed rows, two layers; the controls are one problem per
row, and the published layout in the same recipe. It was chosen for our layout on seeds from 1030
on, up to 12 x 12, and is to be tested beyond: two of them had 75 % of 8 x 8 digits right, 78 and 80
% of 12 x 4, 82 and 72 % of 4 x 12. It does not always fit: of two runs with seed 760, seen since,
one has 77 % of 4 x 4 and 4 % of 8 x 8, the other 97.5 and 49.5 %, most first errors in sums. Moduli
below 28 let keys of ten products look like others in one ring, 37 and 38 fit less well; with
packing from 25 % of the steps on, an earlier layout went less far, and with sharper attention in
evaluation no model further. A run of that layout with seed 740, without IDs for `*`, had nearly
every first error of 4 x 6 digits at whether a sixth product follows. Expected: only our layout in
packed rows leaves the trained square in both directions. All cells are compared with the first.
Cost: see `--plan`.
"""

from typing import Any

from pcore.config import override
from sweeps.baseline import TWO_LENGTHS, addition, level_rings, packed_and_alone, with_log_base
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid
from sweeps.scratchpad_multiplication import RINGS, SETTING, TASK

OURS = {"task.name": "sweeps.product_rows:ProductRows", "task.scratchpad": True}
RECIPE: dict[Scale, dict[str, Any]] = {
    "smoke": {
        **level_rings(5, 6),
        "data.problems_per_row": (1, 2),
        "data.packing_begins": (0.5,),
    },
    "laptop": RINGS
    | level_rings(28, 31)
    | {
        "model.d_model": 128,
        "optim.batch_size": 32,
        "optim.num_steps": 9600,
        "eval.near_lengths": (5, 6, 8, 10, 12),
        "eval.test_lengths": (14,),
        "eval.second_lengths": (1, 2, 4, 5, 6, 8, 10, 12, 14),
        "eval.num_examples": 200,
    },
    "paper": {
        **level_rings(94, 95),
        "data.problems_per_row": (1, 2, 5),
        "data.packing_begins": (0.05, 0.1),
    },
}


def cells(scale: Scale) -> list[Cell]:
    """Our layout with several problems per row and with one; the published one with several."""
    setting = SETTING[scale] | RECIPE[scale] | {"data.packed_overlap": 0.5}
    base = override(addition(scale), TASK | TWO_LENGTHS[scale] | setting)
    points = packed_and_alone(base, OURS, "uniform layout, {rows}")
    points["published layout, packed"] = with_log_base(base, {})
    return grid(base, arm=arms(points))


SWEEP = Sweep(
    title="N x M multiplication: rows of equal form",
    cells=cells,
    seeds={"smoke": "2", "laptop": "2x2@780", "paper": "4x2@780"},
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
