"""The tables of a section of the report: results, comparisons, completeness, provenance."""

from typing import Any

import pandas as pd

from analysis.configs import cell_configs, differences, in_common
from analysis.load import COUNTED, Results
from analysis.markup import Markup, data_table, element, join
from analysis.tables import DASH, Entry, Table

TRIAL_COLUMNS = {  # column of the store: what stands over it
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
    """A table of `analysis.tables` with its notes."""
    return join([data_table(table.header, table.rows, table.title), show_notes(table.notes)])


def show_notes(notes: "tuple[str, ...] | list[str]") -> Markup:
    """The sentences under a table."""
    return element("ul", *(element("li", note) for note in notes), class_="notes")


def show_comparisons(frame: pd.DataFrame) -> Markup:
    """Rows of `analysis.comparisons.compare_arms`: each cell against the reference."""
    p = frame["p_sign"].fillna(frame["p_permutation"])
    has_examples = bool((frame["num_mcnemar"] > 0).any())
    rows = []
    for i, row in frame.iterrows():
        interval = f"[{points(row['low'])}, {points(row['high'])}]"
        rows.append(
            [
                row["cell"],
                f"{row['n_pairs']}" if row["is_paired"] else f"{row['n']} vs {row['n_reference']}",
                Entry(points(row["difference_median"]), interval if row["n"] > 1 else ""),
                _counts(row, "wins", "ties", "losses"),
                p_value(p[i]),
                p_value(row["p_holm"]),
            ]
        )
        if has_examples:
            rows[-1].append(_counts(row, "num_gained", "num_lost"))
            rows[-1].append(p_value(row["p_mcnemar_holm"]))
    header = [
        Entry("cell"),
        Entry("pairs"),
        Entry("difference", "points"),
        Entry("wins–ties–losses"),
        Entry("p"),
        Entry("p", "Holm"),
    ]
    if has_examples:
        header += [Entry("examples", "gained–lost"), Entry("p examples", "McNemar, Holm")]
    body = data_table(header, rows, "comparisons")
    return join([_reference(frame), body, show_notes(_comparison_notes(frame))])


def _reference(frame: pd.DataFrame) -> Markup:
    first = frame.iloc[0]
    where = f"at length {first['lengths']}"
    return element("p", "Exact match against ", element("b", first["reference"]), f", {where}.")


def _comparison_notes(frame: pd.DataFrame) -> list[str]:
    notes = [
        "difference: median over pairs of cell minus reference [interval]; a pair is equal seeds "
        "in both, on the same test examples. Diverged runs count as 0.",
        "p: exact sign test over pairs (new seeds); Holm: corrected for all rows of this table.",
    ]
    if (frame["num_mcnemar"] > 0).any():
        notes.append(
            "examples: those that only the cell (gained) or only the reference (lost) has right; "
            "McNemar: exact, more than half of the pairs of these trained models differ."
        )
    least = frame["least_p_holm"].min()
    if least > 0.05:
        notes.append(f"With so few seeds the corrected p cannot fall below {p_value(least)}.")
    for pairing, others in frame[~frame["is_paired"].astype(bool)].groupby("pairing"):
        cells = ", ".join(others["cell"])
        notes.append(f"Not paired, {pairing}: {cells} (difference of medians, permutation test).")
    return notes


def _counts(row: pd.Series, *names: str) -> str:
    known = [row[name] for name in names]
    return DASH if any(pd.isna(n) for n in known) else "–".join(f"{n:.0f}" for n in known)


def points(fraction: float) -> str:
    """A difference in percentage points with its sign."""
    return DASH if pd.isna(fraction) else f"{100 * fraction:+.1f}".replace("-", "−")


def p_value(p: float) -> str:
    """0.0312 as "0.031"."""
    if pd.isna(p):
        return DASH
    return "<0.001" if p < 0.001 else f"{min(p, 1):.3f}"


def show_completeness(results: Results) -> Markup:
    """Per cell: how many of the planned trials are done, and what became of the others."""
    states = (
        results.trials.groupby("cell", sort=False)["status"].value_counts().unstack(fill_value=0)
    )
    others = [state for state in states.columns if state not in COUNTED and states[state].any()]
    rows = []
    for cell in results.cells:
        counts = states.loc[cell]
        done = sum(int(counts.get(state, 0)) for state in COUNTED)
        diverged = int(counts.get("diverged", 0))
        row = [cell, f"{done}/{counts.sum()}", str(diverged)]
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
    """The fields in which cells differ, and below those that they share."""
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
