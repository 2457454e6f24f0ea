#!/usr/bin/env python
"""Do copying and reversing generalize with position coupling?

Figure of the paper (arXiv 2405.20671): strings of 1-40 digits, tested to 300 (7.5 times), four runs
each. The authors' scripts use heads of width 64, their table says 128; we follow the table.
Published: coupling with one layer is near-perfect to 300; NoPE and random-start APE with six layers
fail right after the trained lengths and with one layer do not even fit them. Expected at laptop
scale: coupling with one layer reaches three times the trained length, the others do not go beyond
it. All cells are compared with the first, copying with coupling (reversing has other responses, so
compare its arms with one another as well). Cost: see `--plan`.
"""

from typing import Any

from pcore.config import override
from sweeps.baseline import BASELINE_DEPTH, addition, log_length, without_coupling
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid

SETTING: dict[Scale, dict[str, Any]] = {
    "smoke": {},
    "laptop": {"position.max_position": 40, "eval.test_lengths": (18, 24, 30, 36)},
    "paper": {
        "data.max_length": 40,
        "position.max_position": 301,
        "eval.test_lengths": tuple(range(45, 301, 5)),
    },
}
PAPER_DEEP = {"model.num_heads": 8, "optim.batch_size": 500}


def cells(scale: Scale) -> list[Cell]:
    """Both tasks: coupling with one layer, the others with one and with more."""
    base = override(addition(scale), {"task.name": "copy"} | SETTING[scale])
    points: dict[str, dict[str, Any]] = {"coupling, 1 layer": log_length(scale)}
    for name, changes in without_coupling(base, 601 if scale == "paper" else 0).items():
        depth = BASELINE_DEPTH[scale]
        deep = {"model.num_layers": depth} | (PAPER_DEEP if scale == "paper" else {})
        points[f"{name}, 1 layer"] = changes
        points[f"{name}, {depth} layers"] = changes | deep
    tasks = {name: {"task.name": name} for name in ("copy", "reverse")}
    return grid(base, task=arms(tasks), method=arms(points))


SWEEP = Sweep(
    title="Copy and reverse: position coupling next to NoPE and random-start APE",
    cells=cells,
    seeds={"smoke": "2", "laptop": "2x2@700", "paper": "4"},
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
