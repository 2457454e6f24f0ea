"""The arms of a sweep against a reference (`analysis.statistics.comparisons`) as a table."""

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import pandas as pd

from analysis.statistics.bands import SURE
from analysis.tables.sweep_tables import DASH, Table, TableCell

TOO_FEW = "too few runs"
SIDES = {"cell": "+", "reference": "−"}  # whom McNemar's test favors


def arms_table(frame: pd.DataFrame, title: str) -> Table:
    """One row per row of `compare_arms`: a cell against the reference.

    A test that has too few runs for every row has no column; a note says so.
    """
    has_examples = bool((frame["num_mcnemar"] > 0).any())
    header = [
        TableCell("cell"),
        TableCell("pairs"),
        TableCell("difference", "points"),
        TableCell("wins–ties–losses"),
        TableCell("p", "sign test"),
        TableCell("p", "Holm"),
    ]
    if has_examples:
        header += [TableCell("examples", "gained–lost"), TableCell("p examples", "McNemar, Holm")]
    rows = [_arm_row(row, has_examples) for row in frame.to_dict("records")]
    left_out = [i for i in range(len(header)) if _is_too_few([row[i].text for row in rows])]
    kept = [i for i in range(len(header)) if i not in left_out]
    reference = frame["reference"].iloc[0]
    return Table(
        title=f"{title}: arms against {reference}",
        header=tuple(header[i] for i in kept),
        rows=tuple(tuple(row[i] for i in kept) for row in rows),
        notes=tuple(_arm_notes(frame, has_examples, [header[i].detail for i in left_out])),
        numbers=frame,
    )


def _is_too_few(texts: Sequence[str]) -> bool:
    """Whether a column has no p because of too few runs."""
    return TOO_FEW in texts and set(texts) <= {TOO_FEW, DASH}


def _arm_row(row: dict[Hashable, Any], has_examples: bool) -> tuple[TableCell, ...]:
    has_interval = row["interval"] != "none"
    interval = f"[{points(row['low'])}, {points(row['high'])}]" if has_interval else ""
    p = row["p_permutation"] if pd.isna(row["p_sign"]) else row["p_sign"]
    paired = f"{row['n_pairs']}" if row["is_paired"] else f"{row['n']} vs {row['n_reference']}"
    fields = [
        TableCell(row["cell"]),
        TableCell(paired),
        TableCell(points(row["difference_median"]), interval),
        TableCell(_counts(row, "wins", "ties", "losses")),
        TableCell(p_value(p, row["least_p"])),
        TableCell(p_value(row["p_holm"], row["least_p_holm"])),
    ]
    if has_examples:
        fields.append(TableCell(_counts(row, "num_gained", "num_lost")))
        side = SIDES.get(row["mcnemar_favors"], "")
        fields.append(TableCell(p_value(row["p_mcnemar_holm"]), side))
    return tuple(fields)


def _arm_notes(frame: pd.DataFrame, has_examples: bool, left_out: Sequence[str]) -> Iterator[str]:
    """left_out: the p that have no column."""
    first = frame.iloc[0]
    yield (
        f"difference: exact match at length {first['lengths']} minus that of {first['reference']}, "
        "median over pairs [interval]; a pair is equal seeds in both, on the same questions. "
        "Diverged runs count as 0."
    )
    yield "p: exact sign test over pairs (new seeds); Holm: corrected for all rows of this table."
    if (frame["least_p_holm"] > SURE).any():
        least = p_value(frame["least_p_holm"].min())
        missing = f"No column of p ({', '.join(left_out)}), " if left_out else ""
        yield (
            f"{missing}{TOO_FEW}: the least p that the test can give is above {SURE}, whatever "
            f"the runs say; the least corrected one of this table is {least}."
        )
    if has_examples:
        yield (
            "examples: those that only the cell (gained) or only the reference (lost) has right; "
            "McNemar: exact, in more than half of the pairs of these trained models this side "
            "(+ the cell, − the reference) has more right. It says nothing about new seeds."
        )
    for pairing, others in frame[~frame["is_paired"].astype(bool)].groupby("pairing"):
        cells, instead = ", ".join(others["cell"]), " (difference of medians, permutation test)"
        yield f"Not paired, {pairing}: {cells}{'' if pairing == 'no runs' else instead}."


def _counts(row: dict[Hashable, Any], *names: str) -> str:
    counts = [row[name] for name in names]
    return DASH if any(map(pd.isna, counts)) else "–".join(f"{n:.0f}" for n in counts)


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
