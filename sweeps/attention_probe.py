#!/usr/bin/env python
"""What do the heads of a trained one-layer model attend to?

Figure of the paper (arXiv 2405.20671): attention of one layer with two heads, trained on 1-5
digits. Published: two patterns, the operand digits of the *next* significance (those of the digit
to be written), and the operand digits of the *current* significance together with the digit itself
(from which the carry follows). The rows show whether a model adds; `python -m analysis attention
CHECKPOINT` draws what its heads attend to. Expected: two heads add beyond the trained lengths; one
head less far, since it has to hold both patterns. All cells are compared with the first, two heads.
Cost: see `--plan`.
"""

from typing import Any

from pcore.config import override
from sweeps.baseline import addition, sharp
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, axis, grid

SETTING: dict[Scale, dict[str, Any]] = {
    "smoke": {},
    "laptop": {
        "model.d_head": 64,
        "model.query_init": "normal",
        "data.max_length": 5,
        "position.max_position": 17,
        "eval.near_lengths": (6, 7),
        "eval.test_lengths": (8, 10, 12, 15),
    },
    "paper": {
        "model.d_head": 256,
        "data.max_length": 5,
        "data.num_examples": 100_000,
        "optim.batch_size": 100,
        "optim.learning_rate": 5e-5,
        "position.max_position": 17,
        "eval.test_lengths": tuple(range(6, 16)),
    },
}


def cells(scale: Scale) -> list[Cell]:
    """One layer with two heads; with one head of the same width."""
    base = override(addition(scale), sharp(scale) | SETTING[scale])
    return grid(base, heads=axis("model.num_heads", 2, 1))


SWEEP = Sweep(title="Addition: what a one-layer model with two heads attends to", cells=cells)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
