"""The published rows, and how pages write their numbers."""

from functools import lru_cache
from pathlib import Path

import pandas as pd

from analysis.load import Results, load_sweep
from analysis.statistics.runs import SOLVED
from analysis.tables.sweep_tables import percent

PUBLISHED = Path(__file__).parents[3] / "results" / "published"
LAPTOP, REPLICATION = PUBLISHED / "laptop", PUBLISHED / "replication"
ROUNDING, TWICE_THE_STEPS = PUBLISHED / "rounding", PUBLISHED / "twice_the_steps"
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@lru_cache
def load(sweep: str, store: Path = LAPTOP) -> Results:
    return load_sweep(store, sweep, "laptop")


def runs(sweep: str, only: str | None = None, store: Path = LAPTOP) -> pd.DataFrame:
    """Shares right: a row per cell, seed and data seed, a column per length; of a range or all."""
    rows = load(sweep, store).evaluation
    rows = rows if only is None else rows[rows["range"] == only]
    index = ["cell", "seed", "data_seed"]
    return rows.pivot_table(index=index, columns="length", values="exact_match")


def whole(share: float) -> str:
    """0.987 as "99"."""
    return f"{100 * share:.0f}"


def short(share: float) -> str:
    """0.987 as "98.7", 1 as "100"."""
    return percent(share).removesuffix(".0")


def medians(sweep: str, length: int) -> pd.Series:
    return runs(sweep)[length].groupby("cell").median()


def worst_trained(sweep: str) -> pd.Series:
    """At the worst trained length of each run."""
    return runs(sweep, "train").min(axis=1)


def num_examples(sweep: str, length: int) -> int:
    """Tested per run at a length, equal in all runs."""
    rows = load(sweep).evaluation
    (number,) = set(rows.loc[rows["length"] == length, "num_examples"])
    return number


def setting(sweep: str, name: str, store: Path = LAPTOP) -> set[object]:
    """All values of a setting in the rows."""
    values = load(sweep, store).trials[name]
    return {tuple(v) if hasattr(v, "__len__") and not isinstance(v, str) else v for v in values}


def reach(run: pd.Series) -> int:
    """The length up to which a run is above the limit everywhere."""
    holds = (run > SOLVED).cumprod() == 1
    return max(run.index[holds], default=0)


def run_lines(table: pd.DataFrame, lengths: tuple[int, ...], show=short) -> str:
    """The lines of a table with a line per run."""
    return " ".join(
        f"| {seed}, {data_seed} | " + " | ".join(show(run[n]) for n in lengths) + " |"
        for (_, seed, data_seed), run in table.iterrows()
    )


def arm_lines(sweep: str, lengths: tuple[int, ...], planned: int) -> list[str]:
    """The lines of a table with a line per arm, worst to best; an arm with fewer runs says so."""
    lines = []
    for cell, table in runs(sweep).groupby("cell"):
        named = f" ({len(table)} run{'s'[: len(table) > 1]})" if len(table) != planned else ""
        shown = [ends(table[n].dropna()) for n in lengths]
        lines.append(f"| {cell}{named} | " + " | ".join(shown) + " |")
    return lines


def ends(column: pd.Series, show=short) -> str:
    return "–".join(dict.fromkeys(map(show, (column.min(), column.max())))) if len(column) else "–"
