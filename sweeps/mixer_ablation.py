#!/usr/bin/env python
"""Can other attention, loops or a recurrent layer do what position coupling does?

Methods that are reported to help with length on their own, each with coupled IDs and without any
positions (NoPE): scores scaled by a learned multiple of log(length) (arXiv 2501.19399), weights
that can be exactly zero (1.5-entmax, arXiv 1905.05702), a learned sink, contextual positions (CoPE,
arXiv 2405.18719), stick-breaking attention (arXiv 2410.17980), one looped layer with input
injection (arXiv 2409.15647, there with a number of loops that grows with the length), and gated
linear attention (arXiv 2312.06635) with one layer of attention on top. Equal budgets: all arms but
the reference have the same optimiser settings, steps and depth and are otherwise plain; none was
tuned, and their papers train on other tasks. The reference is coupling as in `norm_ablation`.
Expected: with coupling, attention that does not become diffuse (learned scale, entmax, sink) goes
further than plain softmax; without it, none goes far beyond the trained lengths. All cells are
compared with the first. Cost: see `--plan`.
"""

from typing import Any

from pcore.config import override
from sweeps.baseline import BASELINE_DEPTH, PAPER_BASELINE, addition, coupling, methods
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid

# At laptop scale as many steps as NoPE gets elsewhere, more than coupling needs.
SHARED: dict[Scale, dict[str, Any]] = {
    "smoke": {},
    "laptop": {"optim.num_steps": 2500},
    "paper": PAPER_BASELINE,
}


def mixers(scale: Scale) -> dict[str, dict[str, Any]]:
    """The ways to mix tokens, as changes to plain attention at the depth of the baselines."""
    depth = BASELINE_DEPTH[scale]
    recurrent = ("gated-linear",) * (depth - 1)
    return {
        "softmax": {},
        "learned scale": {"model.attention": "learned-scale"},
        "entmax": {"model.attention": "entmax"},
        "sink": {"model.attention_sink": "learned"},
        "contextual positions": {"model.attention": "contextual"},
        "stick-breaking": {"model.attention": "stick-breaking"},
        "looped": {
            "model.num_layers": 1,
            "model.num_loops": depth,
            "model.input_injection": True,
        },
        "gated linear": {"model.mixer": (*recurrent, "attention")},
    }


def cells(scale: Scale) -> list[Cell]:
    """The reference, then every mixer with coupling and with NoPE."""
    shape = {"model.num_layers": BASELINE_DEPTH[scale]} | SHARED[scale]
    positions = {name: methods(scale)[name] for name in ("coupling", "NoPE")}
    reference = Cell(label="reference: coupling", config=coupling(scale))
    base = override(addition(scale), shape)
    return [reference, *grid(base, position=arms(positions), mixer=arms(mixers(scale)))]


SWEEP = Sweep(
    title="Addition: other attention, loops and recurrence, with and without coupling",
    cells=cells,
    seeds={"smoke": "2", "laptop": "4", "paper": "4x2"},
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
