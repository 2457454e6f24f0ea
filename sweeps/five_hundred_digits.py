#!/usr/bin/env python
"""Which trained length suffices for sums of 500 digits?

Figure of the paper (arXiv 2405.20671): one layer with two heads, LayerNorm after the sublayers
only, a million steps, a table of 1003 rows. Published: training on 1-160 reaches 500 digits; 1-40
and 1-80 do not. Expected at laptop scale, where the table also has twice as many rows as the
longest test needs: the longest trained range reaches furthest, and the shortest does not reach 36
digits. All cells are compared with the first, the longest trained range. Cost: see `--plan`; by far
the largest at paper scale.
"""

from typing import Any

from pcore.config import TrialConfig, override
from sweeps.baseline import addition, sharp
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid

SETTING: dict[Scale, dict[str, Any]] = {
    "smoke": {"position.max_position": 24},
    "laptop": {
        "model.d_head": 64,
        "model.query_init": "normal",
        "optim.num_steps": 2500,
        "position.max_position": 75,
        "eval.test_lengths": (18, 24, 30, 36),
    },
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
    points = {
        f"trained on 1-{longest}": {"data.max_length": longest} | _tests(scale, base, longest)
        for longest in LONGEST[scale]
    }
    return grid(base, trained=arms(points))


def _tests(scale: Scale, base: TrialConfig, longest: int) -> dict[str, Any]:
    """At paper scale every twentieth length after the trained ones, else those of the base."""
    if scale == "paper":
        return {"eval.test_lengths": tuple(range(longest + 20, 501, 20))}
    last = max(base.eval.near_lengths)
    return {"eval.near_lengths": tuple(range(longest + 1, last + 1))}


SWEEP = Sweep(
    title="Addition: to 500 digits with a table for 1000",
    cells=cells,
    seeds={"smoke": "2", "laptop": "2x2@700", "paper": "4x2"},
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
