"""Marks that several figures share: medians with their band, runs, and the words for them."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis.figures.style import Look

EDGE = {"markeredgecolor": "white", "markeredgewidth": 0.4}
BANDS = {
    "range": "worst to best run",
    "bootstrap": "95 % bootstrap interval",
    "crossed bootstrap": "95 % bootstrap interval over model and data seeds",
}


def draw_median(
    axes: Axes,
    places: Iterable[float],
    stats: pd.DataFrame,
    label: str,
    look: Look,
    factor: float = 100,
) -> Line2D:
    """The medians in `stats` (times factor), and a band where there are several runs."""
    x = np.asarray(list(places), dtype=float)
    several = (stats["n"] > 1).to_numpy()
    if several.any():
        axes.fill_between(
            x,
            factor * stats["low"].to_numpy(dtype=float),
            factor * stats["high"].to_numpy(dtype=float),
            where=several,
            color=look.color,
            alpha=0.13,
            linewidth=0,
            label=f"_band {label}",
        )
    (line,) = axes.plot(
        x,
        factor * stats["median"].to_numpy(dtype=float),
        label=label,
        color=look.color,
        linestyle=look.line,
        marker=look.marker,
        zorder=3,
        **EDGE,
    )
    return line


def draw_runs(
    axes: Axes, places: Iterable[float] | float, values: pd.Series, look: Look, shape: str = "."
) -> None:
    """One small mark per run."""
    axes.plot(
        places,
        values,
        label="_runs",
        linestyle="none",
        marker=shape,
        markersize=3.6,
        markeredgewidth=0,
        color=look.color,
        alpha=0.6,
        zorder=2,
    )


def explain_marks(stats: pd.DataFrame) -> str:
    """What line, dots and band are, and over how many runs."""
    kinds = [kind for kind in BANDS if (stats["interval"] == kind).any()]
    if not kinds:
        return "one run per cell"
    band = BANDS[kinds[0]] if len(kinds) == 1 else "bootstrap interval (≥ 5 runs) or worst to best"
    counts = describe_counts(stats["n"])
    return f"line: median over runs; dots: runs; band: {band}; {counts}"


def describe_counts(counts: Iterable[int]) -> str:
    """How many runs each cell has: "n = 3 runs per cell", "n = 2–3 runs per cell"."""
    found = sorted({int(n) for n in counts if n > 0})
    if not found:
        return "no runs"
    if found == [1]:
        return "one run per cell"
    span = f"{found[0]}" if len(found) == 1 else f"{found[0]}–{found[-1]}"
    return f"n\u00a0=\u00a0{span} runs per cell"
