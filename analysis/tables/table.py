"""A table for people with its numbers for programs, and how numbers are printed."""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

DASH = "–"
Row = Mapping[Hashable, Any]


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """A column of a table: everything that is said about it."""

    head: str
    detail: str = ""  # of the head, its second line
    show: Callable[[Row], TableCell | str]  # from all numbers of a row
    # its numbers of a cell, by their names in the CSV; of tables of a frame: they are there
    measure: Callable[[str], Mapping[str, Any]] = lambda _: {}
    note: str = ""  # what it is, for the notes under the table
    is_shown: bool = True  # else it is in the CSV file alone


def measure(columns: Iterable[Column], cells: Iterable[str]) -> pd.DataFrame:
    """The numbers of all columns, a row per cell."""
    columns = list(columns)
    rows = [
        [("cell", cell), *(n for c in columns for n in c.measure(cell).items())] for cell in cells
    ]
    return pd.DataFrame(map(dict, rows))


def show(
    columns: Iterable[Column],
    numbers: pd.DataFrame,
    title: str,
    notes: Sequence[str],
    first: str = "cell",
) -> Table:
    """The table of these columns; numbers: as `measure` gives them, or any frame with what they
    show. first: the name of the first column, which is text.
    """
    shown = [plain(first), *(column for column in columns if column.is_shown)]
    texts = ([column.show(row) for column in shown] for row in numbers.to_dict("records"))
    return Table(
        title=title,
        header=tuple(TableCell(column.head, column.detail) for column in shown),
        rows=tuple(tuple(TableCell(t) if isinstance(t, str) else t for t in row) for row in texts),
        notes=tuple(notes),
        numbers=numbers,
    )


def plain(name: str, head: str = "") -> Column:
    """A column of a frame as it is."""
    return Column(head=head or name, show=lambda row: value_text(row[name]))


def value_text(value: Any) -> str:
    """A dash for what is missing, a number as short as it is to six digits, else the text."""
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return DASH
    return f"{value:g}" if isinstance(value, float) else str(value)


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


def show_interval(
    row: Row, names: Iterable[str], text: Callable[[float], str] = percent
) -> TableCell:
    """A median with its interval below it, of several runs; names: of the numbers of the row that
    are the median and both ends."""
    middle, low, high = (row[name] for name in names)
    interval = f"[{text(low)}–{text(high)}]" if row["n"] > 1 and not pd.isna(low) else ""
    return TableCell(DASH if pd.isna(middle) else text(middle), interval)
