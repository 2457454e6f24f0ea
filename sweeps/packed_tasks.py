#!/usr/bin/env python
"""Do packed rows carry other tasks as far beyond the trained lengths as addition?

Not a published result. The recipe of `thousand_digits` (residue rings, rows of up to 32 problems)
on other tasks, trained on the lengths of their own sweeps with the depth that these give to
coupling, each with packed rows and with one problem per row. Steps, optimizer and number of
problems are equal everywhere and nothing was tuned for any of these tasks: an arm that does not fit
the trained lengths may need other settings, and says nothing about longer ones. Products and tasks
of two lengths do not fit like this; `multiplication_depth`, `scratchpad_addition` and
`scratchpad_multiplication` have packed arms of their own. All cells are compared with the first,
copying (other tasks have other examples, so compare the two arms of a task with one another). Cost:
see `--plan`.
"""

from typing import Any

from pcore.config import override
from sweeps.baseline import ROWS, packed, with_log_base
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid

TASKS: dict[str, dict[str, Any]] = {
    "copy": {"task.name": "copy"},
    "reverse": {"task.name": "reverse"},
    "three operands": {"task.num_operands": 3, "model.num_layers": 2},
    "parity, scratchpad": {
        "task.name": "parity",
        "task.scratchpad": True,
        "model.num_layers": 2,
    },
    "sorting": {"task.name": "sorting", "model.num_layers": 3},
}
SETTING: dict[Scale, dict[str, Any]] = {
    "smoke": {},
    "laptop": {
        "optim.num_steps": 2000,
        "eval.test_lengths": (18, 24, 36, 48, 96, 200, 500, 1000),
        "eval.num_examples": 500,
        "eval.length_budget": 50_000,
    },
    "paper": {},
}
# Trained and tested lengths of a task, where they are not those of addition.
LENGTHS: dict[Scale, dict[str, dict[str, Any]]] = {
    "smoke": {},
    "laptop": {
        "three operands": {
            "data.max_length": 8,
            "eval.near_lengths": (9, 10, 11),
            "eval.test_lengths": (12, 16, 24, 32, 64, 130, 330),
        },
    },
    "paper": {
        "copy": {"data.max_length": 40},
        "reverse": {"data.max_length": 40},
        "three operands": {"data.max_length": 40},
        "parity, scratchpad": {"data.max_length": 20},
        "sorting": {"data.max_length": 40},
    },
}


def cells(scale: Scale) -> list[Cell]:
    """Each task with packed rows and without."""
    base = override(packed(scale), SETTING[scale])
    tasks = {
        name: with_log_base(base, changes | LENGTHS[scale].get(name, {}))
        for name, changes in TASKS.items()
    }
    return grid(base, task=arms(tasks), rows=arms(ROWS))


SWEEP = Sweep(
    title="Packed rows and residue rings on other tasks",
    cells=cells,
    seeds={"smoke": "1@500", "laptop": "2x2@500", "paper": "4x2@500"},
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
