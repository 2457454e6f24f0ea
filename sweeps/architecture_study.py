#!/usr/bin/env python
"""How small can a model be and still add many operands with a scratchpad?

Figures of the follow-up (arXiv 2410.15787): sums of 2-10 operands of 1-10 digits with a scratchpad,
coupling on two levels; layers {1, 2, 4, 6} times heads {2, 4, 8} at constant total width of all
heads, and one layer with four heads from d_model 64 to 1024. Its theory needs one layer. We add a
single head and, at paper scale, three more of the authors' one-layer models (16 heads of 64, 4 of
128, 8 of 256; read as heads times head width). Our table of published results has no value per
architecture. Expected: all but the smallest add 10 x 10; with fewer layers or heads less of the
grid to 30 x 30 is reached. All cells are compared with the first: six layers and eight heads (at
laptop scale two and four). For two operands by depth and heads see `depth_ablation` and
`heads_ablation`. Cost: see `--plan`.
"""

from typing import Any

from pcore.cli.text import plural
from pcore.config import TrialConfig, override
from sweeps.baseline import log_length, many_operands
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid

LAYERS: dict[Scale, tuple[int, ...]] = {"smoke": (2, 1), "laptop": (2, 1), "paper": (6, 4, 2, 1)}
HEADS: dict[Scale, tuple[int, ...]] = {"smoke": (2, 1), "laptop": (4, 2, 1), "paper": (8, 4, 2, 1)}
WIDTHS: dict[Scale, tuple[int, ...]] = {
    "smoke": (16,),
    "laptop": (32, 128),
    "paper": (64, 128, 256, 512),
}
WIDTH_HEADS = 4
# Heads and their width, of one layer, where the total differs from that of the base.
OTHER_HEADS: dict[Scale, tuple[tuple[int, int], ...]] = {
    "smoke": ((4, 4),),
    "laptop": (),
    "paper": ((16, 64), (4, 128), (8, 256)),
}
D_FF: dict[Scale, int] = {"smoke": 2, "laptop": 2, "paper": 4}  # times d_model


def cells(scale: Scale) -> list[Cell]:
    """Layers times heads, the largest first; then one layer in other widths."""
    base = override(many_operands(scale), log_length(scale))
    layers = {plural(n, "layer"): {"model.num_layers": n} for n in LAYERS[scale]}
    heads = {plural(n, "head"): _split(base, n) for n in HEADS[scale]}
    widths = {
        f"1 layer, {WIDTH_HEADS} heads, d_model={width}": _narrow(scale, base, width)
        for width in WIDTHS[scale]
    }
    others = {
        f"1 layer, {heads} heads x {width}": {
            "model.num_layers": 1,
            "model.num_heads": heads,
            "model.d_head": width,
        }
        for heads, width in OTHER_HEADS[scale]
    }
    return (
        grid(base, layers=arms(layers), heads=arms(heads))
        + grid(base, width=arms(widths))
        + grid(base, heads=arms(others))
    )


def _split(base: TrialConfig, num_heads: int) -> dict[str, Any]:
    """That many heads with the total head width of the base."""
    total = base.model.num_heads * base.model.d_head
    return {"model.num_heads": num_heads, "model.d_head": total // num_heads}


def _narrow(scale: Scale, base: TrialConfig, width: int) -> dict[str, Any]:
    """One layer of this width; heads and feed-forward grow with it, as published."""
    total = base.model.num_heads * base.model.d_head * width // base.model.d_model
    return {
        "model.num_layers": 1,
        "model.num_heads": WIDTH_HEADS,
        "model.d_model": width,
        "model.d_head": total // WIDTH_HEADS,
        "model.d_ff": D_FF[scale] * width,
    }


SWEEP = Sweep(title="Addition of many operands: layers, heads and width", cells=cells)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
