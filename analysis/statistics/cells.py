"""The statistics of the cells of a sweep, each computed once: tables print them, figures draw them,
findings judge them, the page shows them.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import pandas as pd

from analysis.load import Results, trained_ranges
from analysis.statistics import runs as statistics
from analysis.statistics.runs import SEEDS
from analysis.statistics.training import drawn_lengths

Place: TypeAlias = tuple[int, int | None]  # a length, with a second one where there are several


def read_place(text: str) -> Place:
    """From "20", or "20x15". Raises ValueError for another text."""
    length, by, second = text.partition("x")
    return int(length), int(second) if by else None


def name_place(place: Place) -> str:
    """ "20", or "20x15": what `read_place` reads."""
    return "x".join(str(number) for number in place if number is not None)


def show_place(length: int, second: int | None) -> str:
    """ "20", or "20 x 15"."""
    return f"{length:,}" if second is None else f"{length} x {second}"


class Cells:
    """All numbers of the cells of a sweep at its checkpoint policy; of `cells_of`."""

    def __init__(self, results: Results):
        self.results = results

    @cached_property
    def trained(self) -> dict[str, tuple[int, int]]:
        """`trained_ranges`."""
        return trained_ranges(self.results)

    @cached_property
    def runs(self) -> pd.DataFrame:
        """`run_curves`."""
        return statistics.run_curves(self.results.evaluation)

    @cached_property
    def curves(self) -> pd.DataFrame:
        """`cell_curves`."""
        return statistics.cell_curves(self.results.evaluation)

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """`cell_curves` at each second length, for tasks that have several."""
        rows = self.results.evaluation
        parts = [
            statistics.cell_curves(part).assign(second_length=second)
            for second, part in rows.groupby("second_length")
        ]
        return pd.concat(parts, ignore_index=True) if parts else self.curves[:0]

    @cached_property
    def train(self) -> pd.DataFrame:
        """`summarize` over the runs of every cell, in order, of exact match on trained lengths."""
        drawn, cells = drawn_lengths(self.results), self.results.cells
        runs = statistics.train_exact_match(self.results.evaluation, drawn).groupby("cell")
        of = {
            cell: statistics.summarize(rows["exact_match"].to_numpy(), rows[SEEDS].to_numpy())
            for cell, rows in runs
        }
        return pd.DataFrame([of.get(c, statistics.summarize([])) for c in cells], index=cells)

    @cached_property
    def l95(self) -> pd.DataFrame:
        """`cell_l95`; cells without runs have no row."""
        return statistics.cell_l95(self.results.evaluation, self.curves)

    @cached_property
    def run_l95(self) -> pd.DataFrame:
        """The function of this name."""
        return statistics.run_l95(self.runs)

    def at(self, cell: str, length: int | None, second: int | None = None) -> Mapping[Any, Any]:
        """The statistics of a cell at a length, or a pair of lengths: a row of `curves` or `pairs`;
        of no runs where none counts there."""
        found = self._by_place.get((cell, length, second))
        return found or {"cell": cell, "num_examples": 0, **statistics.summarize([])}

    def runs_at(self, cells: Sequence[str], place: Place) -> pd.DataFrame:
        """Exact match of each run of these cells at a length, or at a pair of lengths."""
        length, second = place
        rows = self.runs if second is None else self.results.evaluation
        rows = rows[rows["cell"].isin(cells) & (rows["length"] == length)]
        return rows if second is None else rows[rows["second_length"] == second]

    @cached_property
    def _by_place(self) -> dict[tuple[str, int | None, int | None], Mapping[Any, Any]]:
        rows = [*self.curves.to_dict("records"), *self.pairs.to_dict("records")]
        return {(row["cell"], row["length"], row.get("second_length")): row for row in rows}


@lru_cache(maxsize=16)
def cells_of(results: Results) -> Cells:
    """The cells of a sweep: the same object for the same results."""
    return Cells(results)
