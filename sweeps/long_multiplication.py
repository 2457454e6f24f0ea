#!/usr/bin/env python
"""How far do packed rows carry N x M multiplication, and what in its layout limits them?

Not a published result. In the follow-up's layout (arXiv 2410.15787) the two addends of a running
sum are looked up by two levels of IDs; running sums repeat digits that are final, sum 0 is product
0 once more, and no ID shows where a row, or the second number, ends. In ours
(`sweeps/product_rows.py`) the addends are one and two fixed steps back on one level, and each end
has a key. Both have rings in packed rows and two layers, with a recipe that was chosen for ours on
seeds from 1030 on, up to 12 x 12; the test is beyond. `scratchpad_multiplication` has the published
layout with a recipe of its own, and with one problem per row.

Known from tuning, with earlier layouts of ours: where addends were looked up by two levels, the
loss stayed at 0.3 until step 900 to 3,500, with products right and sums as good as guessed. With
the IDs of A on sums, too, attention went to the same place of rows that are further apart than
trained ones: 4 x 12 had 47 and 12 %. With rows on one level and significance on another, keys that
agree on one of them drew attention: 12 x 4 had 54 to 75 % (seeds 780 and 781, not published, with
attention sharpened by 1.15), 16 x 16 was not tested. Both addends of a sum at the same IDs leave
one head to balance two keys; a fixed step for each, on one level, was ahead of one step for both
at step 1,850 of the one run of each (loss at 12 x 12 0.16 and 0.23 nats). Half the batch in twice
the steps fits better. With ranges that overlapped in half of the rows, the published layout had 0
to 22 % at 12 x 4 in four runs (780 and 781). Each layout is tested on products of its own, so there
is no paired comparison. Expected: both numbers go on in ours, the first one alone in the published
layout (two of its runs were seen before this was written).

Four rings came last, by the rule of `long_sums`: no two IDs of a problem agree in more than two of
them, while one of two rings repeats at every multiple of 28. One run of seed 1042 had 86 % of 12 x
12 so, and 92 % with wider rows, which a first number of more than 17 digits needs. Expected: ahead
of two rings at 16 x 16, and less than half right at 24 x 24. Cost: see `--plan`.
"""

from typing import Any

from pcore.config import override
from sweeps.baseline import TWO_LENGTHS, addition, level_rings, with_log_base
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid
from sweeps.scratchpad_multiplication import RINGS, SETTING, TASK

OURS = {"task.name": "sweeps.product_rows:ProductRows", "task.scratchpad": True}
ROW_STEP: dict[Scale, int] = {"smoke": 8, "laptop": 20, "paper": 40}  # tested on 4, 16, 30 digits
RECIPE: dict[Scale, dict[str, Any]] = {
    "smoke": {
        **level_rings(13, 14),
        "data.problems_per_row": (1, 2),
        "data.packing_begins": (0.5,),
    },
    "laptop": RINGS
    | level_rings(28, 31)
    | {
        "model.d_model": 128,
        "optim.learning_rate": 1.5e-3,
        "optim.batch_size": 32,
        "optim.num_steps": 9600,
        "eval.near_lengths": (5, 6, 8, 10, 12),
        "eval.test_lengths": (14, 16),
        "eval.second_lengths": (1, 2, 4, 6, 8, 10, 12, 14, 16),
        "eval.num_examples": 200,
    },
    "paper": {
        **level_rings(94, 95),
        "data.problems_per_row": (1, 2, 5),
        "data.packing_begins": (0.05, 0.1),
    },
}
# Wider rows, and rings of which any three tell all IDs of 24 x 24 digits apart.
FOUR_RINGS: dict[str, Any] = (
    OURS
    | level_rings(11, 15, 17, 23)
    | {
        "task.row_step": 40,
        "eval.test_lengths": (14, 16, 20, 24),
        "eval.second_lengths": (1, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24),
    }
)


def cells(scale: Scale) -> list[Cell]:
    """Our layout and the published one, both with several problems per row."""
    setting = SETTING[scale] | RECIPE[scale]
    base = override(addition(scale), TASK | TWO_LENGTHS[scale] | setting)
    points = {
        "addends at fixed steps, packed": with_log_base(
            base, OURS | {"task.row_step": ROW_STEP[scale]}
        ),
        "published layout, packed": with_log_base(base, {}),
    }
    if scale == "laptop":
        points["four rings, addends at fixed steps, packed"] = with_log_base(base, FOUR_RINGS)
    return grid(base, arm=arms(points))


SWEEP = Sweep(
    title="N x M multiplication: an addend per fixed step",
    cells=cells,
    seeds={"smoke": "2", "laptop": "2x2@790", "paper": "4x2@790"},
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
