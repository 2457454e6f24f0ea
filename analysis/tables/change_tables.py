"""Two result sets (`analysis.statistics.comparisons`) as tables: bands of lengths, or each."""

from collections.abc import Hashable
from typing import Any

import pandas as pd

from analysis.load import Results
from analysis.statistics.bands import POINT, SURE, compare_bands
from analysis.tables.comparison_table import p_value, points
from analysis.tables.sweep_tables import DASH, Table, TableCell, percent, text_table
from pcore.cli.text import plural

P = "Holm over the cells of a length. No p: too few runs."
TESTS = f"p: exact sign test over pairs of equal seeds and test sets, else a permutation test; {P}"
MOST_NAMES = 5  # cells of one side that a note names


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


def band_table(frame: pd.DataFrame, title: str) -> Table:
    """One row per cell and band of lengths, of the cells that are not equal throughout; if there is
    only one cell, of this one.
    """
    bands = compare_bands(frame)
    equal = bands.groupby("cell", sort=False)["verdict"].agg(lambda words: set(words) == {"equal"})
    equal &= len(equal) > 1
    shown = bands[~bands["cell"].map(equal).astype(bool)]
    header = ("cell", "lengths", "A", "B", "B - A", "runs A/B", "p (Holm)", "verdict")
    return text_table(
        title=title,
        header=header,
        rows=(_band_row(row) for row in shown.to_dict("records")),
        notes=(
            f"{len(equal)} cells with runs, of which {int(equal.sum())} are left out, with equal "
            "counts at every length in every run. --by-length: every length, with intervals."
            if len(equal) > 1
            else "equal: the same counts at every length in every run. --by-length: every length, "
            "with intervals.",
            "A, B: smallest and largest median exact match (%) of the band. B - A: the largest "
            "difference of medians in it, in points.",
            f"medians within a point: differences below {100 * POINT:.0f} point. not separated: no "
            f"p up to {SURE} in the band; too few runs: it could not fall so low. other runs: runs "
            "of equal seeds agree, the others are those of one side only. "
            f"{TESTS}",
        ),
        numbers=bands,
    )


def _band_row(row: dict[Hashable, Any]) -> tuple[str, ...]:
    return (
        row["cell"],
        f"{_span(str(row['first_length']), str(row['last_length']))} {row['range']}",
        _span(percent(row["least_a"]), percent(row["most_a"])),
        _span(percent(row["least_b"]), percent(row["most_b"])),
        points(row["difference"]) + ("" if pd.isna(row["difference"]) else f" at {row['length']}"),
        f"{row['n_a']}/{row['n_b']}",
        p_value(row["p_holm"]) if row["least_p_holm"] <= SURE else DASH,  # the verdict says why
        row["verdict"],
    )


def _span(first: str, last: str) -> str:
    return first if first == last else f"{first}–{last}"


def length_change_table(frame: pd.DataFrame, title: str) -> Table:
    """One row per cell and length where B is not equal to A, or per length of a single cell; the
    notes say how many are equal.
    """
    changed = frame[frame["change"] != "equal"]
    shown = frame if frame["cell"].nunique() == 1 else changed
    header = ("cell", "length", "A", "B", "B - A", "runs A/B", "p (Holm)", "change")
    return Table(
        title=title,
        header=tuple(TableCell(name) for name in header),
        rows=tuple(_length_row(row) for row in shown.to_dict("records")),
        notes=(
            f"{len(changed)} of {len(frame)} cells x lengths differ. A, B: median exact match (%).",
            TESTS,
        ),
        numbers=frame,
    )


def _length_row(row: dict[Hashable, Any]) -> tuple[TableCell, ...]:
    difference = row["difference"]
    interval = ""
    if not pd.isna(row["low"]):
        interval = f"[{points(row['low'])}, {points(row['high'])}]"
    return (
        TableCell(str(row["cell"])),
        TableCell(str(row["length"])),
        TableCell(percent(row["median_a"])),
        TableCell(percent(row["median_b"])),
        TableCell(points(difference), interval),
        TableCell(f"{row['n_a']}/{row['n_b']}"),
        TableCell(p_value(row["p_holm"], row["least_p_holm"])),
        TableCell(str(row["change"])),
    )
