"""What a search tried, as a table: configurations of every arm, the best first."""

from dataclasses import replace

import pandas as pd

from analysis.tables.table import DASH, Column, Row, Table, plain, show
from pcore.cli.text import plural

SHOWN = 5  # configurations of an arm


def search_table(tried: pd.DataFrame, title: str, num_newer: int = 0) -> Table:
    """The configurations of every arm, those trained longest first and of these the best; tried as
    `load_search`, num_newer as `count_newer`.
    """
    fields = [name for name in tried.columns if "." in name]
    order = {arm: i for i, arm in enumerate(tried["arm"].unique())}
    ranked = tried.assign(place=tried["arm"].map(order)).sort_values(
        ["place", "num_steps", "near_score"], ascending=[True, False, True], kind="stable"
    )
    best = ranked.groupby("arm", sort=False).head(SHOWN)
    num_full = int((tried["num_steps"] == tried.groupby("arm")["num_steps"].transform("max")).sum())
    columns = [plain(name, name.rpartition(".")[2]) for name in fields]
    columns.append(plain("num_steps", "steps"))
    columns.append(Column(head="near score", show=_score))
    columns.append(Column(head="", show=lambda row: "winner" if row["is_best"] else ""))
    notes = [
        f"{len(tried)} configurations, {num_full} of them trained to the end, the others stopped "
        f"after fewer steps; of each arm at most {SHOWN} are shown, all are in the CSV file.",
        "near score, smaller is better, 0 to 2: wrong answers + wrong tokens, as shares of all on "
        "the near range. The test range takes no part.",
    ]
    if "num_failed" in tried:
        arms = tried.drop_duplicates("arm").to_dict("records")
        notes.append(f"Spent by each arm: {'; '.join(map(_spent, arms))}.")
    if num_newer:
        notes.append(
            f"{plural(num_newer, 'trial')} of the newest view of this search took no part in the "
            "choice: its space or its budget was another, and it has no winners of its own here."
        )
    return replace(show(columns, best, title, notes, first="arm"), numbers=tried)


def _spent(row: Row) -> str:
    text = f"{row['arm']} {row['num_trained_steps']:,} steps"
    number = row["num_failed"]
    return f"{text}, {plural(number, 'configuration')} failed" if number else text


def _score(row: Row) -> str:
    return DASH if pd.isna(row["near_score"]) else f"{row['near_score']:.4f}"
