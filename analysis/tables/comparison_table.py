"""Comparisons (`analysis.statistics.comparisons`) as tables: arms of a sweep against its first, or
two result sets."""

from collections.abc import Callable
from dataclasses import replace

import pandas as pd

from analysis.load import Results
from analysis.statistics.comparisons import SURE
from analysis.tables.table import DASH, Column, Row, Table, TableCell, percent, plain, show
from pcore.cli.text import plural

TOO_FEW = "too few runs"
MOST_NAMES = 5  # cells of one side that a note names
TEST = (
    "p: sign test over pairs (equal seeds, same questions), else a test of ranks, with seeds "
    "shared as the intervals take them; Holm: corrected for all rows of this table. "
    f"{TOO_FEW}: the least p that the test can give is above {SURE}, whatever the runs say."
)


def arms_table(frame: pd.DataFrame, title: str) -> Table:
    """One row per row of `compare_arms`: a cell against the reference. A p that has too few runs in
    every row has no column, and examples that no row has neither."""
    first = frame.iloc[0]
    columns = [
        _column("pairs", "", _pairs),
        _column("difference", "points", _difference),
        _column("wins–ties–losses", "", lambda row: _counts(row, "wins", "ties", "losses")),
        _column("p", "", lambda row: p_value(row["p"], row["least_p"])),
        _column("p", "Holm", lambda row: p_value(row["p_holm"], row["least_p_holm"])),
        _column("examples", "gained–lost", lambda row: _counts(row, "num_gained", "num_lost")),
    ]
    rows = frame.to_dict("records")
    texts = [{column.show(row).text for row in rows} for column in columns]
    few = [TOO_FEW in found and found <= {TOO_FEW, DASH} for found in texts]
    has_examples = texts[-1] != {DASH}
    shown = [c for c, is_few in zip(columns, few, strict=True) if not is_few]
    notes = [
        f"difference: exact match at length {first['length']} minus that of {first['reference']}, "
        "median over pairs [interval]. Diverged runs count as 0.",
        TEST + (f" No column of p: {TOO_FEW} in every row." if any(few) else ""),
    ]
    if has_examples:
        notes.append(
            "examples: those that only the cell (gained) or only the reference (lost) has right, "
            "of these trained models; that says nothing about new seeds."
        )
    for pairing, others in frame[frame["pairing"] != "paired"].groupby("pairing"):
        instead = "" if pairing == "no runs" else " (difference of medians, test of ranks)"
        notes.append(f"Not paired, {pairing}: {', '.join(others['cell'])}{instead}.")
    title = f"{title}: arms against {first['reference']}"
    return show(shown if has_examples else shown[:-1], frame, title, notes)


def change_table(frame: pd.DataFrame, title: str, by_length: bool = False) -> Table:
    """One row per row of `compare_results`, of the cells that are not equal throughout; if there is
    only one cell, of this one."""
    differs = frame[frame["verdict"] != "equal"]
    shown = frame if frame["cell"].nunique() == 1 else differs
    columns = [
        plain("lengths"),
        _column("A", "", lambda row: percent(row["median_a"])),
        _column("B", "", lambda row: percent(row["median_b"])),
        _column("B - A", "", _difference),
        _column("runs A/B", "", lambda row: f"{row['n_a']}/{row['n_b']}"),
        _column("p (Holm)", "", lambda row: p_value(row["p_holm"], row["least_p_holm"])),
        plain("verdict"),
    ]
    columns = [column for column in columns if not (by_length and column.head.text == "p (Holm)")]
    what = "at a length" if by_length else "of a run's mean over these lengths"
    more = "" if by_length else " --by-length: every length, with intervals."
    equal = f"{len(frame) - len(differs)} of {len(frame)} rows are equal: the same counts at every "
    notes = (
        f"A, B: median exact match (%) {what}. {equal}length in every run.{more}",
        "Intervals hold at each length, not at all of them together." if by_length else TEST,
    )
    return replace(show(columns, shown, title, notes), numbers=frame)


def _column(head: str, detail: str, text: Callable[[Row], str | TableCell]) -> Column:
    def field(row: Row) -> TableCell:
        shown = text(row)
        return shown if isinstance(shown, TableCell) else TableCell(shown)

    return Column(head=TableCell(head, detail), show=field)


def count_cells(a: Results, b: Results) -> str:
    """Which cells one side alone has, and how many of the others are the same trials on both."""
    ids = [results.view.groupby("cell")["trial_id"].agg(set).to_dict() for results in (a, b)]
    both = [cell for cell in a.cells if cell in ids[1]]
    same = sum(ids[0][cell] == ids[1][cell] for cell in both)
    text = f"On both sides: {plural(len(both), 'cell')}, {same} with the very same trials."
    for side, cells in (("A", a.cells), ("B", b.cells)):
        only = [cell for cell in cells if cell not in both]
        names = "; ".join(only[:MOST_NAMES]) + ("; ..." if len(only) > MOST_NAMES else "")
        text += f" Only in {side}: {f'{len(only)} ({names})' if only else 'none'}."
    seeds = [
        {*r.view[["cell", "seed", "data_seed"]].itertuples(index=False, name=None)} for r in (a, b)
    ]
    if both and not seeds[0] & seeds[1]:
        text += " No run of A has the seeds of a run of B, so no runs are paired."
    return text


def _pairs(row: Row) -> str:
    is_paired = row["pairing"] == "paired"
    return str(row["n_pairs"]) if is_paired else f"{row['n']} vs {row['n_reference']}"


def _difference(row: Row) -> TableCell:
    interval = f"[{points(row['low'])}, {points(row['high'])}]"
    return TableCell(
        points(row["difference_median"]), "" if row["interval"] == "none" else interval
    )


def _counts(row: Row, *names: str) -> str:
    return DASH if any(pd.isna(row[n]) for n in names) else "–".join(str(row[n]) for n in names)


def points(fraction: float) -> str:
    """A difference in percentage points with its sign."""
    return DASH if pd.isna(fraction) else f"{100 * fraction:+.1f}".replace("-", "−")


def p_value(p: float, least: float = 0) -> str:
    """0.0312 as "0.031"; "too few runs" if the least p that the test can give is too large."""
    if pd.isna(p):
        return DASH
    if least > SURE:
        return TOO_FEW
    return "<0.001" if p < 0.001 else f"{min(p, 1):.3f}"
