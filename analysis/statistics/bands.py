"""Bands: neighbouring lengths of one range at which two result sets compare alike."""

from collections.abc import Hashable
from typing import Any

import pandas as pd

POINT = 0.01  # smaller differences, if no test confirms them, count as none
SURE = 0.05  # a p up to which a difference is separated from chance


def compare_bands(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per cell and band of the rows of `compare_results`.

    verdict: "equal" and "only in A" as the `change` of every length in the band; "medians within a
    point"; "B higher" or "B lower", with ", not separated" where no length has a p up to SURE, or
    ", too few runs" where none could have one. ", other runs" where the runs that both have agree
    throughout: what differs are runs that one side has. Of a band: its first and last length, range
    (train, near, test), the least and the most median of each side, the least p_holm, and the
    largest difference of medians with its length and runs.
    """
    kinds = frame.apply(_kind, axis=1) if len(frame) else pd.Series(dtype=str)
    same = pd.concat([kinds.rename("kind"), frame[["cell", "range"]]], axis=1)
    is_new = (same != same.shift()).any(axis=1)
    rows = [_band(kinds[part.index], part) for _, part in frame.groupby(is_new.cumsum())]
    return pd.DataFrame(rows)


def _kind(row: pd.Series) -> str:
    """What neighbouring lengths of a band share."""
    if row["change"] in ("only in A", "only in B"):
        return row["change"]
    difference = row["difference"]
    is_sure = not pd.isna(row["p_holm"]) and row["p_holm"] <= SURE
    if row["change"] == "equal" or (abs(difference) < POINT and not is_sure):
        return "alike"
    return "B higher" if (difference or row["difference_median"]) > 0 else "B lower"


def _band(kinds: pd.Series, rows: pd.DataFrame) -> dict[Hashable, Any]:
    verdict, changes = kinds.iloc[0], set(rows["change"])
    if verdict == "alike":
        verdict = "equal" if changes == {"equal"} else "medians within a point"
    elif verdict.startswith("B ") and not (rows["p_holm"] <= SURE).any():
        possible = (rows["least_p_holm"] <= SURE).any()
        verdict += ", not separated" if possible else ", too few runs"
    if changes == {"other runs"}:
        verdict += ", other runs"
    sizes = rows["difference"].abs().fillna(-1.0)
    largest = rows.iloc[int(sizes.to_numpy().argmax())]
    return {
        "cell": rows["cell"].iloc[0],
        "first_length": rows["length"].iloc[0],
        "last_length": rows["length"].iloc[-1],
        "range": rows["range"].iloc[0],
        "verdict": verdict,
        **{f"least_{side}": rows[f"median_{side}"].min() for side in "ab"},
        **{f"most_{side}": rows[f"median_{side}"].max() for side in "ab"},
        "length": largest["length"],
        "difference": largest["difference"],
        **{f"n_{side}": largest[f"n_{side}"] for side in "ab"},
        "p_holm": rows["p_holm"].min(),
        "least_p_holm": rows["least_p_holm"].min(),
    }
