"""The tables of a sweep as pure functions of `Results`; `analysis.tables.render` prints them.

One row per cell, in order. Entries are what people read (percent, one decimal); `Table.numbers` has
the same statistics with full precision as fractions in [0, 1]. The lengths shown are the same for
all cells, so that rows can be compared: the tested lengths closest to 1.5x and 2x the largest
trained length (the shorter one if two are as close), and the largest one tested.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from analysis.load import COUNTED, Results, select_checkpoint, trained_ranges
from analysis.statistics import runs as statistics
from analysis.tables.notes import describe

DASH = "–"


class Entry(NamedTuple):
    """One field: the value, and what qualifies it (an interval; in the header its second line)."""

    text: str
    detail: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table for people (header, rows, notes) and for machines (numbers: one row per cell)."""

    title: str
    header: tuple[Entry, ...]
    rows: tuple[tuple[Entry, ...], ...]
    notes: tuple[str, ...]
    numbers: pd.DataFrame


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """Which lengths a table shows. solve: the one near 2x at which solved runs are counted."""

    lengths: tuple[int, ...]
    solve: int | None
    largest_trained: int
    is_common: bool  # all cells were trained on the same lengths


def ablation_table(results: Results, checkpoint: str = "last") -> Table:
    """The result of a sweep, one row per cell.

    Raises ValueError if the checkpoint policy was not evaluated.
    """
    evaluation = select_checkpoint(results, checkpoint)
    shown = choose_lengths(results, evaluation)
    numbers = _measure_cells(results, evaluation, shown)
    for name in ("checkpoint", "scale", "sweep"):
        numbers.insert(0, name, checkpoint if name == "checkpoint" else getattr(results, name))
    return Table(
        title=f"{results.title} ({results.sweep}, {results.scale})",
        header=_header(results, shown),
        rows=tuple(_row(row, shown) for _, row in numbers.iterrows()),
        notes=tuple(describe(results, evaluation, checkpoint)),
        numbers=numbers,
    )


def length_table(results: Results) -> pd.DataFrame:
    """All statistics per cell, checkpoint, range and length: the data of the figure."""
    frame = statistics.length_statistics(results.evaluation)
    frame.insert(0, "scale", results.scale)
    frame.insert(0, "sweep", results.sweep)
    return frame


def failure_table(results: Results, checkpoint: str = "last") -> pd.DataFrame:
    """Kinds of failure per cell and length as shares of the failures; diverged runs left out."""
    return statistics.failure_shares(select_checkpoint(results, checkpoint))


def choose_lengths(results: Results, evaluation: pd.DataFrame) -> Shown:
    """The lengths beyond the largest trained one that a table shows; see the module."""
    trained = trained_ranges(results)
    largest = max((high for _, high in trained.values()), default=0)
    is_common = len(set(trained.values())) == 1
    tested = evaluation[(evaluation["range"] == "test") & (evaluation["length"] > largest)]
    lengths = sorted(int(n) for n in tested["length"].unique())
    if not lengths:
        return Shown(lengths=(), solve=None, largest_trained=largest, is_common=is_common)
    half, double = (_closest(lengths, factor * largest) for factor in (1.5, 2))
    return Shown(
        lengths=tuple(sorted({half, double, lengths[-1]})),
        solve=double,
        largest_trained=largest,
        is_common=is_common,
    )


def _closest(lengths: Iterable[int], target: float) -> int:
    return min(lengths, key=lambda length: (abs(length - target), length))


def _measure_cells(results: Results, evaluation: pd.DataFrame, shown: Shown) -> pd.DataFrame:
    """The numbers of the table: one row per cell; nan where nothing counts."""
    curves = statistics.cell_curves(evaluation)
    l95s = statistics.cell_l95(evaluation).set_index("cell")
    train = statistics.train_exact_match(evaluation)
    trained = trained_ranges(results)
    rows = []
    for cell in results.cells:
        status = results.trials.loc[results.trials["cell"] == cell, "status"]
        curve = curves[curves["cell"] == cell].set_index("length")
        low, high = trained.get(cell, (None, None))
        row = {
            "cell": cell,
            "planned": len(status),
            "n": int(status.isin(COUNTED).sum()),
            "diverged": int((status == "diverged").sum()),
            "trained_min": low,
            "trained_max": high,
        }
        own = train[train["cell"] == cell]
        pooled = statistics.summarize(own["exact_match"], own[statistics.SEEDS].to_numpy())
        row |= {f"train_{name}": pooled[name] for name in ("median", "low", "high")}
        for length in shown.lengths:
            here = curve.loc[length] if length in curve.index else statistics.summarize([])
            row |= {f"em_{length}_{name}": here[name] for name in ("median", "low", "high")}
        names = ["l95", "l95_is_lower_bound", "l95_low", "l95_high"]
        row |= dict(l95s.loc[cell, names] if cell in l95s.index else dict.fromkeys(names))
        row |= {"l95_over_trained": row["l95"] / high if cell in l95s.index and high else None}
        rows.append(row | _measure_solved(curve, shown.solve))
    numbers = pd.DataFrame(rows)
    whole = ["trained_min", "trained_max", "l95", "l95_low", "l95_high", "solve_length"]
    return numbers.astype(dict.fromkeys(whole, "Int64") | {"l95_over_trained": float})


def _measure_solved(curve: pd.DataFrame, length: int | None) -> dict[str, object]:
    at = curve.loc[length] if length in curve.index else statistics.summarize([])
    names = ("num_solved", "share_solved", "share_low", "share_high", "worst")
    return {"solve_length": length, "solve_n": at["n"]} | {name: at[name] for name in names}


def _header(results: Results, shown: Shown) -> tuple[Entry, ...]:
    ranges = sorted(set(trained_ranges(results).values()))
    trained = f"{ranges[0][0]}–{ranges[0][1]}" if len(ranges) == 1 else ""
    header = [Entry("cell"), Entry("runs")]
    header += [] if shown.is_common else [Entry("trained", "on")]
    header.append(Entry("train", trained))
    for length in shown.lengths:
        multiple = f"({times(length / shown.largest_trained)})" if shown.is_common else ""
        header.append(Entry(f"EM@{length}", multiple))
    header.append(Entry("L95", "(x trained)"))
    if shown.solve is not None:
        header += [Entry("solved", f"at {shown.solve}"), Entry("worst", f"at {shown.solve}")]
    return tuple(header)


def _row(row: pd.Series, shown: Shown) -> tuple[Entry, ...]:
    diverged = f"({row['diverged']} diverged)" if row["diverged"] else ""
    entries = [Entry(row["cell"]), Entry(f"{row['n']}/{row['planned']}", diverged)]
    if not shown.is_common:
        known = not pd.isna(row["trained_max"])
        entries.append(Entry(f"{row['trained_min']}–{row['trained_max']}" if known else DASH))
    entries.append(_percent_entry(row, "train"))
    entries += [_percent_entry(row, f"em_{length}") for length in shown.lengths]
    entries.append(_l95_entry(row))
    if shown.solve is not None:
        solved = Entry(DASH)
        if row["solve_n"]:
            bounds = f"[{100 * row['share_low']:.0f}–{100 * row['share_high']:.0f} %]"
            solved = Entry(f"{int(row['num_solved'])}/{int(row['solve_n'])}", bounds)
        entries += [solved, Entry(percent(row["worst"]))]
    return tuple(entries)


def _percent_entry(row: pd.Series, name: str) -> Entry:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    several = row["n"] > 1 and not pd.isna(low)
    interval = f"[{percent(low)}–{percent(high)}]" if several else ""
    return Entry(percent(row[f"{name}_median"]), interval)


def _l95_entry(row: pd.Series) -> Entry:
    if pd.isna(row["l95"]):
        return Entry(DASH)
    multiple = f" ({times(row['l95_over_trained'])})" if row["l95"] else ""
    text = f"{'≥' if row['l95_is_lower_bound'] else ''}{row['l95']}{multiple}"
    detail = f"[{row['l95_low']}–{row['l95_high']}]" if row["n"] > 1 else ""
    return Entry(text, detail)


def percent(fraction: float) -> str:
    """0.9876 as "98.8", nan as a dash. Only all is 100.0 and only nothing is 0.0."""
    if pd.isna(fraction):
        return DASH
    if 0 < fraction < 1:
        return f"{min(max(100 * fraction, 0.1), 99.9):.1f}"
    return f"{100 * fraction:.1f}"


def times(factor: float) -> str:
    """1.5 as "1.5x", 2.0 as "2x"."""
    return f"{factor:.1f}".removesuffix(".0") + "x"
