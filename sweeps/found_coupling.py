#!/usr/bin/env python
"""Can a coupling be found instead of designed?

The first open question of the papers (arXiv 2405.20671), with no published value. Candidates are
five ways of numbering tokens that can tell operators from digits but know nothing about the task
(`pcore/tasks/candidates.py`); the designed couplings of addition and copy are among them, up to a
constant. Two attempts: a learned mixture of all five, trained with everything else (one shared
table, or a table per candidate, which lets a model tell candidates apart), and selection, which
trains with each candidate alone and keeps the best on the near range
(`python -m analysis table found_coupling --metric near_score --over near`). A third task, mirror,
has no designed coupling, and no single candidate fits it. Coupled arms have one layer, NoPE and
sequential numbering (random-start APE, which is the fifth candidate alone) as many as they need to
fit the trained lengths (mirror fits with none). Expected: selection finds the designed coupling or
its mirror image on addition and copy; the mixture finds it less reliably; on mirror selection
fails, and a mixture with a table per candidate may not. All cells are compared with the first,
addition with its designed coupling (each task has its own examples, so compare its arms with one
another as well). Cost: see `--plan`.
"""

from typing import Any

from pcore.config import TrialConfig, override
from pcore.tasks.candidates import CANDIDATES, SEQUENTIAL
from sweeps.baseline import (
    ONE_LAYER,
    OTHERS,
    addition,
    baseline_shape,
    log_length,
    sharp,
    without_coupling,
)
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid

DESIGNED = {"addition": "backward-up", "copy": "forward-up", "mirror": None}
# The query of copy and mirror is one segment: there the other two are mirror images of these.
ONE_SEGMENT = ("forward-up", "forward-down")
ALONE = {
    "addition": ("backward-up", "forward-up", "forward-down", "backward-down"),
    "copy": ONE_SEGMENT,
    "mirror": ONE_SEGMENT,
}
# What the mixture needs to fit the trained lengths; chosen on these alone.
OWN_STEPS: dict[str, dict[str, Any]] = {"mirror": {"optim.num_steps": 5000}}


def cells(scale: Scale) -> list[Cell]:
    """Every task with every candidate alone (the designed one first), the mixture, and without."""
    found: list[Cell] = []
    for task, designed in DESIGNED.items():
        base = override(addition(scale), {"task.name": task})
        if scale == "paper":  # the other sweeps choose nothing there and need no near range
            base = override(base, {"eval.near_lengths": "31-34"})
        points = {
            f"{name} (designed)" if name == designed else name: {"position.candidate": name}
            for name in ALONE[task]
        }
        points["mixture, one table"] = mixture(base)
        points["mixture, own tables"] = mixture(base) | {"position.level_tables": "separate"}
        attention = sharp(scale) if task == "addition" else log_length(scale)
        coupled = attention | {"position.ids": "candidates"}
        if scale == "laptop":
            coupled |= ONE_LAYER | OWN_STEPS.get(task, {})
        points = {label: changes | coupled for label, changes in points.items()}
        longest = base.task.num_tokens(max(base.eval.test_lengths))
        rows = 603 if scale == "paper" else longest - 1
        for name, changes in without_coupling(base, rows).items():
            own = OTHERS[name] if scale == "laptop" else {}
            points[name] = changes | baseline_shape(scale) | own
        found += grid(base, task=arms({task: {}}), method=arms(points))
    return found


def mixture(config: TrialConfig) -> dict[str, Any]:
    """All candidates with learned weights: sequential numbering needs an ID for every token.

    Tested from starts as in training: with all levels at 1 their IDs coincide, which is rare there.
    """
    coupled, longest = config.position.max_position, max(config.eval.test_lengths)
    every = config.task.num_tokens(longest) - 2  # BOS and EOS carry no ID
    limits = [every if name == SEQUENTIAL else coupled for name in CANDIDATES]
    return {
        "position.encoding": "mixture",
        "position.max_positions": limits,
        "position.test_policy": config.position.start,
    }


SWEEP = Sweep(
    title="Finding a coupling: learned mixture and selection, next to the designed one", cells=cells
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
