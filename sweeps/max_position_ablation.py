#!/usr/bin/env python
"""Does a larger position table hurt, because each of its rows is trained less often?

Published settings use max_position 202 for tests to 200 digits, and 1003 for 500 digits (arXiv
2405.20671). Each row of a larger table is trained less often; the paper leaves open whether that
matters. Expected: the larger the table, the shorter the generalizable length after the same number
of steps. Cost: see `--plan`.
"""

from sweeps.baseline import CORE_SEEDS, core
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, axis, grid

LIMITS: dict[Scale, tuple[int, ...]] = {
    "smoke": (12, 24),
    "laptop": (202, 300, 500, 1003),
    "paper": (202, 300, 500, 1003),
}


def cells(scale: Scale) -> list[Cell]:
    """The same training with larger tables; the smallest just holds the longest test."""
    return grid(core(scale), limit=axis("position.max_position", *LIMITS[scale]))


SWEEP = Sweep(title="Addition: size of the position table", cells=cells, seeds=CORE_SEEDS)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
