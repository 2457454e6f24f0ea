#!/usr/bin/env python
"""Can a model multiply two numbers that are both longer than in training?

Figure of the follow-up (arXiv 2410.15787): N x M multiplication, both trained on 1-10 digits,
coupling on three levels, compared with NoPE and FIRE. Published (abstract): with a scratchpad and
coupling both lengths extend approximately 2-3 times; that this means about 20 x 15 digits is read
from figures. Our task cannot express the published arms without a scratchpad, which train on both
lengths at once, because its second number then has a fixed length. The closest we have is coupling
with M = 1, M = 2 (the first paper's) and M = the longest trained (a string with leading zeros
allowed), and NoPE, RoPE and FIRE with the last of these; these three and RoPE with a scratchpad are
left out at laptop scale. Tests go to 30 x 30, which the published ID limits, 70 and 35, allow.
Expected at laptop scale: only coupling with a scratchpad leaves the trained square. Width and steps
are those with which it fits the square (tuning seed 1030: 100 % of each of its 16 cells). There we
add rings in packed rows (not a published method), and alone as their control. Of 6 x 6, one run
each of that seed had 40 % right so, 27 with heads 32 wide, 3 with those and moduli 3, 4, 5 and 7,
1 or none with a learned sink (moduli 2, 3 and 19 too) or with tables of 26 to 46 rows. All cells
are compared with the first, coupling with a scratchpad. Cost: see `--plan`.
"""

from typing import Any

from pcore.config import TrialConfig, override
from sweeps.baseline import (
    FIRE,
    TWO_LENGTHS,
    addition,
    level_rings,
    log_length,
    methods,
    packed_and_alone,
)
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid

SETTING: dict[Scale, dict[str, Any]] = {
    "smoke": {"position.max_positions": (8, 6, 12), "eval.second_lengths": (1, 2, 3)},
    "laptop": {
        "model.d_ff": 512,
        "optim.num_steps": 6000,
        "position.max_positions": (10, 8, 16),
        "eval.test_lengths": (6, 7),
        "eval.second_lengths": (1, 2, 3, 4, 5, 6),
    },
    "paper": {
        "optim.batch_size": 250,
        "optim.learning_rate": 5e-5,
        "position.max_positions": (70, 35, 70),
        "eval.second_lengths": tuple(range(1, 31)),
    },
}
# Rings and rows of several problems, at laptop scale: tuned up to 8 x 8, tested beyond.
RINGS: dict[str, Any] = {
    **level_rings(3, 4, 19),
    "model.d_head": 64,
    "data.problems_per_row": (1, 2, 4),
    "data.packing_begins": (0.05, 0.1),
    "eval.near_lengths": (5, 6, 8),
    "eval.test_lengths": (10, 12),
    "eval.second_lengths": (1, 2, 3, 4, 5, 6, 8, 10),
}
TASK = {
    "task.name": "multiplication",
    "task.scratchpad": True,
    "position.level_tables": "separate",
}


def cells(scale: Scale) -> list[Cell]:
    """Four methods with a scratchpad; coupling without, at three fixed second lengths; the others
    without, at the longest; rings.
    """
    base = override(addition(scale), TASK | TWO_LENGTHS[scale] | SETTING[scale])
    one_level = {
        "position.max_positions": (),
        "position.max_position": max(base.position.max_positions),
    }
    points: dict[str, dict[str, Any]] = {
        "scratchpad, coupling": log_length(scale),
        "scratchpad, NoPE": {"position.encoding": "none"},
        "scratchpad, FIRE": FIRE | one_level,
    }
    plain = {"task.scratchpad": False} | one_level
    for second in sorted({1, 2, base.data.max_length}):
        own = {"task.second_length": second}
        points[f"no scratchpad, coupling, M = {second}"] = plain | own | log_length(scale)
    if scale != "laptop":
        points |= _uncoupled(base, scale, plain | {"task.second_length": base.data.max_length})
    else:
        points |= packed_and_alone(base, RINGS, "scratchpad, rings, {rows}")
    return grid(base, arm=arms(points))


def _uncoupled(base: TrialConfig, scale: Scale, plain: dict[str, Any]) -> dict[str, Any]:
    """RoPE with a scratchpad; NoPE, RoPE and FIRE without, changed by `plain`."""
    tested = max(base.eval.test_lengths), max(base.eval.second_lengths)
    wide = {"position.max_positions": (), "position.max_position": base.task.num_tokens(*tested)}
    rope = methods(scale)["RoPE"]
    end = f"M = {plain['task.second_length']}"
    return {
        "scratchpad, RoPE": rope | wide,
        f"no scratchpad, NoPE, {end}": plain | {"position.encoding": "none"},
        f"no scratchpad, RoPE, {end}": plain | rope | wide,
        f"no scratchpad, FIRE, {end}": plain | FIRE,
    }


SWEEP = Sweep(title="N x M multiplication: scratchpad, both lengths tested", cells=cells)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
