"""What a search tried, as a table: the best configurations of every arm."""

from typing import Any

import pandas as pd

from analysis.tables.sweep_tables import Table, TableCell

SHOWN = 3  # configurations of an arm


def search_table(tried: pd.DataFrame, title: str) -> Table:
    """The configurations of every arm that were trained to the end, best first; tried as
    `load_search`.
    """
    fields = [name for name in tried.columns if "." in name]
    most = tried.groupby("arm")["num_steps"].transform("max")
    full = tried[tried["num_steps"] == most].sort_values("near_score", kind="stable")
    order = {arm: i for i, arm in enumerate(tried["arm"].unique())}
    best = (
        full.groupby("arm")
        .head(SHOWN)
        .sort_values("arm", key=lambda a: a.map(order), kind="stable")
    )
    names = [name.rpartition(".")[2] for name in fields]
    return Table(
        title=title,
        header=tuple(TableCell(name) for name in ("arm", *names, "steps", "near score", "")),
        rows=tuple(
            tuple(
                TableCell(_text(value))
                for value in (
                    row["arm"],
                    *(row[field] for field in fields),
                    row["num_steps"],
                    f"{row['near_score']:.4f}",
                    "winner" if row["is_best"] else "",
                )
            )
            for row in best.to_dict("records")
        ),
        notes=(
            f"{len(tried)} configurations in {len(order)} arms, {len(full)} of them trained to the "
            f"end, of which the best {SHOWN} of an arm are shown; the others were stopped early.",
            "near score, smaller is better, 0 to 2: wrong answers + wrong tokens, as shares of all "
            "on the near range. The test range takes no part.",
        ),
        numbers=tried,
    )


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
