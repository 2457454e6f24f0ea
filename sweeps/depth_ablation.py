#!/usr/bin/env python
"""How much depth does position coupling need, and can depth replace it?

Figure of the paper (arXiv 2405.20671): addition by depth, trained on 1-30 digits. Published: with
coupling 1 to 5 layers perform alike and well to 200 digits, 6 layers slightly worse in the median;
NoPE and random-start APE collapse right after the trained lengths. No arm varies their depth (six
layers), so whether depth can replace coupling is asked at that depth only. Expected at laptop
scale, where the coupling arms have packed rows: every arm fits the trained lengths, and beyond them
only the coupling arms still add, at every depth. Cost: see `--plan`.
"""

from typing import Any

from pcore.cli.text import plural
from pcore.config import override
from sweeps.baseline import BASELINE_DEPTH, CORE_SEEDS, PAPER_DEPTH, addition, core, uncoupled
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid

DEPTHS: dict[Scale, range] = {"smoke": range(1, 4), "laptop": range(1, 4), "paper": range(1, 7)}


def cells(scale: Scale) -> list[Cell]:
    """Coupling at every depth, the other encodings at the depth that fits the trained lengths."""
    base = core(scale)
    wide: dict[str, Any] = PAPER_DEPTH if scale == "paper" else {}
    layers = {
        f"coupling, {plural(depth, 'layer')}": {"model.num_layers": depth} | wide
        for depth in DEPTHS[scale]
    }
    same_tests = override(addition(scale), {"eval.test_lengths": base.eval.test_lengths})
    depth = plural(BASELINE_DEPTH[scale], "layer")
    others = {f"{name}, {depth}": own for name, own in uncoupled(scale, same_tests).items()}
    return grid(base, arm=arms(layers)) + grid(same_tests, arm=arms(others))


SWEEP = Sweep(
    title="Addition: depth with position coupling, next to other encodings",
    cells=cells,
    seeds=CORE_SEEDS,
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
