#!/usr/bin/env python
"""What do packed rows teach: to ignore far keys, or far IDs, and does it need coupled IDs?

Not a published result. The reference is packed rings with at most 8 problems in a row, as in
`packing_ablation`. Two arms show far IDs without other problems (`sweeps/distractors.py`): pieces
of random digits before the query, about as long as the other problems of such a row, or gaps in the
IDs of the one problem (PoSE, arXiv 2309.10400). The others replace the IDs in the reference's
recipe, with as many problems, the same width, learning rate and schedule, and three layers instead
of one. Nothing was tuned. Expected: distractors carry about as far as other problems, gaps less
far, and no method without coupled IDs goes beyond the trained lengths. All cells are compared with
the first. Cost: see `--plan`.
"""

from typing import Any

from pcore.config import override
from sweeps.baseline import (
    ALONE,
    BASELINE_DEPTH,
    LONGEST_TABLE,
    PACKED,
    fewer_in_a_row,
    methods,
    packed,
    table_of_rows,
)
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid
from sweeps.packing_ablation import LONGEST

PIECE: dict[Scale, int] = {"smoke": 11, "laptop": 30, "paper": 66}  # tokens of a mean problem
# At smoke scale no rings that fit the model hold such far IDs.
NO_RINGS: dict[str, Any] = {
    "position.encoding": "sinusoidal",
    "position.moduli": (),
    "position.max_position": PACKED["laptop"]["position.max_position"],
}


def cells(scale: Scale) -> list[Cell]:
    """The reference, arms with far IDs, then other position methods."""
    recipe = packed(scale)
    tests = tuple(n for n in recipe.eval.test_lengths if n <= LONGEST)
    shared = {"eval.test_lengths": tests} | fewer_in_a_row(scale)
    base = override(recipe, shared | (NO_RINGS if scale == "smoke" else {}))
    alone: dict[str, dict[str, Any]] = {
        "rings, alone": {},
        "rings, distractors": {
            "task.name": "sweeps.distractors:Distractors",
            "task.most": max(base.data.problems_per_row) - 1,
            "task.piece": PIECE[scale],
        },
        "rings, gaps": {
            "task.name": "sweeps.distractors:Gaps",
            "task.most": base.data.max_length,
        },
    }
    points = {label: ALONE | changes for label, changes in alone.items()}
    return grid(base, arm=arms({"rings, packed": {}} | points | _others(scale, tests)))


def _others(scale: Scale, tests: tuple[int, ...]) -> dict[str, dict[str, Any]]:
    """Position methods without coupled IDs, packed, as changes to the reference."""
    short = tuple(n for n in tests if n <= LONGEST_TABLE[scale])
    plain: dict[str, Any] = {
        "position.moduli": (),
        "model.num_layers": BASELINE_DEPTH[scale],
        "eval.test_lengths": short,
    }
    by_row = {"data.packed_order": "row"}
    # Rows and tests alike lie anywhere in a table that just holds the longest test.
    room = {"position.max_position": packed(scale).task.num_tokens(max(short))}
    own = {"NoPE": {}, "RoPE": by_row, "random-start APE": by_row | table_of_rows(scale) | room}
    known = methods(scale)
    return {f"{name}, packed": plain | known[name] | changes for name, changes in own.items()}


SWEEP = Sweep(
    title="Packed rows: far keys, far IDs, or other problems?",
    cells=cells,
    seeds={"smoke": "1@300", "laptop": "2x2@300", "paper": "4x2@300"},
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
