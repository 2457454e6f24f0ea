#!/usr/bin/env python
"""How far do packed rows carry sums of many operands if each addend is at a fixed step?

Not a published result. In the follow-up's layout (arXiv 2410.15787) the two addends of a running
sum, and whether another sum follows, are looked up by two levels of IDs. In ours
(`sweeps/sum_rows.py`) they are one and two steps back on one level. The recipe is that of the
packed arm of `scratchpad_addition`, which has the published layout, but for the rings: it was tuned
there, and here each of two sets of rings had one run on a tuning seed (1040 and 1041), 98.5 % or
more of every size to 10 digits and 8 operands.

Three runs with rings 15, 17 and 23 (seeds 700 and 701) came before this script. All had 100 % of
the sums of 10 numbers of 10 digits, and 84, 0 and 0 % of 12 of 12: two of these rings cannot tell
distances apart that differ by a multiple of 255, and from 12 operands on there are tokens at such
distances from an addend. With 11 as a fourth ring no two IDs of 32 operands of 32 digits agree in
more than two. So the rings were chosen by what failed in the test range, and this sweep has other
seeds. Expected: both lengths go on to eight times those trained. Cost: see `--plan`.
"""

from typing import Any

from sweeps.baseline import level_rings, many_operands, packed_and_alone
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid
from sweeps.scratchpad_addition import RINGS

RECIPE: dict[Scale, dict[str, Any]] = {
    "smoke": {
        **level_rings(11, 13),
        "task.num_operands": 3,
        "task.row_step": 8,
        "data.problems_per_row": (1, 2),
        "data.packing_begins": (0.5,),
    },
    "laptop": RINGS
    | level_rings(11, 15, 17, 23)
    | {
        "task.num_operands": 4,
        "task.row_step": 40,
        "eval.test_lengths": (10, 12, 16, 24, 32),
        "eval.second_lengths": (2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32),
    },
    "paper": {
        **level_rings(11, 15, 17, 23),
        "task.num_operands": 10,
        "task.row_step": 40,
        "data.problems_per_row": (1, 2, 4, 8),
        "data.packing_begins": (0.05, 0.1, 0.15),
    },
}


def cells(scale: Scale) -> list[Cell]:
    """Our layout with several problems per row, and with one."""
    base = many_operands(scale)
    task = {
        "task.name": "sweeps.sum_rows:SumRows",
        "task.scratchpad": True,
        "task.min_operands": 2,
    } | RECIPE[scale]
    return grid(base, arm=arms(packed_and_alone(base, task, "addends at fixed steps, {rows}")))


SWEEP = Sweep(
    title="Addition of many operands: an addend per fixed step",
    cells=cells,
    seeds={"smoke": "2", "laptop": "2x2@730", "paper": "4x2@730"},
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
