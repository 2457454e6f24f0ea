"""Comparisons (`analysis.statistics.comparisons`) as tables: arms of a sweep against its first, or
two result sets."""

from collections.abc import Iterable
from functools import partial

import pandas as pd

from analysis.statistics.comparisons import EXAMPLES, SURE
from analysis.tables.table import DASH, Column, Row, Table, TableCell, percent, plain, show

TOO_FEW = "too few runs"
TEST = (
    "p: sign test over pairs (equal seeds, same questions), else a test of ranks, with seeds "
    "shared as the intervals take them; Holm: corrected for all rows of this table. "
    f"{TOO_FEW}: the least p that the test can give is above {SURE}."
)
GAINED = (
    "examples: those that only B (gained) or only A (lost) has right, of these trained models; "
    "that says nothing about new seeds."
)

WORST_SECOND = "A length counts with the worst of the second lengths that both were tested at."


def comparison_table(
    frame: pd.DataFrame, title: str, by_length: bool = False, has_seconds: bool = False
) -> Table:
    """One row per row of `compare_arms` or `compare_results`. A p that no row could have and
    examples that are known of none have no column. has_seconds: with second lengths."""
    few, unknown = (frame["least_p_holm"] > SURE), frame["num_gained"].isna()
    has_p, has_examples = not (few | frame["p_holm"].isna()).all(), not unknown.all()
    columns = [
        plain("lengths"),
        Column(head="A", show=lambda row: percent(row["median_a"])),
        Column(head="B", show=lambda row: percent(row["median_b"])),
        Column(head="B − A", detail="points", show=_difference),
        Column(head="pairs", show=_pairs),
        Column(head="wins–ties–losses", show=partial(_counts, names=("wins", "ties", "losses"))),
        Column(
            head="examples",
            detail="gained–lost",
            show=partial(_counts, names=EXAMPLES),
            is_shown=has_examples,
        ),
        Column(
            head="p",
            detail="Holm",
            show=lambda row: p_value(row["p_holm"], row["least_p_holm"]),
            is_shown=has_p,
        ),
        plain("verdict"),
    ]
    what = "at a length" if by_length else "of a run's mean over these lengths"
    test = TEST if has_p else f"{TEST} No column of p: {TOO_FEW} in every row that has one."
    notes = [
        f"A, B: median exact match (%) {what}, at what both were tested at. B − A: median over "
        "pairs [interval]. Diverged runs count as 0.",
        "Intervals hold at each length, not at all of them together." if by_length else test,
    ]
    notes += [WORST_SECOND] if has_seconds else []
    notes += [GAINED] if has_examples else []
    for pairing, others in frame[frame["pairing"] != "paired"].groupby("pairing"):
        instead = "" if pairing == "no runs" else " (difference of medians, test of ranks)"
        cells = ", ".join(others["cell"].drop_duplicates())
        notes.append(f"Not paired, {pairing}: {cells}{instead}.")
    return show(columns, frame, title, notes)


def _pairs(row: Row) -> str:
    is_paired = row["pairing"] == "paired"
    return str(row["n_pairs"]) if is_paired else f"{row['n_b']} vs {row['n_a']}"


def _difference(row: Row) -> TableCell:
    interval = f"[{points(row['low'])}, {points(row['high'])}]"
    return TableCell(
        points(row["difference_median"]), "" if row["interval"] == "none" else interval
    )


def _counts(row: Row, names: Iterable[str]) -> str:
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
