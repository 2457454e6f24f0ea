"""The table of a sweep as a pure function of `Results`; `analysis.tables.render` prints it.

One row per cell, in order; `_columns` lists all that is measured and printed, and a new column is
an entry there. The text is for people (percent, one decimal); `Table.numbers` has the same
statistics with full precision as fractions in [0, 1]. The lengths shown are the same for all cells,
so that rows can be compared: of the lengths that most cells were tested at, those closest to 1.5x
and 2x the largest trained length (the shorter one if two are as close), and the largest one tested.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from analysis.load import COUNTED, Results, trained_ranges
from analysis.statistics import runs as statistics
from analysis.statistics.cells import Cells, Place, cells_of, name_place, show_place
from analysis.tables import table
from analysis.tables.notes import NEAR, UNFITTED, describe, describe_interval
from analysis.tables.table import (
    DASH,
    Column,
    Row,
    Table,
    TableCell,
    percent,
    show_interval,
    times,
)

INTEGERS = ("trained_min", "trained_max", "l95", "l95_low", "l95_high", "solve_length")
L95 = ("l95", "l95_is_lower_bound", "l95_is_near", "l95_low", "l95_high")
SOLVED = ("num_solved", "share_solved", "share_low", "share_high")
MEDIAN = ("median", "low", "high")


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownLengths:
    """Which lengths a table shows."""

    places: tuple[Place, ...]
    solve: Place | None  # the one near 2x, or the longest asked for: solved runs are counted there
    largest_trained: int
    is_common: bool  # all cells were trained on the same lengths

    def label(self, place: Place) -> str:
        """A length as readers see it: "24", or "24 (2x)" if that means the same for all cells."""
        length, second = place
        if second is not None or not self.is_common or length <= self.largest_trained:
            return name_place(place)
        return f"{length} ({times(length / self.largest_trained)})"


def ablation_table(results: Results, places: Sequence[Place] = ()) -> Table:
    """The result of a sweep, one row per cell. places: those to show, instead of the usual ones.
    Raises ValueError for one that was not tested.
    """
    columns = list(_columns(_Measures(cells_of(results)), choose_lengths(results, places)))
    numbers = table.measure(columns, results.cells)
    numbers = numbers.astype({**dict.fromkeys(INTEGERS, "Int64"), "l95_over_trained": "float64"})
    for name in ("checkpoint", "scale", "sweep"):
        numbers.insert(0, name, getattr(results, name))
    has_unfitted = any(map(_is_unfitted, numbers.to_dict("records")))
    notes = (*describe(results, _notes(columns), has_unfitted),)
    return table.show(columns, numbers, results.name, notes)


def choose_lengths(results: Results, wanted: Sequence[Place] = ()) -> ShownLengths:
    """The lengths beyond the largest trained one that a table shows; see the module. wanted: show
    these instead, or pairs, of any range. Raises ValueError for one that was not tested.
    """
    trained, rows = trained_ranges(results), results.evaluation
    largest = max((high for _, high in trained.values()), default=0)
    tests = rows[(rows["range"] == "test") & (rows["length"] > largest)]
    tested = tests.groupby("length")["cell"].nunique()
    common = [int(length) for length in tested.index[tested == tested.max()]]
    places, solve = list[Place](), None
    if wanted:
        _check_tested(results, wanted)
        places = sorted(set(wanted), key=_order)
        solve = places[-1]
    elif common:
        usual = {_closest(common, factor * largest) for factor in (1.5, 2)}
        places = [(length, None) for length in sorted({*usual, int(tested.index[-1])})]
        solve = _closest(common, 2 * largest), None
    return ShownLengths(
        places=tuple(places),
        solve=solve,
        largest_trained=largest,
        is_common=len(set(trained.values())) == 1,
    )


def _check_tested(results: Results, wanted: Iterable[Place]) -> None:
    """Raises ValueError that says what was tested: with the length of a pair, or at all."""
    rows = results.evaluation[["length", "second_length"]].drop_duplicates()
    lengths: set[Place] = {(int(length), None) for length in rows["length"]}
    pairs = {(int(n), int(m)) for n, m in rows.dropna().itertuples(index=False)}
    if unknown := sorted(set(wanted) - lengths - pairs, key=_order):
        with_it = {pair for pair in pairs if unknown[0][1] and pair[0] == unknown[0][0]}
        there = ", ".join(map(name_place, sorted(with_it or lengths, key=_order)))
        raise ValueError(
            f"length {name_place(unknown[0])} was not tested in {results.sweep}; tested: {there}"
        )


def _order(place: Place) -> tuple[int, int]:
    return place[0], place[1] or 0


def _closest(lengths: Iterable[int], target: float) -> int:
    return min(lengths, key=lambda length: (abs(length - target), length))


def _columns(cell: "_Measures", shown: ShownLengths) -> Iterator[Column]:
    """Every column: what it is called, what it measures, how it is printed, what it means."""
    evaluation, solve = cell.cells.results.evaluation, shown.solve
    spans = sorted(set(cell.cells.trained.values()))
    trained = f"{spans[0][0]}–{spans[0][1]}" if len(spans) == 1 else ""
    is_tuned = (evaluation["range"] == "near").any()
    near = f"; {NEAR}: it lies in the near range, on which recipes are tuned" if is_tuned else ""

    em = f"EM: exact match in %, median over runs [interval]. {describe_interval(evaluation)}"
    l95 = (
        "L95: largest tested length up to which the median EM stays above 95 % [the same rule for "
        f"both ends of the EM intervals]; ≥: nothing longer was tested{near}."
    )
    wilson = "solved: runs with EM above 95 % [95 % Wilson interval, as if runs shared no seed]"
    of_solve: dict[str, Any] = {
        "detail": f"at {show_place(*solve)}" if solve else "",
        "is_shown": solve is not None,
    }
    yield Column(head="runs", measure=cell.count, show=_show_runs, note="runs: counted/planned")
    has_span = not shown.is_common
    yield Column(head="trained", detail="on", measure=cell.span, show=_show_span, is_shown=has_span)
    yield Column(head="train", detail=trained, measure=cell.fit, show=show_train, note=em)
    for place in shown.places:
        head, _, detail = f"EM@{shown.label(place)}".partition(" ")
        at = partial(cell.at, place=place, names=MEDIAN, start=f"em_{name_place(place)}_")
        show = partial(show_match, place=place)
        yield Column(head=head, detail=detail, measure=at, show=show)
    yield Column(head="L95", detail="(x trained)", measure=cell.reach, show=show_l95, note=l95)
    solved = partial(cell.solve, solve)
    yield Column(head="solved", measure=solved, show=_show_solved, note=wilson, **of_solve)
    ends = partial(cell.at, place=solve, names=("worst", "best"))
    note = "worst–best: EM of these runs"
    yield Column(head="worst–best", measure=ends, show=_show_ends, note=note, **of_solve)


def _notes(columns: Sequence[Column]) -> list[str]:
    """What the columns mean, each thing once; short notes in one sentence."""
    first, *others = dict.fromkeys(column.note for column in columns if column.note)
    whole = [note for note in others if note.endswith(".")]
    return [*whole, "; ".join([note for note in others if note not in whole] + [first]) + "."]


@dataclass(frozen=True, slots=True)
class _Measures:
    """What the columns measure of a cell."""

    cells: Cells

    def count(self, cell: str) -> dict[str, Any]:
        trials, rows = self.cells.results.trials, self.cells.results.evaluation
        trials = trials[trials["cell"] == cell]
        tested = trials["trial_id"].isin(rows["trial_id"]) | rows.empty  # at this checkpoint
        num_runs = int((trials["status"].isin(COUNTED) & tested).sum())
        diverged = int((trials["status"] == "diverged").sum())
        return {"planned": len(trials), "n": num_runs, "diverged": diverged}

    def span(self, cell: str) -> dict[str, Any]:
        ends = self.cells.trained.get(cell, (None, None))
        return dict(zip(("trained_min", "trained_max"), ends, strict=True))

    def fit(self, cell: str) -> dict[str, Any]:
        return {f"train_{name}": self.cells.train.loc[cell, name] for name in MEDIAN}

    def at(
        self, cell: str, place: Place | None, names: Sequence[str], start: str = ""
    ) -> dict[str, Any]:
        """Some statistics of a cell at a length; nan where nothing counts."""
        row = self.cells.at(cell, *(place or (None,)))
        return {f"{start}{name}": row[name] for name in names}

    def reach(self, cell: str) -> dict[str, Any]:
        is_known = cell in self.cells.l95.index
        row: dict[str, Any] = dict.fromkeys(L95)
        row |= dict(self.cells.l95.loc[cell, [*L95]]) if is_known else {}
        longest = self.cells.trained.get(cell, (None, None))[1]
        return row | {"l95_over_trained": row["l95"] / longest if is_known and longest else None}

    def solve(self, place: Place | None, cell: str) -> dict[str, Any]:
        found, (length, second) = self.at(cell, place, ("n", *SOLVED)), place or (None, None)
        where = {"solve_length": length} | ({"solve_second_length": second} if second else {})
        return where | {"solve_n": found.pop("n")} | found


def _show_runs(row: Row) -> TableCell:
    diverged = f"({row['diverged']} diverged)" if row["diverged"] else ""
    return TableCell(f"{row['n']}/{row['planned']}", diverged)


def _show_span(row: Row) -> str:
    is_known = not pd.isna(row["trained_max"])
    return f"{row['trained_min']}–{row['trained_max']}" if is_known else DASH


def show_match(row: Row, place: Place) -> TableCell:
    """Exact match at a length, or pair of lengths, with its interval."""
    return show_interval(row, [f"em_{name_place(place)}_{name}" for name in MEDIAN])


def show_train(row: Row) -> TableCell:
    """Exact match on the trained lengths, marked where they are not fitted."""
    shown = show_interval(row, [f"train_{name}" for name in MEDIAN])
    return shown._replace(text=shown.text + UNFITTED) if _is_unfitted(row) else shown


def _is_unfitted(row: Row) -> bool:
    return not (pd.isna(row["train_median"]) or statistics.fits(row["train_median"]))


def show_l95(row: Row) -> TableCell:
    """L95 and how many times the longest trained length it is, with its interval."""
    if pd.isna(row["l95"]):
        return TableCell(DASH)
    multiple = f" ({times(row['l95_over_trained'])})" if row["l95"] else ""
    near = NEAR if row["l95_is_near"] else ""
    text = f"{'≥' if row['l95_is_lower_bound'] else ''}{row['l95']}{near}{multiple}"
    return TableCell(text, f"[{row['l95_low']}–{row['l95_high']}]" if row["n"] > 1 else "")


def _show_solved(row: Row) -> TableCell:
    if not row["solve_n"]:
        return TableCell(DASH)
    bounds = f"[{100 * row['share_low']:.0f}–{100 * row['share_high']:.0f} %]"
    return TableCell(f"{int(row['num_solved'])}/{int(row['solve_n'])}", bounds)


def _show_ends(row: Row) -> str:
    best = f"–{percent(row['best'])}" if row["solve_n"] > 1 else ""
    return f"{percent(row['worst'])}{best}"
