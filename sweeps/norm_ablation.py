#!/usr/bin/env python
"""Does position coupling depend on the kind of norm and where it is applied?

The authors' model (arXiv 2405.20671, appendix) has RMSNorm before and after every sublayer; their
run to 500 digits has LayerNorm after the sublayers only. No figure compares the two. Expected: all
six variants fit the trained lengths, pre-norm soonest, and reach similarly far. All cells are
compared with the first, the base: RMSNorm before the sublayers at laptop scale, on both sides
elsewhere. Cost: see `--plan`.
"""

from typing import Any

from sweeps.baseline import coupling
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, one_at_a_time

NORMS = {"rms": "RMSNorm", "layer": "LayerNorm"}
PLACES = {"both": "before and after", "pre": "before", "post": "after"}


def cells(scale: Scale) -> list[Cell]:
    """Two kinds of norm in three places; the base first."""
    base = coupling(scale)
    points: dict[str, dict[str, Any]] = {
        f"{NORMS[norm]} {PLACES[place]}": {"model.norm": norm, "model.norm_placement": place}
        for norm in NORMS
        for place in PLACES
    }
    label = f"{NORMS[base.model.norm]} {PLACES[base.model.norm_placement]}"
    return one_at_a_time(base, label, norm=arms(points))


SWEEP = Sweep(title="Addition: kind and place of the norms", cells=cells)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
