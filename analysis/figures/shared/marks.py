"""Elements shared by figures: medians with a band, single runs, and their labels."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis.figures.looks import Look
from analysis.statistics.intervals import LEAST_BAND

EDGE: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.4}
MOST_DRAWN = 20  # runs of a cell that are drawn one by one: more cannot be told apart
BANDS = {
    "order statistics": "interval of the median",
    "crossed order statistics": "interval of the median over model and data seeds",
}


def draw_median(
    axes: Axes,
    x: Iterable[float],
    stats: pd.DataFrame,
    label: str,
    style: Look,
    factor: float = 100,
) -> Line2D:
    """The medians in `stats` (times factor), and a band where there are runs enough."""
    x = np.asarray(list(x), dtype=float)
    has_band = stats["interval"].isin(list(BANDS)).to_numpy()
    if has_band.any():
        axes.fill_between(
            x,
            factor * stats["low"].to_numpy(dtype=float),
            factor * stats["high"].to_numpy(dtype=float),
            where=has_band,
            color=style.color,
            alpha=0.13,
            linewidth=0,
            label=f"_band {label}",
        )
    (line,) = axes.plot(
        x,
        factor * stats["median"].to_numpy(dtype=float),
        label=label,
        color=style.color,
        linestyle=style.line,
        marker=style.marker,
        zorder=3,
        **EDGE,
    )
    return line


def first_runs(rows: pd.DataFrame, column: str = "trial_id") -> pd.DataFrame:
    """The rows of the runs of a cell that are drawn one by one."""
    return rows[rows[column].isin(rows[column].unique()[:MOST_DRAWN])]


def draw_runs(
    axes: Axes,
    x: Iterable[float],
    y: pd.Series,
    runs: Sequence[Hashable],
    style: Look,
) -> None:
    """Runs as dots, or each as a thin line where they are too few for a band.

    runs: which run each point belongs to.
    """
    points = pd.DataFrame({"x": list(x), "y": y.to_numpy(dtype=float), "run": list(runs)})
    points = first_runs(points, "run")
    look: dict[str, Any] = {"color": style.color, "zorder": 2}
    if points["run"].nunique() >= LEAST_BAND:
        dots = {"marker": ".", "linestyle": "none", "markersize": 3.6, "markeredgewidth": 0}
        axes.plot(points["x"], points["y"], label="_runs", alpha=0.6, **dots, **look)
        return
    for _, run in points.groupby("run", sort=False):
        curve = run.sort_values("x")
        axes.plot(curve["x"], curve["y"], label="_run", linewidth=0.6, alpha=0.5, **look)


def explain_marks(stats: pd.DataFrame) -> str:
    """What line, thin lines, dots and band are, and over how many runs."""
    kinds = set(stats["interval"])
    parts = ["line: median over runs"]
    parts += ["thin: runs"] if "range" in kinds else []
    bands = [text for kind, text in BANDS.items() if kind in kinds]
    parts += [f"dots: runs; band: {bands[-1]}"] if bands else []
    if len(parts) == 1:
        return "one run per cell"
    return "; ".join([*parts, describe_counts(stats["n"])])


def describe_counts(counts: Iterable[int]) -> str:
    """How many runs each cell has ("n = 3 runs per cell", "n = 2–3 runs per cell"), and how many
    of them are drawn, if not all.
    """
    numbers = sorted({int(n) for n in counts if n > 0})
    if not numbers:
        return "no runs"
    if numbers == [1]:
        return "one run per cell"
    span = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]}–{numbers[-1]}"
    drawn = f", of which {MOST_DRAWN} are drawn" if numbers[-1] > MOST_DRAWN else ""
    return f"n\u00a0=\u00a0{span}\u00a0runs per\u00a0cell{drawn}"
