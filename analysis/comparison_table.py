"""Two result sets compared, as a table for `analysis.render`: the rows that differ."""

import pandas as pd

from analysis.tables import DASH, Entry, Table, percent


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
        interval = f"[{100 * row['low']:+.1f}–{100 * row['high']:+.1f}]"
    return (
        Entry(str(row["cell"])),
        Entry(str(row["length"])),
        Entry(percent(row["median_a"])),
        Entry(percent(row["median_b"])),
        Entry(DASH if pd.isna(difference) else f"{100 * difference:+.1f}", interval),
        Entry(f"{row['n_a']}/{row['n_b']}"),
        Entry(DASH if pd.isna(p) else f"{p:.2g}"),
        Entry(str(row["change"])),
    )
