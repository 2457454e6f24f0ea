#!/usr/bin/env python
"""How much depth does position coupling need, and can depth replace it?

Figure of the paper (arXiv 2405.20671): addition by depth, trained on 1-30 digits. Published: with
coupling 1 to 5 layers perform alike and well to 200 digits, 6 layers slightly worse in the median;
NoPE and random-start APE collapse right after the trained lengths. No arm varies their depth (six
layers), so whether depth can replace coupling is asked at that depth only. Expected at laptop
scale: every arm fits the trained lengths; at 1.5 and 2 times the longest of them only the coupling
arms still add. Cost: see `--plan`; laptop scale is designed for ten minutes on two cores.
"""

from typing import Any

from sweeps.baseline import (
    BASELINE_DEPTH,
    ONE_LAYER,
    OTHERS,
    PAPER_BASELINE,
    PAPER_DEPTH,
    addition,
    coupling_by_depth,
    methods,
)
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid

DEPTHS: dict[Scale, range] = {"smoke": range(1, 4), "laptop": range(1, 4), "paper": range(1, 7)}


def cells(scale: Scale) -> list[Cell]:
    """Coupling at every depth, the other encodings at the depth that fits the trained lengths."""
    layers = coupling_by_depth(scale, DEPTHS[scale])
    if scale == "paper":
        layers = {label: changes | PAPER_DEPTH for label, changes in layers.items()}
    if scale == "laptop":
        layers["coupling, 1 layer"] |= ONE_LAYER
    depth, others = BASELINE_DEPTH[scale], dict[str, dict[str, Any]]()
    for name, changes in methods(scale).items():
        if name != "coupling":
            published = PAPER_BASELINE if scale == "paper" else {}
            own = OTHERS[name] if scale == "laptop" else {}
            shape = {"model.num_layers": depth}
            others[f"{name}, {depth} layers"] = changes | shape | published | own
    return grid(addition(scale), arm=arms(layers | others))


SWEEP = Sweep(
    name="depth_ablation",
    title="Addition: depth with position coupling, next to other encodings",
    claim=__doc__,
    cells=cells,
    seeds={"smoke": "2", "laptop": "2", "paper": "4x2"},
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
