#!/usr/bin/env python
"""Does position coupling work in two dimensions, and does each dimension need its own table?

Figure of the paper (arXiv 2405.20671): minesweeper generator, boards of side 5-9, four runs each.
Published: one table shared by columns and rows solves more than 98 % of boards of 12 x 12 and about
90 % of 14 x 14; two tables only reach 10 x 10; NoPE with six layers fails on trained sizes. The
published max_position of 15 allows boards to 14 x 14 (counting starts at 1 and `=` has its own ID),
so tests end there. The authors' script has a batch of 800 and a million examples, their table 200
and 100,000; we follow the table. Expected at laptop scale: the shared table first, NoPE last. There
coupling is tested from random starts: counting from 1 in both directions gives a column and a row
the same row of a shared table, which training hardly ever shows, and one run of a tuning seed
(1030) then gets 76 % of the boards of trained side 5 instead of 86.

There we add rings, one layer and a layout of ours (`sweeps.minesweeper_ahead:Ahead`): a model that
has to find out where a row ends gets the first cells of rows wrong. In packed rows the IDs of
problems overlap on one level in half of the rows (`data.packed_overlap`), since beyond the trained
sides cells of one row are as far apart as those of two boards were; controls are ranges apart on
both levels, one problem per row, and the published layout. They train to side 6. Tuned on seed
1030, one run each, whose boards to side 12 were seen: 98 % at side 7, as many with the logarithm to
the base of other packed sweeps (92 instead of 98 at side 8), 92 with ranges apart; with three
layers and moduli 3, 4, 5 and 7 92 apart and 78 if they overlap in two thirds of the rows. All cells
are compared with the first, the shared table. Cost: see `--plan`.
"""

from typing import Any

from pcore.config import override
from sweeps.baseline import ALONE, addition, level_rings, log_length
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid

SETTING: dict[Scale, dict[str, Any]] = {
    "smoke": {"model.num_layers": 2},
    "laptop": {
        "model.num_layers": 3,
        "optim.num_steps": 4000,
        "data.min_length": 3,
        "data.max_length": 5,
        "position.max_position": 9,
        "eval.near_lengths": (6,),
        "eval.test_lengths": (7, 8),
    },
    "paper": {
        "model.num_layers": 4,
        "model.num_heads": 8,
        "model.d_head": 64,
        "data.min_length": 5,
        "data.max_length": 9,
        "data.num_examples": 100_000,
        "optim.num_steps": 100_000,
        "optim.batch_size": 200,
        "position.max_position": 15,
        "eval.test_lengths": tuple(range(10, 15)),
    },
}
# Where coupling starts to count in tests, at paper scale as published.
TESTED: dict[Scale, dict[str, Any]] = {
    "smoke": {},
    "laptop": {"position.test_policy": "wrapped"},
    "paper": {},
}
NOPE: dict[Scale, dict[str, Any]] = {
    "smoke": {},
    "laptop": {"model.num_layers": 4},
    "paper": {"model.num_layers": 6, "optim.learning_rate": 2e-4},
}
# One layer with rings, at laptop scale.
RINGS: dict[str, Any] = {
    **level_rings(5, 7, 9),
    "task.name": "sweeps.minesweeper_ahead:Ahead",
    "position.level_tables": "separate",
    "model.num_layers": 1,
    "model.num_heads": 8,
    "model.d_head": 16,
    "model.d_ff": 256,
    "optim.num_steps": 6000,
    "data.max_length": 6,
    "data.problems_per_row": (1, 2, 4),
    "data.packing_begins": (0.05, 0.1),
    "data.packed_overlap": 0.5,
    "eval.near_lengths": (7,),
    "eval.test_lengths": (8, 9, 10, 12),
}


def cells(scale: Scale) -> list[Cell]:
    """Coupling with a shared table and with two; NoPE; rings and their controls."""
    base = override(addition(scale), {"task.name": "minesweeper"} | SETTING[scale])
    coupled = log_length(scale) | TESTED[scale]
    points: dict[str, dict[str, Any]] = {
        "shared table": coupled,
        "separate tables": coupled | {"position.level_tables": "separate"},
        "NoPE": {"position.encoding": "none"} | NOPE[scale],
    }
    if scale == "laptop":
        points |= {
            "ahead, rings, packed": RINGS,
            "ahead, rings, packed apart": RINGS | {"data.packed_overlap": 0.0},
            "ahead, rings, alone": RINGS | ALONE,
            "rings, packed": RINGS | {"task.name": "minesweeper"},
        }
    return grid(base, arm=arms(points))


SWEEP = Sweep(
    title="Minesweeper: one position table for both directions, two, or none",
    cells=cells,
    seeds={"smoke": "2", "laptop": "2x2@700", "paper": "4"},
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
