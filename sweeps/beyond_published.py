#!/usr/bin/env python
"""How far beyond the published 200 digits does the same budget reach, trained on 1-30?

Not in the papers. We compare the published run (arXiv 2405.20671: one layer, a table of 202 rows,
random starts, normal rows) with three changes that helped on the lengths we could train: IDs on a
ring (wrapped start), rows that are powers of one rotation, and logits times the logarithm of the
number of visible keys; all together, also on larger rings, tested to 500 and 1,000 digits. For the
starts and rows alone see `start_ablation` and `table_init_ablation`; `packing_ablation` has an arm
with plain attention. Coupled RoPE has no table that limits its length. To beat: 6.67 times the
trained length; goal: 1,000 digits, 33 times, in the median over seeds. Laptop scale trains on 1-12,
with rings of 28 to 52 rows and tests to 48 digits. All cells are compared with the first. Cost: see
`--plan`.
"""

from typing import Any

from sweeps.baseline import addition, coupling, methods, other_encodings, sharp
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid

PUBLISHED: dict[str, Any] = {"position.start": "random", "position.table_init": "normal"}
TOGETHER: dict[str, Any] = {
    "position.start": "wrapped",
    "position.table_init": "rotation",
    "model.attention_scale": "log-length",
}
# Rows of the ring and the lengths tested on it: the ring must hold the longest.
RINGS: dict[Scale, dict[int, tuple[int, ...]]] = {
    "smoke": {12: (5, 6), 16: (5, 6, 8)},
    "laptop": {28: (18, 20, 22, 24), 40: (18, 20, 24, 30, 36), 52: (18, 24, 30, 36, 42, 48)},
    "paper": {
        202: tuple(range(35, 201, 5)),
        502: tuple(range(50, 501, 50)),
        1002: tuple(range(100, 1001, 100)),
    },
}


def cells(scale: Scale) -> list[Cell]:
    """The published run, all changes at once on growing rings, then coupled RoPE."""
    base = coupling(scale)
    plain = {"model.attention_scale": "none", "eval.attention_factor": 1.0}
    points = {"as published": PUBLISHED | plain}
    for rows, lengths in RINGS[scale].items():
        ring = {"position.max_position": rows, "eval.test_lengths": lengths}
        points[f"ring of {rows}"] = TOGETHER | sharp(scale) | ring
    longest = {"eval.test_lengths": list(RINGS[scale].values())[-1]}
    rope = (methods(scale) | other_encodings(addition(scale)))["coupled RoPE"]
    points["coupled RoPE"] = rope | longest
    return grid(base, run=arms(points))


SWEEP = Sweep(
    title="Addition: beyond 200 digits from 1-30",
    cells=cells,
    seeds={"smoke": "2", "laptop": "2x2@700", "paper": "4"},
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
