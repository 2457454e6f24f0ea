#!/usr/bin/env python
"""Do depth and heads help every position method alike, or can one of them replace coupling?

Not in the papers (arXiv 2405.20671), whose figures vary one axis at a time and whose other methods
have one depth. Here every method of the methods figure is trained with every combination of depth
and number of heads, at equal head width and, at paper scale, budget. Expected: the method decides;
without coupled IDs depth and heads move the reach by a few digits at most; with coupling two heads
suffice. All cells are compared with the first, coupling with one layer and the fewest heads. Cost:
see `--plan`; four methods times depths times heads.
"""

from typing import Any

from sweeps.baseline import OTHERS, SHARP, addition, methods
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, axis, grid

DEPTHS: dict[Scale, tuple[int, ...]] = {"smoke": (1, 2), "laptop": (1, 2, 3), "paper": (1, 2, 4, 6)}
HEADS: dict[Scale, tuple[int, ...]] = {"smoke": (1, 2), "laptop": (2, 4), "paper": (2, 4, 8)}


def cells(scale: Scale) -> list[Cell]:
    """Methods times layers times heads."""
    return grid(
        addition(scale),
        method=arms({name: _arm(scale, name) for name in methods(scale)}),
        layers=axis("model.num_layers", *DEPTHS[scale]),
        heads=axis("model.num_heads", *HEADS[scale]),
    )


def _arm(scale: Scale, name: str) -> dict[str, Any]:
    """A method; at laptop scale with what it needs to fit the trained lengths."""
    changes = methods(scale)[name]
    return changes | (OTHERS.get(name, SHARP) if scale == "laptop" else {})


SWEEP = Sweep(
    title="Addition: position methods by depth and heads",
    cells=cells,
    seeds={"smoke": "2", "laptop": "2x2@700", "paper": "4"},
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
