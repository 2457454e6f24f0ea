"""Traces a number in a table to its runs: counts, shards, configurations, commits."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.load import Results, suggest
from analysis.statistics.cells import cells_of
from analysis.tables.table import percent, value_text
from sweeps.engine.store.store import Store


def trace(results: Results, store: Store, cell: str, length: int) -> str:
    """The runs behind the exact match of a cell at a length, with commands for further details.

    Raises ValueError that names the nearest cell, or the existing lengths.
    """
    if cell not in results.cells:
        raise ValueError(f"no cell {cell!r}; {suggest(cell, results.cells)}")
    rows = results.evaluation[results.evaluation["cell"] == cell]
    at = rows[rows["length"] == length]
    if at.empty:
        tested = ", ".join(map(str, sorted(set(rows["length"])))) or "none"
        raise ValueError(f"cell {cell!r} was not tested at length {length}; there: {tested}")
    median = cells_of(results).at(cell, length)["median"]
    origin = results.trials[["cell", "trial_id", "git_commit", "git_dirty", "code_hash"]]
    runs = at.merge(origin, on=["cell", "trial_id"], validate="many_to_one")
    visible = store.visible()
    return "\n".join(
        [
            f"EM@{length} of {cell!r} in {results.sweep} [{results.scale}], checkpoint "
            f"{results.checkpoint}: {percent(median)} %, median over runs",
            "",
            *(_describe_run(run, visible[run["trial_id"]].name) for run in runs.to_dict("records")),
            "",
            f"configuration and attempts: python -m sweeps why {runs['trial_id'].iloc[0]} "
            f"--results {store.root}",
            f"the sweep again: {results.command}",
        ]
    )


def _describe_run(run: Mapping[Any, Any], shard: str) -> str:
    """Three lines on a run; shard: the name of its file below the results folder."""
    second = "" if pd.isna(run["second_length"]) else f" at second length {run['second_length']}"
    dirty = " with uncommitted changes" if run["git_dirty"] is True else ""
    return (
        f"trial {run['trial_id']}, model seed {run['seed']}, data seed {run['data_seed']}"
        f"{second}: {run['num_correct']} of {run['num_examples']} right "
        f"({percent(run['exact_match'])} %), test set {run['test_set']}\n"
        f"    rows    {shard}\n"
        f"    code    pcore {value_text(run['code_hash'])}, commit "
        f"{value_text(run['git_commit'] or None)}{dirty}"
    )
