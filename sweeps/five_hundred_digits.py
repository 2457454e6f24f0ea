#!/usr/bin/env python
"""Which trained length suffices for sums of 500 digits?

Figure of the paper (arXiv 2405.20671): one layer with two heads, LayerNorm after the sublayers
only, a million steps, a table of 1003 rows. Published: training on 1-160 reaches 500 digits; 1-40
and 1-80 do not. Expected at laptop scale, where the table also has twice as many rows as the
longest test needs: the longest trained range reaches furthest, and the shortest does not reach 36
digits. All cells are compared with the first, the longest trained range. Cost: see `--plan`.
"""

from typing import Any

from pcore.config import override
from sweeps.baseline import ONE_LAYER, addition, sharp, trained_to
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid

SETTING: dict[Scale, dict[str, Any]] = {
    "smoke": {"position.max_position": 24},
    "laptop": ONE_LAYER | {"position.max_position": 75, "eval.test_lengths": (18, 24, 30, 36)},
    "paper": {
        "model.d_head": 256,
        "optim.num_steps": 1_000_000,
        "optim.batch_size": 128,
        "optim.warmup_fraction": 0.0005,  # 500 steps
        "optim.final_lr_fraction": 0.0,
        "position.max_position": 1003,
    },
}
PUBLISHED = {"model.num_heads": 2, "model.norm": "layer", "model.norm_placement": "post"}
LONGEST: dict[Scale, tuple[int, ...]] = {
    "smoke": (3, 2),
    "laptop": (12, 9, 6),
    "paper": (160, 80, 40),
}


def cells(scale: Scale) -> list[Cell]:
    """The same model trained on 1 to each of these lengths, the longest first."""
    base = override(addition(scale), sharp(scale) | PUBLISHED | SETTING[scale])
    points = {f"trained on 1-{longest}": trained_to(base, longest) for longest in LONGEST[scale]}
    if scale == "paper":  # every twentieth length after the trained ones
        for changes in points.values():
            changes["eval.test_lengths"] = tuple(range(changes["data.max_length"] + 20, 501, 20))
    return grid(base, trained=arms(points))


SWEEP = Sweep(title="Addition: to 500 digits with a table for 1000", cells=cells)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
