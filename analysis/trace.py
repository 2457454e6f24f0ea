"""From a number in a table to the runs behind it: counts, shards, configurations, commits."""

from dataclasses import dataclass
from difflib import get_close_matches

import pandas as pd

from analysis.load import Results, select_checkpoint
from analysis.statistics import runs as statistics
from analysis.tables.sweep_tables import percent
from sweeps.engine.store.store import Store

COLUMNS = [
    "cell",
    "trial_id",
    "seed",
    "data_seed",
    "status",
    "checkpoint",
    "checkpoint_step",
    "range",
    "length",
    "second_length",
    "num_correct",
    "num_examples",
    "exact_match",
    "test_set",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """What one number is made of.

    median: exact match over the runs, a fraction. runs: a row per counted run with the columns of
    `run_table`, the name of its shard below the results folder, git_commit, git_dirty, code_hash.
    """

    cell: str
    length: int
    checkpoint: str
    median: float
    runs: pd.DataFrame


def run_table(results: Results) -> pd.DataFrame:
    """A row per counted run, checkpoint, range, length and second length: what the statistics of a
    sweep are computed from. Diverged runs stand with 0 right.
    """
    return results.evaluation[COLUMNS]


def trace(
    results: Results, store: Store, cell: str, length: int, checkpoint: str = "last"
) -> Trace:
    """The runs behind the exact match of a cell at a length.

    Raises ValueError that names the nearest cell, or the lengths that there are.
    """
    rows = select_checkpoint(results, checkpoint)
    _check_known(cell, results.cells)
    rows = rows[rows["cell"] == cell]
    lengths = sorted(rows["length"].unique())
    if length not in lengths:
        there = ", ".join(map(str, lengths)) or "none"
        raise ValueError(f"cell {cell!r} was not tested at length {length}; there: {there}")
    curve = statistics.cell_curves(rows).set_index("length")
    visible = store.visible()
    runs = rows.loc[rows["length"] == length, COLUMNS]
    runs = runs.assign(shard=[visible[name].name for name in runs["trial_id"]])
    origin = results.trials[["cell", "trial_id", "git_commit", "git_dirty", "code_hash"]]
    return Trace(
        cell=cell,
        length=length,
        checkpoint=checkpoint,
        median=float(curve.loc[length, "median"]),
        runs=runs.merge(origin, on=["cell", "trial_id"], validate="many_to_one"),
    )


def _check_known(cell: str, cells: list[str]) -> None:
    if cell not in cells:
        close = get_close_matches(cell, cells, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}?" if close else f"there: {', '.join(cells)}"
        raise ValueError(f"no cell {cell!r}; {hint}")


def describe_trace(found: Trace, results: Results, place: str) -> str:
    """The trace for people, with the commands that lead on from it."""
    lines = [
        f"EM@{found.length} of {found.cell!r} in {results.sweep} [{results.scale}], checkpoint "
        f"{found.checkpoint}: {percent(found.median)} %, median over runs",
        "",
    ]
    for _, run in found.runs.iterrows():
        second = (
            "" if pd.isna(run["second_length"]) else f" at second length {run['second_length']}"
        )
        commit = run["git_commit"] or "unknown"
        dirty = " with uncommitted changes" if run["git_dirty"] is True else ""
        lines += [
            f"trial {run['trial_id']}, model seed {run['seed']}, data seed {run['data_seed']}"
            f"{second}: {run['num_correct']} of {run['num_examples']} right "
            f"({percent(run['exact_match'])} %), test set {run['test_set']}",
            f"    rows    {run['shard']}",
            f"    code    pcore {run['code_hash']}, commit {commit}{dirty}",
        ]
    first = found.runs["trial_id"].iloc[0]
    return "\n".join(
        [
            *lines,
            "",
            f"configuration and attempts: python -m sweeps why {first} --results {place}",
            f"the sweep again: python sweeps/{results.sweep}.py --scale {results.scale}",
        ]
    )
