#!/usr/bin/env python
"""How far beyond a thousand digits does one layer, trained on 1-12 digits, add?

Not a published result. The recipe of `thousand_digits`, changed in four ways for longer sums: a
sixth ring, so that IDs that agree in all rings but one are at least 45,045 apart instead of 3,465;
twice the steps; up to 64 problems in a row; and attention logits times 1.2 at test time, without
which attention was too soft beyond 3,500 digits. Chosen on one tuning seed and on lengths that no
sweep reports (3,500, 6,000, 8,500, 12,000). Expected at laptop scale: a median of at least 95 % at
10,000 digits, 833 times the trained length. Each length has as many examples as fit into 200,000
digits, at most 1,000. Seeds start at 400. All cells are compared with the first. Cost: see
`--plan`.
"""

from typing import Any

from pcore.config import override
from sweeps.baseline import packed
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep

FARTHER: dict[Scale, dict[str, Any]] = {
    "smoke": {},
    "laptop": {
        "position.moduli": (5, 7, 9, 11, 13, 16),
        "position.max_position": 720_720,
        "data.problems_per_row": (1, 2, 4, 8, 16, 32, 64),
        "data.packing_begins": (0.15, 0.18, 0.21, 0.25, 0.3, 0.5),
        "optim.num_steps": 8000,
        "eval.test_lengths": (18, 48, 96, 200, 500, 1000, 2000, 3000, 5000, 7000, 10_000),
    },
    "paper": {},
}


def cells(scale: Scale) -> list[Cell]:
    """A single cell; the result is its curve."""
    config = override(packed(scale), FARTHER[scale] | {"eval.attention_factor": 1.2})
    return [Cell(label="six rings" if scale == "laptop" else "rings", config=config)]


SWEEP = Sweep(
    name="ten_thousand_digits",
    title="Toward ten thousand digits from twelve: six rings, sharper attention",
    claim=__doc__,
    cells=cells,
    seeds={"smoke": "2@400", "laptop": "2x2@400", "paper": "4x2@400"},
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
