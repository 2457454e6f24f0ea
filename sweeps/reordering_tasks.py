#!/usr/bin/env python
"""What can be coupled when no query position corresponds to a response position?

An open question of the papers (arXiv 2405.20671): tasks without obvious structure. Two of ours,
with no published value: sorting digits (coupled by position, which is wrong, or the whole query as
a bag) and commands whose clauses are reordered (clause k coupled with slot k, or on a second level
also with its mirror image). Settings are those of copy and reverse with six layers, the closest
published ones. Expected: no coupling generalizes as it does in arithmetic; the bag helps sorting,
both couplings help commands, and coupling by position is no better than NoPE. All cells are
compared with the first, sorting coupled as a bag (commands have other examples, so compare them
with one another as well). Cost: see `--plan`.
"""

from typing import Any

from pcore.config import override
from sweeps.baseline import BASELINE_DEPTH, addition, log_length, without_coupling
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid

PAPER: dict[str, Any] = {"model.num_heads": 8, "optim.batch_size": 500, "data.max_length": 40}
SORTING: dict[Scale, dict[str, Any]] = {
    "smoke": {},
    "laptop": {},
    "paper": PAPER | {"position.max_position": 301, "eval.test_lengths": tuple(range(50, 151, 10))},
}
COMMANDS: dict[Scale, dict[str, Any]] = {
    "smoke": {"position.max_position": 20},
    "laptop": {
        "data.max_length": 6,
        "position.max_position": 40,
        "eval.near_lengths": (7, 8),
        "eval.test_lengths": (9, 10, 12),
    },
    "paper": PAPER
    | {
        "data.max_length": 20,
        "position.max_position": 301,
        "eval.test_lengths": tuple(range(25, 76, 5)),
    },
}


def cells(scale: Scale) -> list[Cell]:
    """Both tasks, each with two couplings, NoPE and random-start APE."""
    separate = {"position.level_tables": "separate"}
    return _cells(
        scale,
        "sorting",
        SORTING[scale],
        {"as a bag": {"task.coupling": "bag"}, "by place": {"task.coupling": "aligned"}},
    ) + _cells(
        scale,
        "commands",
        COMMANDS[scale],
        {
            "both ways": {"task.coupling": "both_ways"} | separate,
            "by place": {"task.coupling": "straight"},
        },
    )


def _cells(
    scale: Scale, task: str, setting: dict[str, Any], couplings: dict[str, dict[str, Any]]
) -> list[Cell]:
    shape = {"task.name": task, "model.num_layers": BASELINE_DEPTH[scale]}
    base = override(addition(scale), shape | setting)
    points = {
        f"{task}, coupled {label}": changes | log_length(scale)
        for label, changes in couplings.items()
    }
    others = without_coupling(base, 601 if scale == "paper" else 0)
    points |= {f"{task}, {name}": changes for name, changes in others.items()}
    return grid(base, arm=arms(points))


SWEEP = Sweep(title="Sorting and commands: coupling without a fixed correspondence", cells=cells)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
