"""Traces a number in a table to its runs: counts, shards, configurations, commits."""

from dataclasses import dataclass

import pandas as pd

from analysis.load import Results, suggest
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
    """The runs behind one number of a table."""

    cell: str
    length: int
    checkpoint: str
    median: float  # exact match over the runs, in [0, 1]
    # a row per counted run: columns of `run_table`, shard (its name below the results folder),
    # git_commit, git_dirty, code_hash
    runs: pd.DataFrame


def run_table(results: Results) -> pd.DataFrame:
    """A row per counted run, checkpoint policy, range, length and second length: what the
    statistics of a sweep are computed from. Diverged runs have 0 correct.
    """
    return results.all_evaluation[COLUMNS]


def trace(results: Results, store: Store, cell: str, length: int) -> Trace:
    """The runs behind the exact match of a cell at a length.

    Raises ValueError that names the nearest cell, or the existing lengths.
    """
    if cell not in results.cells:
        raise ValueError(f"no cell {cell!r}; {suggest(cell, results.cells)}")
    rows = results.evaluation[results.evaluation["cell"] == cell]
    lengths = sorted(set(rows["length"]))
    if length not in lengths:
        tested = ", ".join(map(str, lengths)) or "none"
        raise ValueError(f"cell {cell!r} was not tested at length {length}; there: {tested}")
    curve = statistics.cell_curves(rows).set_index("length")
    visible = store.visible()
    runs = rows.loc[rows["length"] == length, COLUMNS]
    runs = runs.assign(shard=[visible[name].name for name in runs["trial_id"]])
    origin = results.trials[["cell", "trial_id", "git_commit", "git_dirty", "code_hash"]]
    return Trace(
        cell=cell,
        length=length,
        checkpoint=results.checkpoint,
        median=float(curve["median"].loc[length]),
        runs=runs.merge(origin, on=["cell", "trial_id"], validate="many_to_one"),
    )


def describe_trace(traced: Trace, results: Results, folder: str) -> str:
    """The trace as text, with commands for further details; folder: of the results."""
    lines = [
        f"EM@{traced.length} of {traced.cell!r} in {results.sweep} [{results.scale}], checkpoint "
        f"{traced.checkpoint}: {percent(traced.median)} %, median over runs",
        "",
    ]
    for run in traced.runs.to_dict("records"):
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
    first = traced.runs["trial_id"].iloc[0]
    return "\n".join(
        [
            *lines,
            "",
            f"configuration and attempts: python -m sweeps why {first} --results {folder}",
            f"the sweep again: {results.command}",
        ]
    )
