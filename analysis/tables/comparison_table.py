"""What `analysis.statistics.comparisons` found as tables for `analysis.tables.render`: the arms of
a sweep against a reference, and two result sets.
"""

from collections.abc import Iterator

import pandas as pd

from analysis.tables.sweep_tables import DASH, Entry, Table, percent


def arms_table(frame: pd.DataFrame, title: str) -> Table:
    """One row per row of `compare_arms`: a cell against the reference."""
    has_examples = bool((frame["num_mcnemar"] > 0).any())
    header = [
        Entry("cell"),
        Entry("pairs"),
        Entry("difference", "points"),
        Entry("wins–ties–losses"),
        Entry("p", "sign test"),
        Entry("p", "Holm"),
    ]
    if has_examples:
        header += [Entry("examples", "gained–lost"), Entry("p examples", "McNemar, Holm")]
    reference = frame["reference"].iloc[0]
    return Table(
        title=f"{title}: arms against {reference}",
        header=tuple(header),
        rows=tuple(_arm_row(row, has_examples) for _, row in frame.iterrows()),
        notes=tuple(_arm_notes(frame, has_examples)),
        numbers=frame,
    )


def _arm_row(row: pd.Series, has_examples: bool) -> tuple[Entry, ...]:
    interval = f"[{points(row['low'])}, {points(row['high'])}]" if row["n"] > 1 else ""
    p = row["p_permutation"] if pd.isna(row["p_sign"]) else row["p_sign"]
    paired = f"{row['n_pairs']}" if row["is_paired"] else f"{row['n']} vs {row['n_reference']}"
    entries = [
        Entry(row["cell"]),
        Entry(paired),
        Entry(points(row["difference_median"]), interval),
        Entry(_counts(row, "wins", "ties", "losses")),
        Entry(p_value(p)),
        Entry(p_value(row["p_holm"])),
    ]
    if has_examples:
        entries.append(Entry(_counts(row, "num_gained", "num_lost")))
        entries.append(Entry(p_value(row["p_mcnemar_holm"])))
    return tuple(entries)


def _arm_notes(frame: pd.DataFrame, has_examples: bool) -> Iterator[str]:
    first = frame.iloc[0]
    yield (
        f"difference: exact match at length {first['lengths']} minus that of {first['reference']}, "
        "median over pairs [interval]; a pair is equal seeds in both, on the same test examples. "
        "Diverged runs count as 0."
    )
    yield "p: exact sign test over pairs (new seeds); Holm: corrected for all rows of this table."
    if has_examples:
        yield (
            "examples: those that only the cell (gained) or only the reference (lost) has right; "
            "McNemar: exact, more than half of the pairs of these trained models differ."
        )
    least = frame["least_p_holm"].min()
    if least > 0.05:
        yield f"With so few seeds the corrected p cannot fall below {p_value(least)}."
    for pairing, others in frame[~frame["is_paired"].astype(bool)].groupby("pairing"):
        cells = ", ".join(others["cell"])
        yield f"Not paired, {pairing}: {cells} (difference of medians, permutation test)."


def _counts(row: pd.Series, *names: str) -> str:
    known = [row[name] for name in names]
    return DASH if any(pd.isna(n) for n in known) else "–".join(f"{n:.0f}" for n in known)


def points(fraction: float) -> str:
    """A difference in percentage points with its sign."""
    return DASH if pd.isna(fraction) else f"{100 * fraction:+.1f}".replace("-", "−")


def p_value(p: float) -> str:
    """0.0312 as "0.031"."""
    if pd.isna(p):
        return DASH
    return "<0.001" if p < 0.001 else f"{min(p, 1):.3f}"


def comparison_table(frame: pd.DataFrame, sweep: str, scale: str) -> Table:
    """One row per cell and length where B is not equal to A; the notes say how many are equal."""
    changed = frame[frame["change"] != "equal"]
    header = ("cell", "length", "A", "B", "B - A", "runs A/B", "p (Holm)", "change")
    return Table(
        title=f"Changes from A to B ({sweep}, {scale})",
        header=tuple(Entry(name) for name in header),
        rows=tuple(_row(row) for _, row in changed.iterrows()),
        notes=(
            f"{len(changed)} of {len(frame)} cells x lengths differ. A, B: median exact match (%).",
            "p: exact sign test over pairs of equal seeds and test sets, else a permutation test "
            "over runs; Holm over the cells of a length. No p: too few runs.",
        ),
        numbers=frame,
    )


def _row(row: pd.Series) -> tuple[Entry, ...]:
    difference, p = row["difference"], row["p_holm"]
    interval = ""
    if not pd.isna(row["low"]):
        interval = f"[{points(row['low'])}, {points(row['high'])}]"
    return (
        Entry(str(row["cell"])),
        Entry(str(row["length"])),
        Entry(percent(row["median_a"])),
        Entry(percent(row["median_b"])),
        Entry(points(difference), interval),
        Entry(f"{row['n_a']}/{row['n_b']}"),
        Entry(p_value(p)),
        Entry(str(row["change"])),
    )
