#!/usr/bin/env python
"""How do trained models compare with the theorem's?

Theorem 5.1 of the paper (arXiv 2405.20671): one layer with two heads adds any two numbers of up to
2^P - 2 digits, with P bits of position vector; proposition 5.2: one layer without positions adds
few sums of three digits and hardly any longer ones, whatever its weights. The theorem's weights,
written by hand (`pcore.theory`), are evaluated on the same test sets as trained models. Expected:
the constructed models are exact up to their bound and fail beyond it; trained ones fit the trained
lengths and lose some of what is longer; a trained layer without positions stays below the
proposition's bound. All cells are compared with the first, a constructed model whose bound lies
beyond all tested lengths. Cost: that of the trained cells, mostly cells of other sweeps; see
`--plan`.
"""

from sweeps.baseline import ONE_LAYER, addition, constructed, coupling_by_depth, sharp
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid

BITS: dict[Scale, tuple[int, int]] = {"smoke": (4, 2), "laptop": (5, 4), "paper": (8, 7)}
DEPTHS: dict[Scale, tuple[int, ...]] = {"smoke": (1,), "laptop": (1, 2), "paper": (1,)}


def cells(scale: Scale) -> list[Cell]:
    """Two constructed models, for all tested lengths and for half of them; coupling as trained."""
    points = {f"theory, P={bits}, {2**bits - 2} digits": constructed(bits) for bits in BITS[scale]}
    trained = coupling_by_depth(DEPTHS[scale], sharp(scale))
    if scale == "laptop":
        trained["coupling, 1 layer"] |= ONE_LAYER
    if scale != "laptop":
        trained["NoPE, 1 layer"] = {"position.encoding": "none"}
    return grid(addition(scale), arm=arms(points | trained))


SWEEP = Sweep(title="Addition: the theorem's model and trained ones", cells=cells)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
