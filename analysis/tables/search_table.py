"""What a search tried, as a table: configurations of every arm, the best first."""

from typing import Any

import pandas as pd

from analysis.tables.table import Table, text_table

SHOWN = 5  # configurations of an arm


def search_table(tried: pd.DataFrame, title: str) -> Table:
    """The configurations of every arm, those trained longest first and of these the best; tried as
    `load_search`.
    """
    fields = [name for name in tried.columns if "." in name]
    order = {arm: i for i, arm in enumerate(tried["arm"].unique())}
    ranked = tried.assign(place=tried["arm"].map(order)).sort_values(
        ["place", "num_steps", "near_score"], ascending=[True, False, True], kind="stable"
    )
    best = ranked.groupby("arm", sort=False).head(SHOWN)
    names = [name.rpartition(".")[2] for name in fields]
    num_full = int((tried["num_steps"] == tried.groupby("arm")["num_steps"].transform("max")).sum())
    return text_table(
        title=title,
        header=("arm", *names, "steps", "near score", ""),
        rows=(
            (
                row["arm"],
                *(_text(row[field]) for field in fields),
                _text(row["num_steps"]),
                f"{row['near_score']:.4f}",
                "winner" if row["is_best"] else "",
            )
            for row in best.to_dict("records")
        ),
        notes=(
            f"{len(tried)} configurations, {num_full} of them trained to the end, the others "
            f"stopped after fewer steps; of each arm at most {SHOWN} are shown, all are in the "
            "CSV file.",
            "near score, smaller is better, 0 to 2: wrong answers + wrong tokens, as shares of all "
            "on the near range. The test range takes no part.",
        ),
        numbers=tried,
    )


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
