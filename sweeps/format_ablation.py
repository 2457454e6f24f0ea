#!/usr/bin/env python
"""Which number format does position coupling need?

Figure of the paper (arXiv 2405.20671): zero padding (yes, no) times reversal (response only,
query and response, none), with one and with six layers, trained on 1-30 digits. Secondary
sources: without zero padding 0 % at 200 digits. Expected: padded with a reversed response reaches
furthest; an unreversed response, whose first digit depends on every carry, hardly fits at all.
Cost: see `--plan`.
"""

from typing import Any

from pcore.config import override
from sweeps.baseline import CORE_SEEDS, PAPER_DEPTH, core
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid

REVERSED: dict[str, dict[str, Any]] = {
    "response reversed": {},
    "all reversed": {"task.reverse_query": True},
    "nothing reversed": {"task.reverse_response": False},
}
SIX_LAYERS = {"model.num_layers": 6} | PAPER_DEPTH


def cells(scale: Scale) -> list[Cell]:
    """Six formats; at paper scale with one layer and with six."""
    formats = {
        f"{'' if pad else 'not '}padded, {label}": {"task.zero_pad": pad} | changes
        for pad in (True, False)
        for label, changes in REVERSED.items()
    }
    base = core(scale)
    if scale != "smoke":  # an unreversed response needs one ID more
        base = override(base, {"position.max_position": 203})
    if scale != "paper":
        return grid(base, format=arms(formats))
    return grid(base, format=arms(formats), depth=arms({"1 layer": {}, "6 layers": SIX_LAYERS}))


SWEEP = Sweep(title="Addition: number format with position coupling", cells=cells, seeds=CORE_SEEDS)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
