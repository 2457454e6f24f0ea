#!/usr/bin/env python
"""Does position coupling work through rotations, without a table?

Figure of the paper (arXiv 2405.20671): RoPE with 12 layers, trained on 1-40 digits. Published:
plain RoPE fails immediately beyond 40 digits; coupled RoPE, with IDs multiplied by one random
integer from 1 to 5 per training batch, reaches about 100. The paper does not say which of the two
matters; here coupling and scaling are separate. Nor does it state heads and widths; we use those of
the other methods in the addition figure (8 heads of width 64, learning rate 1e-4). Expected: both
together reach furthest, scaling without coupling gains nothing. All cells are compared with the
first, coupled RoPE with scaling. Cost: see `--plan`.
"""

from typing import Any

from pcore.config import override
from sweeps.baseline import BASELINE_DEPTH, PAPER_BASELINE, addition, methods, other_encodings
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid

SETTING: dict[Scale, dict[str, Any]] = {
    "smoke": {},
    "laptop": {"optim.num_steps": 3000},
    "paper": {
        "model.num_layers": 12,
        "data.max_length": 40,
        "eval.test_lengths": tuple(range(45, 201, 5)),
    }
    | PAPER_BASELINE,
}


def cells(scale: Scale) -> list[Cell]:
    """RoPE with coupled and with sequential IDs, scaled and not."""
    depth = {"model.num_layers": BASELINE_DEPTH[scale]}
    base = override(addition(scale), depth | SETTING[scale])
    ids = {
        "coupled RoPE": other_encodings(addition(scale))["coupled RoPE"],
        "RoPE": methods(scale)["RoPE"],
    }
    scaling = {
        "IDs times 1 to 5": {"position.id_scale_max": 5},
        "not scaled": {"position.id_scale_max": 1},
    }
    return grid(base, ids=arms(ids), scaling=arms(scaling))


SWEEP = Sweep(title="Addition: rotary encoding with coupled IDs and random scaling", cells=cells)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
