#!/usr/bin/env python
"""Do accidental overlaps between rows of the position table limit the length that is reached?

Two IDs farther apart than any training sequence never compete in one softmax, so training never
removes the initial overlap of their rows (our observation at small scale; not published). The paper
(arXiv 2405.20671) starts from N(0, 1) rows without weight decay, whose overlaps are about 4 % at
d_model 512. Orthogonal rows have none (they need max_position < d_model); powers of one rotation
have none either and make "the next ID" a single linear map, whether learned or frozen. Expected:
rotation and orthogonal rows reach further than normal ones after equal steps; weight decay helps
all. All cells are compared with the first, the base: rotation with decay at laptop scale, normal
rows without decay elsewhere. Cost: see `--plan`.
"""

from typing import Any

from sweeps.baseline import coupling
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, one_at_a_time

ROWS: dict[str, dict[str, Any]] = {
    "normal": {"position.table_init": "normal"},
    "orthogonal": {"position.table_init": "orthogonal"},
    "rotation": {"position.table_init": "rotation"},
    "frozen rotation": {"position.table_init": "rotation", "position.freeze_table": True},
}
DECAYS = (0.0, 0.3)


def cells(scale: Scale) -> list[Cell]:
    """Four tables with and without weight decay; the base first."""
    base = coupling(scale)
    points = {
        _label(table, decay): changes | {"optim.weight_decay": decay}
        for table, changes in ROWS.items()
        for decay in DECAYS
    }
    label = _label(base.position.table_init, base.optim.weight_decay)
    return one_at_a_time(base, label, table=arms(points))


def _label(table: str, decay: float) -> str:
    return f"{table} rows, weight decay {decay:g}"


SWEEP = Sweep(title="Addition: initial rows of the position table, and weight decay", cells=cells)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
