#!/usr/bin/env python
"""Is it coupling, residue rings or packed rows that takes one layer to a thousand digits?

Not a published result. The reference is the cell of `thousand_digits`; every other arm removes one
component or replaces the position method, with and without packed rows, on the same number of
problems (64 in each of the same number of steps; RoPE at laptop scale three quarters of them). At
laptop scale the position methods have the learning rate and weight decay that `packing_search`
found with equal budgets; the arms without one component were not tuned. An arm that does not fit
the trained lengths says nothing about longer ones. A learned table has 202 rows, as published,
which leaves room for few problems per row. NoPE and RoPE do not fit in the reference's setting: at
laptop scale they have the recipe of the other sweeps, three layers, and rows are packed once they
fit, up to four problems each (chosen on one tuning seed, on the trained lengths alone). The
reference shares its runs with `thousand_digits`, which go on to 3,000 digits; the others end by
1,000. All cells are compared with the first. Cost: see `--plan`.
"""

from dataclasses import replace
from typing import Any

from pcore.config import override
from sweeps.baseline import (
    ABACUS,
    ALONE,
    BASELINE_DEPTH,
    IN_TABLE,
    LONGEST_TABLE,
    OTHERS,
    TUNED,
    addition,
    baseline_shape,
    fewer_in_a_row,
    methods,
    packed,
    table_of_rows,
)
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid

LONGEST = 1000  # of the arms with rings
LATE: dict[str, Any] = {  # packed rows begin once a model fits, so it trains longer than alone
    "optim.num_steps": 4000,
    "data.problems_per_row": (1, 2, 4),
    "data.packing_begins": (0.6, 0.75),
}
LONGER: dict[str, dict[str, Any]] = {
    "NoPE": LATE,
    "random-start APE": LATE,
    "RoPE": LATE | {"optim.num_steps": 3000, "data.packing_begins": (0.5, 0.7)},
}
LONGEST_APE: dict[Scale, int] = {"smoke": 12, "laptop": 72, "paper": 200}  # its table holds


def cells(scale: Scale) -> list[Cell]:
    """The reference, then arms without one component, then other position methods."""
    found = untuned(scale)
    if scale != "laptop":  # the search has not been run
        return found
    return [_tuned(cell, *TUNED[cell.label]) if cell.label in TUNED else cell for cell in found]


def _tuned(cell: Cell, rate: float, decay: float) -> Cell:
    changes = {"optim.learning_rate": rate, "optim.weight_decay": decay}
    return replace(cell, config=override(cell.config, changes))


def untuned(scale: Scale) -> list[Cell]:
    """The cells as `packing_search` begins with them."""
    base = packed(scale)
    to_longest = {"eval.test_lengths": tuple(n for n in base.eval.test_lengths if n <= LONGEST)}
    short = tuple(n for n in base.eval.test_lengths if n <= LONGEST_TABLE[scale])
    others: dict[str, Any] = {"eval.test_lengths": short, "position.moduli": ()}
    table = others | table_of_rows(scale)
    fewer = fewer_in_a_row(scale)
    coupled_rope = others | {"position.encoding": "rotary"}
    abacus = table | ABACUS | {"model.num_layers": BASELINE_DEPTH[scale]}
    parts: dict[str, dict[str, Any]] = {
        "rings, alone": ALONE,
        **({} if scale == "smoke" else {f"rings, up to {IN_TABLE[scale]} in a row": fewer}),
        "rings, packed, learned sink": {"model.attention_sink": "learned"},
        "rings, packed, plain attention": {"model.attention_scale": "none", "model.log_base": 0},
        "rings, packed, natural logarithm": {"model.log_base": 0},
        "rings, packed, constant decay": {"optim.final_decay_fraction": 1.0},
    }
    tables = {
        "table, packed": table | fewer,
        "table, alone": table | ALONE,
        "coupled RoPE, packed": coupled_rope,
        "coupled RoPE, alone": coupled_rope | ALONE,
        "Abacus, packed": abacus | fewer,
        "Abacus, alone": abacus | ALONE,
    }
    parts = {label: to_longest | changes for label, changes in parts.items()}
    coupled = grid(base, arm=arms({"rings, packed": {}} | parts | tables))
    return coupled + _uncoupled(scale, {"eval.test_lengths": short})


def _uncoupled(scale: Scale, tests: dict[str, Any]) -> list[Cell]:
    """NoPE, random-start APE and RoPE, with and without packed rows at the end."""
    last = {"eval.checkpoints": ("last",)}
    base = override(addition(scale), last | tests | baseline_shape(scale))
    longest = LONGEST_APE[scale]
    in_table = {
        "position.max_position": 3 * longest + 4,
        "eval.test_lengths": tuple(n for n in base.eval.test_lengths if n <= longest),
    }
    by_row = {"data.packed_order": "row"}
    points: dict[str, dict[str, Any]] = {}
    for name, rows in {"NoPE": {}, "random-start APE": by_row, "RoPE": by_row}.items():
        fits: dict[str, Any] = OTHERS[name] | LONGER[name] if scale == "laptop" else {}
        fits |= in_table if name == "random-start APE" else {}
        alone = methods(scale)[name] | {key: fits[key] for key in fits if key not in ALONE}
        late = {"data.problems_per_row": (1, 2), "data.packing_begins": (0.6,)} | fits
        points |= {f"{name}, packed": alone | late | rows, f"{name}, alone": alone}
    return grid(base, arm=arms(points))


SWEEP = Sweep(
    title="Coupling, residue rings or packed rows: what carries to a thousand digits?",
    cells=cells,
    seeds={"smoke": "1@300", "laptop": "2x2@300", "paper": "4x2@300"},
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
