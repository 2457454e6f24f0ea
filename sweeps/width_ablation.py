#!/usr/bin/env python
"""How wide must a model with position coupling be?

The follow-up (arXiv 2410.15787) varies d_model from 64 to 1024 on sums of many operands; for that
series see `architecture_study`. Here the same widths (at laptop scale 32 to 128, two layers) on two
operands, in the published setting of one layer and four heads (arXiv 2405.20671), with heads and
feed-forward unchanged; no published value. Expected: every width fits the trained lengths; the
narrowest reaches less far beyond them, because rows of a narrow table resemble each other by
chance. All cells are compared with the first, the width of the base. Cost: see `--plan`.
"""

from sweeps.baseline import coupling
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, axis, one_at_a_time

WIDTHS: dict[Scale, tuple[int, ...]] = {
    "smoke": (16, 32),
    "laptop": (32, 48, 64, 96, 128),
    "paper": (64, 128, 256, 512, 1024),
}


def cells(scale: Scale) -> list[Cell]:
    """The same model with another d_model; the base first."""
    base = coupling(scale)
    widths = axis("model.d_model", *WIDTHS[scale])
    return one_at_a_time(base, f"d_model={base.model.d_model}", width=widths)


SWEEP = Sweep(title="Addition: width of the model with position coupling", cells=cells)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
