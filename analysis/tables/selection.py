"""Which candidate coupling the near range selects, task by task.

The score of a run is that of searches (`sweeps.engine.store.score`), smaller is better. Rows of the
test range are never used: what a selected candidate does there is in the table of the sweep.
"""

from collections.abc import Hashable
from typing import Any

import pandas as pd

from analysis.load import COUNTED, Results
from analysis.statistics.runs import SEEDS
from analysis.tables.sweep_tables import DASH, Table, percent, text_table
from pcore.tasks.candidates import SEQUENTIAL
from sweeps.engine.store.score import near_score

KEYS = ["task", "candidate", "cell", "cell_order"]


def score_candidates(results: Results) -> pd.DataFrame:
    """A row per candidate that was trained alone: its cell, runs, medians of near score and exact
    match, in how many of the seeds it has the best score, and whether it is selected.

    Selected = the smallest median score of the task. Raises ValueError if the sweep has no
    candidates alone, or no run of one was evaluated on a near range.
    """
    single = _single_candidates(results.trials)
    if single.empty:
        raise ValueError(f"sweep {results.sweep!r} trains no candidate coupling alone")
    rows = results.evaluation.merge(single, on=["cell", "trial_id"])
    near = rows[rows["range"] == "near"]
    if near.empty:
        raise ValueError(f"sweep {results.sweep!r} has no rows of candidates on a near range yet")
    near = near.assign(score=near_score(near))
    runs = near.groupby([*KEYS, *SEEDS], as_index=False)[["score", "exact_match"]].mean()
    runs["best"] = runs["score"] == runs.groupby(["task", *SEEDS])["score"].transform("min")
    scores = runs.groupby(KEYS, as_index=False).agg(
        n=("score", "size"),
        score=("score", "median"),
        exact_match=("exact_match", "median"),
        num_best=("best", "sum"),
    )
    scores["selected"] = scores["score"] == scores.groupby("task")["score"].transform("min")
    return scores.sort_values("cell_order", ignore_index=True)


def selection_table(results: Results) -> Table:
    """The scores as a table, candidates in the order of the sweep."""
    numbers = score_candidates(results)
    header = ("cell", "candidate", "runs", "near score", "near exact match", "best in", "selected")
    return text_table(
        title=f"{results.title}: selection on the near range ({results.sweep}, {results.scale})",
        header=header,
        rows=(_row(row) for row in numbers.to_dict("records")),
        notes=(
            "Near score, smaller is better: (1 - exact match) + (1 - token accuracy), averaged "
            "over near lengths; medians over runs. The test range takes no part.",
            "best in: runs whose seeds give no other candidate of the task a smaller score. "
            "selected: the smallest median score of the task.",
        ),
        numbers=numbers,
    )


def _row(row: dict[Hashable, Any]) -> tuple[str, ...]:
    return (
        row["cell"],
        row["candidate"],
        str(row["n"]),
        f"{row['score']:.3f}",
        percent(row["exact_match"]),
        f"{row['num_best']} of {row['n']}",
        "selected" if row["selected"] else DASH,
    )


def _single_candidates(trials: pd.DataFrame) -> pd.DataFrame:
    """Counted trials of one candidate each. Sequential numbering is one, under its own name."""
    counted = trials[trials["status"].isin(COUNTED)]
    learned = counted["position.encoding"] == "learned"
    one = (counted["position.ids"] == "candidates") & (counted["position.candidate"] != "all")
    sequential = counted["position.ids"] == SEQUENTIAL
    chosen = counted[learned & (one | sequential)] if one.any() else counted[:0]
    names = chosen["position.candidate"].where(chosen["position.ids"] != SEQUENTIAL, SEQUENTIAL)
    return pd.DataFrame(
        {
            "cell": chosen["cell"],
            "trial_id": chosen["trial_id"],
            "task": chosen["task.name"],
            "candidate": names,
        }
    )
