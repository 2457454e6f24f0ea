#!/usr/bin/env python
"""Does length generalization come from position coupling or from sharper attention?

Attention becomes diffuse as sequences grow, so that a model far beyond its trained lengths misses
the stop (our observation, not published). Two remedies: logits times the logarithm of the number of
visible keys, in training and evaluation, and a factor on the logits in evaluation only; wide heads
also help to distinguish IDs. The published setting (arXiv 2405.20671) has none of them. Expected:
with coupling each remedy extends the reach, and both together most; NoPE, random-start APE and RoPE
with the same remedies still fail right after the trained lengths, so sharpness alone is not the
cause. All cells are compared with the first, the base: plain at paper scale, both remedies
elsewhere. Cost: see `--plan`.
"""

from typing import Any

from sweeps.baseline import (
    SHARP,
    addition,
    as_they_fit,
    coupling,
    methods,
)
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid, one_at_a_time

SCALES_OF_LOGITS = {"none": "plain", "log-length": "log-length"}
FACTORS = (1.0, 1.6)
HEADS: dict[Scale, tuple[int, ...]] = {
    "smoke": (16,),
    "laptop": (32, 64),
    "paper": (64, 128, 256),
}


def cells(scale: Scale) -> list[Cell]:
    """Every combination with coupling, the base first; then the others, plain and sharpened."""
    base = coupling(scale)
    points: dict[str, dict[str, Any]] = {
        _label(kind, factor, width): {
            "model.attention_scale": kind,
            "eval.attention_factor": factor,
            "model.d_head": width,
        }
        for kind in SCALES_OF_LOGITS
        for factor in FACTORS
        for width in HEADS[scale]
    }
    own = (base.model.attention_scale, base.eval.attention_factor, base.model.d_head)
    sharpened = {"plain": {}, "sharpened": SHARP}
    uncoupled = {name: own for name, own in methods(scale).items() if name != "coupling"}
    others = as_they_fit(scale, uncoupled)
    found = grid(addition(scale), method=arms(others), attention=arms(sharpened))
    return one_at_a_time(base, _label(*own), attention=arms(points)) + found


def _label(kind: str, factor: float, width: int) -> str:
    return f"coupling, {SCALES_OF_LOGITS[kind]}, x{factor:g} in evaluation, d_head={width}"


SWEEP = Sweep(
    title="Addition: sharper attention, with and without coupling",
    cells=cells,
    seeds={"smoke": "2", "laptop": "2x2@700", "paper": "4x2"},
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
