"""The tables of a section of the report as HTML: results, completeness, provenance."""

from typing import Any

import pandas as pd

from analysis.configs import cell_configs, differences, in_common
from analysis.load import COUNTED, Results
from analysis.report.markup import Markup, data_table, element, join
from analysis.tables.sweep_tables import DASH, Table

TRIAL_COLUMNS = {  # column of the store: its header
    "seed": "seed",
    "data_seed": "data seed",
    "status": "status",
    "attempt": "attempt",
    "wall_seconds": "seconds",
    "device": "device",
    "git_commit": "commit",
    "code_hash": "code",
    "torch_version": "torch",
    "started_at": "started",
}
SHORT = {"git_commit": 8, "code_hash": 8}  # characters shown of a long name


def show_table(table: Table) -> Markup:
    """A table of `analysis.tables.sweep_tables` with its notes."""
    return join([data_table(table.header, table.rows, table.title), show_notes(table.notes)])


def show_notes(notes: "tuple[str, ...] | list[str]") -> Markup:
    """The sentences under a table."""
    return element("ul", *(element("li", note) for note in notes), class_="notes")


def show_completeness(results: Results) -> Markup:
    """Per cell: how many of the planned trials are done, and the states of the others."""
    states = (
        results.trials.groupby("cell", sort=False)["status"].value_counts().unstack(fill_value=0)
    )
    others = [state for state in states.columns if state not in COUNTED and states[state].any()]
    rows = []
    for cell in results.cells:
        counts: dict[str, int] = {state: int(states[state].loc[cell]) for state in states.columns}
        done = sum(counts.get(state, 0) for state in COUNTED)
        row = [cell, f"{done}/{sum(counts.values())}", str(counts.get("diverged", 0))]
        rows.append(row + [str(counts[state]) for state in others])
    return data_table(["cell", "done", "of these diverged", *others], rows, "completeness")


def show_trials(results: Results, prefix: str) -> Markup:
    """Every trial of the sweep: where its numbers come from. Each row has an id to link to."""
    trials = results.trials
    columns = [name for name in TRIAL_COLUMNS if name in trials]
    rows, ids, seen = list[list[str]](), list[str | None](), set[str]()
    for trial in trials.to_dict("records"):
        name = str(trial["trial_id"])
        rows.append([name, str(trial["cell"]), *(_value(trial[c], c) for c in columns)])
        ids.append(None if name in seen else f"{prefix}-trial-{name}")
        seen.add(name)
    header = ["trial", "cell", *(TRIAL_COLUMNS[c] for c in columns)]
    return data_table(header, rows, "trials", row_ids=ids, class_="small")


def _value(value: Any, column: str) -> str:
    if pd.isna(value) or value == "":
        return DASH
    if column == "wall_seconds":
        return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
    if isinstance(value, float) and value.is_integer():
        return f"{value:.0f}"
    return str(value)[: SHORT.get(column)]


def show_configs(results: Results) -> Markup:
    """The fields in which cells differ, then those that they share."""
    configs = cell_configs(results)
    if not configs:
        return Markup("")
    varied, shared = differences(configs), in_common(configs)
    rows = [
        [cell, *(_setting(varied[name][i]) for name in varied)] for i, cell in enumerate(configs)
    ]
    parts = (
        [data_table(["cell", *varied], rows, "configurations", class_="small")] if varied else []
    )
    lines = "\n".join(f"{name} = {_setting(value)}" for name, value in shared.items())
    common = element(
        "details",
        element("summary", f"{len(shared)} settings that all cells share"),
        element("pre", lines),
    )
    return join([*parts, common])


def _setting(value: Any) -> str:
    return DASH if value is None else str(value)


def completeness_words(results: Results) -> str:
    """ "all 18 trials done" or "16 of 18 trials done; 1 error, 1 missing"."""
    counts = results.trials.drop_duplicates("trial_id")["status"].value_counts()
    total, done = int(counts.sum()), int(sum(counts.get(state, 0) for state in COUNTED))
    diverged = f" ({counts['diverged']} diverged)" if counts.get("diverged") else ""
    others = [f"{n} {state}" for state, n in sorted(counts.items()) if state not in COUNTED]
    start = f"all {total} trials done" if done == total else f"{done} of {total} trials done"
    return start + diverged + (f"; {', '.join(others)}" if others else "")
