#!/usr/bin/env python
"""How many attention heads does position coupling need?

The theorem of the paper (arXiv 2405.20671, theorem 5.1) needs one layer with two heads. We vary
the number of heads of equal width, one axis of the authors' architecture study; there is no
published number per head count. Expected: every number of heads fits the trained lengths; one head
generalizes worse than two or more. Cost: see `--plan`.
"""

from sweeps.baseline import CORE_SEEDS, core
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, axis, grid

HEADS = (1, 2, 4, 8)


def cells(scale: Scale) -> list[Cell]:
    """The same model with 1 to 8 heads, width of a head fixed."""
    return grid(core(scale), heads=axis("model.num_heads", *HEADS))


SWEEP = Sweep(
    title="Addition: attention heads with position coupling", cells=cells, seeds=CORE_SEEDS
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
