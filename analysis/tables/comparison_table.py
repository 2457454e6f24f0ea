"""Comparisons (`analysis.statistics.comparisons`) as tables: arms of a sweep against its first, or
two result sets."""

from collections.abc import Hashable
from typing import Any

import pandas as pd

from analysis.load import Results
from analysis.statistics.comparisons import SURE
from analysis.tables.table import DASH, Table, TableCell, percent
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
    every row has no column."""
    first = frame.iloc[0]
    columns = {
        ("cell", ""): [TableCell(cell) for cell in frame["cell"]],
        ("pairs", ""): [TableCell(_pairs(row)) for row in frame.to_dict("records")],
        ("difference", "points"): [_difference(row) for row in frame.to_dict("records")],
        ("wins–ties–losses", ""): _counts(frame, ["wins", "ties", "losses"]),
        ("p", ""): [
            TableCell(p_value(*pair)) for pair in zip(frame["p"], frame["least_p"], strict=True)
        ],
        ("p", "Holm"): _adjusted(frame),
        ("examples", "gained–lost"): _counts(frame, ["num_gained", "num_lost"]),
    }
    texts = {name: {cell.text for cell in column} for name, column in columns.items()}
    few = [name for name, found in texts.items() if TOO_FEW in found and found <= {TOO_FEW, DASH}]
    empty = [name for name in (("examples", "gained–lost"),) if texts[name] == {DASH}]
    shown = {name: column for name, column in columns.items() if name not in (*few, *empty)}
    notes = [
        f"difference: exact match at length {first['length']} minus that of {first['reference']}, "
        "median over pairs [interval]. Diverged runs count as 0.",
        TEST + (f" No column of p: {TOO_FEW} in every row." if few else ""),
    ]
    if not empty:
        notes.append(
            "examples: those that only the cell (gained) or only the reference (lost) has right, "
            "of these trained models; that says nothing about new seeds."
        )
    for pairing, others in frame[frame["pairing"] != "paired"].groupby("pairing"):
        instead = "" if pairing == "no runs" else " (difference of medians, test of ranks)"
        notes.append(f"Not paired, {pairing}: {', '.join(others['cell'])}{instead}.")
    return Table(
        title=f"{title}: arms against {first['reference']}",
        header=tuple(TableCell(*name) for name in shown),
        rows=tuple(zip(*shown.values(), strict=True)),
        notes=tuple(notes),
        numbers=frame,
    )


def change_table(frame: pd.DataFrame, title: str, by_length: bool = False) -> Table:
    """One row per row of `compare_results`, of the cells that are not equal throughout; if there is
    only one cell, of this one."""
    differs = frame[frame["verdict"] != "equal"]
    shown = frame if frame["cell"].nunique() == 1 else differs
    header = ("cell", "lengths", "A", "B", "B - A", "runs A/B", "p (Holm)", "verdict")
    rows = [
        (
            TableCell(row["cell"]),
            TableCell(row["lengths"]),
            TableCell(percent(row["median_a"])),
            TableCell(percent(row["median_b"])),
            _difference(row),
            TableCell(f"{row['n_a']}/{row['n_b']}"),
            TableCell(p_value(row["p_holm"], row["least_p_holm"])),
            TableCell(row["verdict"]),
        )
        for row in shown.to_dict("records")
    ]
    kept = [i for i in range(len(header)) if not (by_length and header[i] == "p (Holm)")]
    what = "at a length" if by_length else "of a run's mean over these lengths"
    more = "" if by_length else " --by-length: every length, with intervals."
    equal = f"{len(frame) - len(differs)} of {len(frame)} rows are equal: the same counts at every "
    return Table(
        title=title,
        header=tuple(TableCell(header[i]) for i in kept),
        rows=tuple(tuple(row[i] for i in kept) for row in rows),
        notes=(
            f"A, B: median exact match (%) {what}. {equal}length in every run.{more}",
            "Intervals hold at each length, not at all of them together." if by_length else TEST,
        ),
        numbers=frame,
    )


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


def _pairs(row: dict[Hashable, Any]) -> str:
    is_paired = row["pairing"] == "paired"
    return str(row["n_pairs"]) if is_paired else f"{row['n']} vs {row['n_reference']}"


def _difference(row: dict[Hashable, Any]) -> TableCell:
    interval = f"[{points(row['low'])}, {points(row['high'])}]"
    return TableCell(
        points(row["difference_median"]), "" if row["interval"] == "none" else interval
    )


def _adjusted(frame: pd.DataFrame) -> list[TableCell]:
    pairs = zip(frame["p_holm"], frame["least_p_holm"], strict=True)
    return [TableCell(p_value(p, least)) for p, least in pairs]


def _counts(frame: pd.DataFrame, names: list[str]) -> list[TableCell]:
    counts = frame[names].to_numpy()
    return [TableCell(DASH if pd.isna(row).any() else "–".join(map(str, row))) for row in counts]


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
