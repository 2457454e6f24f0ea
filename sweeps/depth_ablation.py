#!/usr/bin/env python
"""How much depth does position coupling need, and can depth replace it?

Figure of the paper (arXiv 2405.20671): addition by depth, trained on 1-30 digits. Published: with
coupling 1 to 5 layers are alike and good to 200 digits, 6 layers slightly worse in the median;
NoPE, random-start APE and RoPE collapse right behind the trained lengths at any depth. Expected at
laptop scale: every arm fits the trained lengths; at 1.5 and 2 times the longest of them only the
coupling arms still add. Cost: see `--plan`; laptop scale is made for ten minutes on two cores.
"""

from sweeps.baseline import BASELINE_DEPTH, PAPER_BASELINE, addition, methods
from sweeps.engine.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid

DEPTHS: dict[Scale, range] = {"smoke": range(1, 3), "laptop": range(1, 4), "paper": range(1, 7)}
SHARPER = {"model.attention_scale": "log-length"}
PAPER_DEPTH = {"model.num_heads": 8, "model.d_model": 1024, "optim.learning_rate": 3e-5}


def cells(scale: Scale) -> list[Cell]:
    """Coupling at every depth, the other encodings at the depth that fits the trained lengths."""
    paper = scale == "paper"
    layers = {
        f"coupling, {depth} layer{'s' * (depth > 1)}": {"model.num_layers": depth}
        | (PAPER_DEPTH if paper else SHARPER)
        for depth in DEPTHS[scale]
    }
    if not paper:  # so that coupling is also seen in the very model of the other encodings
        layers["coupling, 1 layer, plain attention"] = {}
    depth = BASELINE_DEPTH[scale]
    others = {
        f"{name}, {depth} layers": changes
        | {"model.num_layers": depth}
        | (PAPER_BASELINE if paper else {})
        for name, changes in methods(scale).items()
        if name != "coupling"
    }
    return grid(addition(scale), arm=arms(layers | others))


SWEEP = Sweep(
    name="depth_ablation",
    title="Addition: depth with position coupling, next to other encodings",
    claim=__doc__,
    cells=cells,
    seeds={"smoke": "2", "laptop": "3", "paper": "4x2"},
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
