"""The tables of a sweep as pure functions of `Results`; `analysis.tables.render` prints them.

One row per cell, in order. The text is for people (percent, one decimal); `Table.numbers` has the
same statistics with full precision as fractions in [0, 1]. The lengths shown are the same for
all cells, so that rows can be compared: the tested lengths closest to 1.5x and 2x the largest
trained length (the shorter one if two are as close), and the largest one tested.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from analysis.load import COUNTED, Results, trained_ranges
from analysis.statistics import runs as statistics
from analysis.statistics.training import cell_train
from analysis.tables.notes import NEAR, UNFITTED, describe, explain_unfitted

DASH = "–"


class TableCell(NamedTuple):
    """A field of a table; a `cell` without "Table" is a configuration, as everywhere."""

    text: str
    detail: str = ""  # its interval; in the header the second line


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table for people, and its numbers for programs."""

    title: str
    header: tuple[TableCell, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    notes: tuple[str, ...]  # sentences under the table
    numbers: pd.DataFrame  # full precision, a row per row of the table


def text_table(
    title: str,
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
    notes: tuple[str, ...],
    numbers: pd.DataFrame,
) -> Table:
    """A table of plain texts."""
    texts = tuple(tuple(TableCell(str(value)) for value in row) for row in rows)
    heads = tuple(TableCell(name) for name in header)
    return Table(title=title, header=heads, rows=texts, notes=notes, numbers=numbers)


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownLengths:
    """Which lengths a table shows."""

    lengths: tuple[int, ...]
    solve: int | None  # the one near 2x, or the longest asked for: solved runs are counted there
    largest_trained: int
    is_common: bool  # all cells were trained on the same lengths

    def label(self, length: int) -> str:
        """A length as readers see it: "24", or "24 (2x)" if that means the same for all cells."""
        if not self.is_common or length <= self.largest_trained:
            return f"{length}"
        return f"{length} ({times(length / self.largest_trained)})"


def ablation_table(results: Results, lengths: Sequence[int] = ()) -> Table:
    """The result of a sweep, one row per cell. lengths: those to show, instead of the usual ones.
    Raises ValueError for one that was not tested.
    """
    shown = choose_lengths(results, lengths)
    numbers = _measure_cells(results, shown)
    for name in ("checkpoint", "scale", "sweep"):
        numbers.insert(0, name, getattr(results, name))
    rows = numbers.to_dict("records")
    return Table(
        title=results.name,
        header=_header(results, shown),
        rows=tuple(_row(row, shown) for row in rows),
        notes=(*describe(results), *explain_unfitted(any(map(_is_unfitted, rows)))),
        numbers=numbers,
    )


def choose_lengths(results: Results, wanted: Sequence[int] = ()) -> ShownLengths:
    """The lengths beyond the largest trained one that a table shows; see the module. wanted: show
    these instead, of any range. Raises ValueError for one that was not tested.
    """
    trained, rows = trained_ranges(results), results.evaluation
    largest = max((high for _, high in trained.values()), default=0)
    every = sorted({int(length) for length in rows["length"]})
    if unknown := sorted(set(wanted) - set(every)):
        there = ", ".join(map(str, every))
        raise ValueError(f"length {unknown[0]} was not tested in {results.sweep}; tested: {there}")
    tested = {int(length) for length in rows.loc[rows["range"] == "test", "length"]}
    beyond = sorted(length for length in tested if length > largest)
    usual = {_closest(beyond, factor * largest) for factor in (1.5, 2)} if beyond else set()
    return ShownLengths(
        lengths=tuple(sorted(set(wanted) or usual | set(beyond[-1:]))),
        solve=max(wanted) if wanted else _closest(beyond, 2 * largest) if beyond else None,
        largest_trained=largest,
        is_common=len(set(trained.values())) == 1,
    )


def _closest(lengths: Iterable[int], target: float) -> int:
    return min(lengths, key=lambda length: (abs(length - target), length))


def _measure_cells(results: Results, shown: ShownLengths) -> pd.DataFrame:
    """The numbers of the table: one row per cell; nan where nothing counts."""
    evaluation = results.evaluation
    curves = statistics.cell_curves(evaluation)
    l95s = statistics.cell_l95(evaluation, curves).set_index("cell")
    train, trained = cell_train(results), trained_ranges(results)
    rows = []
    for cell in results.cells:
        status = results.trials.loc[results.trials["cell"] == cell, "status"]
        curve = curves[curves["cell"] == cell].set_index("length")
        low, high = trained.get(cell, (None, None))
        row: dict[str, Any] = {
            "cell": cell,
            "planned": len(status),
            "n": int(status.isin(COUNTED).sum()),
            "diverged": int((status == "diverged").sum()),
            "trained_min": low,
            "trained_max": high,
        }
        row |= {f"train_{name}": train.loc[cell, name] for name in ("median", "low", "high")}
        for length in shown.lengths:
            at = curve.loc[length] if length in curve.index else statistics.summarize([])
            row |= {f"em_{length}_{name}": at[name] for name in ("median", "low", "high")}
        names = ["l95", "l95_is_lower_bound", "l95_is_near", "l95_low", "l95_high"]
        row |= dict(l95s.loc[cell, names] if cell in l95s.index else dict.fromkeys(names))
        row |= {"l95_over_trained": row["l95"] / high if cell in l95s.index and high else None}
        rows.append(row | _measure_solved(curve, shown.solve))
    numbers = pd.DataFrame(rows)
    integers = ["trained_min", "trained_max", "l95", "l95_low", "l95_high", "solve_length"]
    return numbers.astype({**dict.fromkeys(integers, "Int64"), "l95_over_trained": "float64"})


def _measure_solved(curve: pd.DataFrame, length: int | None) -> dict[str, Any]:
    at = curve.loc[length] if length in curve.index else statistics.summarize([])
    names = ("num_solved", "share_solved", "share_low", "share_high", "worst", "best")
    return {"solve_length": length, "solve_n": at["n"]} | {name: at[name] for name in names}


def _header(results: Results, shown: ShownLengths) -> tuple[TableCell, ...]:
    ranges = sorted(set(trained_ranges(results).values()))
    trained = f"{ranges[0][0]}–{ranges[0][1]}" if len(ranges) == 1 else ""
    header = [TableCell("cell"), TableCell("runs")]
    header += [] if shown.is_common else [TableCell("trained", "on")]
    header.append(TableCell("train", trained))
    for length in shown.lengths:
        header.append(TableCell(*f"EM@{shown.label(length)}".split(" ")))
    header.append(TableCell("L95", "(x trained)"))
    if shown.solve is not None:
        header += [
            TableCell("solved", f"at {shown.solve}"),
            TableCell("worst–best", f"at {shown.solve}"),
        ]
    return tuple(header)


def _row(row: dict[Hashable, Any], shown: ShownLengths) -> tuple[TableCell, ...]:
    diverged = f"({row['diverged']} diverged)" if row["diverged"] else ""
    fields = [TableCell(row["cell"]), TableCell(f"{row['n']}/{row['planned']}", diverged)]
    if not shown.is_common:
        trained = f"{row['trained_min']}–{row['trained_max']}"
        fields.append(TableCell(DASH if pd.isna(row["trained_max"]) else trained))
    fields.append(_train_cell(row))
    fields += [_percent_cell(row, f"em_{length}") for length in shown.lengths]
    fields.append(_l95_cell(row))
    if shown.solve is not None:
        solved = TableCell(DASH)
        if row["solve_n"]:
            bounds = f"[{100 * row['share_low']:.0f}–{100 * row['share_high']:.0f} %]"
            solved = TableCell(f"{int(row['num_solved'])}/{int(row['solve_n'])}", bounds)
        fields += [solved, _worst_best(row)]
    return tuple(fields)


def _percent_cell(row: dict[Hashable, Any], name: str) -> TableCell:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    several = row["n"] > 1 and not pd.isna(low)
    interval = f"[{percent(low)}–{percent(high)}]" if several else ""
    return TableCell(percent(row[f"{name}_median"]), interval)


def _train_cell(row: dict[Hashable, Any]) -> TableCell:
    shown = _percent_cell(row, "train")
    return shown._replace(text=shown.text + UNFITTED) if _is_unfitted(row) else shown


def _is_unfitted(row: Mapping[Hashable, Any]) -> bool:
    return not (pd.isna(row["train_median"]) or statistics.fits(row["train_median"]))


def _worst_best(row: dict[Hashable, Any]) -> TableCell:
    best = f"–{percent(row['best'])}" if row["solve_n"] > 1 else ""
    return TableCell(f"{percent(row['worst'])}{best}")


def _l95_cell(row: dict[Hashable, Any]) -> TableCell:
    if pd.isna(row["l95"]):
        return TableCell(DASH)
    multiple = f" ({times(row['l95_over_trained'])})" if row["l95"] else ""
    near = NEAR if row["l95_is_near"] else ""
    text = f"{'≥' if row['l95_is_lower_bound'] else ''}{row['l95']}{near}{multiple}"
    detail = f"[{row['l95_low']}–{row['l95_high']}]" if row["n"] > 1 else ""
    return TableCell(text, detail)


def percent(fraction: float) -> str:
    """0.9876 as "98.8", nan as a dash. Only 1 is 100.0 and only 0 is 0.0."""
    if pd.isna(fraction):
        return DASH
    if 0 < fraction < 1:
        return f"{min(max(100 * fraction, 0.1), 99.9):.1f}"
    return f"{100 * fraction:.1f}"


def times(factor: float) -> str:
    """1.5 as "1.5x", 2.0 as "2x"."""
    return f"{factor:.1f}".removesuffix(".0") + "x"
