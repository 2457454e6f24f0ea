"""Which candidate coupling the near range selects, task by task.

The score of a run is that of searches (`sweeps.engine.search.results`), smaller is better: (1 -
exact
match) + (1 - token accuracy), averaged over near lengths. It tells candidates apart while exact
match is 0. Rows of the test range are never looked at: what a selected candidate does there stands
in the table of the sweep.
"""

import pandas as pd

from analysis.load import COUNTED, Results, select_checkpoint
from analysis.tables.sweep_tables import DASH, Entry, Table
from pcore.tasks.candidates import SEQUENTIAL

SEEDS = ["seed", "data_seed"]
KEYS = ["task", "candidate", "cell", "cell_order"]


def score_candidates(results: Results, checkpoint: str = "last") -> pd.DataFrame:
    """A row per candidate that was trained alone: its cell, runs, medians of near score and exact
    match, in how many of the seeds it has the best score, and whether it is selected.

    Selected = the smallest median score of the task. Raises ValueError if the sweep has no
    candidates alone, or no run of one was evaluated on a near range.
    """
    alone = _find_alone(results.trials)
    if alone.empty:
        raise ValueError(f"sweep {results.sweep!r} trains no candidate coupling alone")
    rows = select_checkpoint(results, checkpoint).merge(alone, on=["cell", "trial_id"])
    near = rows[rows["range"] == "near"]
    if near.empty:
        raise ValueError(f"sweep {results.sweep!r} has no rows of candidates on a near range yet")
    near = near.assign(
        score=2 - near["exact_match"] - near["num_correct_tokens"] / near["num_tokens"]
    )
    runs = near.groupby([*KEYS, *SEEDS], as_index=False)[["score", "exact_match"]].mean()
    runs["best"] = runs["score"] == runs.groupby(["task", *SEEDS])["score"].transform("min")
    found = runs.groupby(KEYS, as_index=False).agg(
        n=("score", "size"),
        score=("score", "median"),
        exact_match=("exact_match", "median"),
        num_best=("best", "sum"),
    )
    found["selected"] = found["score"] == found.groupby("task")["score"].transform("min")
    return found.sort_values("cell_order", ignore_index=True)


def selection_table(results: Results, checkpoint: str = "last") -> Table:
    """The scores as a table, candidates in the order of the sweep."""
    numbers = score_candidates(results, checkpoint)
    header = ("cell", "candidate", "runs", "near score", "near exact match", "best in", "selected")
    return Table(
        title=f"{results.title}: selection on the near range ({results.sweep}, {results.scale})",
        header=tuple(map(Entry, header)),
        rows=tuple(_row(row) for _, row in numbers.iterrows()),
        notes=(
            "Near score, smaller is better: (1 - exact match) + (1 - token accuracy), averaged "
            "over near lengths; medians over runs. The test range takes no part.",
            "best in: runs whose seeds give no other candidate of the task a smaller score. "
            "selected: the smallest median score of the task.",
        ),
        numbers=numbers,
    )


def _row(row: pd.Series) -> tuple[Entry, ...]:
    texts = (
        row["cell"],
        row["candidate"],
        str(row["n"]),
        f"{row['score']:.3f}",
        f"{100 * row['exact_match']:.1f}",
        f"{row['num_best']} of {row['n']}",
        "selected" if row["selected"] else DASH,
    )
    return tuple(map(Entry, texts))


def _find_alone(trials: pd.DataFrame) -> pd.DataFrame:
    """Counted trials of one candidate each. Sequential numbering is one, under its own name."""
    counted = trials[trials["status"].isin(COUNTED)]
    learned = counted["position.encoding"] == "learned"
    one = (counted["position.ids"] == "candidates") & (counted["position.candidate"] != "all")
    sequential = counted["position.ids"] == SEQUENTIAL
    chosen = counted[learned & (one | sequential) & one.any()]
    names = chosen["position.candidate"].where(chosen["position.ids"] != SEQUENTIAL, SEQUENTIAL)
    return pd.DataFrame(
        {
            "cell": chosen["cell"],
            "trial_id": chosen["trial_id"],
            "task": chosen["task.name"],
            "candidate": names,
        }
    )
