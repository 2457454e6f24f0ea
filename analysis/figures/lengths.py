"""Figures of a sweep as pure functions of `Results`, without pyplot; `analysis.figures.style` says
how.

Every Line2D of a cell's median carries the cell as its label; helper artists carry labels that
start with "_".
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter, StrMethodFormatter

from analysis.figures import style
from analysis.figures.looks import LOG_SPAN, Look, cell_looks
from analysis.figures.shared.labels import add_small_print, length_label
from analysis.figures.shared.marks import (
    EDGE,
    describe_counts,
    draw_median,
    draw_runs,
    explain_marks,
    first_runs,
)
from analysis.load import COUNTED, Results, trained_ranges
from analysis.statistics import runs as statistics

STEPS = (1, 2, 5, 10)  # of round numbers on an axis
FEW = 8  # reports up to which every one has a marker
LABEL = 0.05  # of the length axis: the width of a label above the plot
MARGIN = 0.02  # of the length axis, on both sides of what was tested
MOST_DECADES = 2.5  # up to which every power of ten has three labels


def plot_lengths(results: Results) -> Figure:
    """Exact match (%) against length: a median line per cell over its runs.

    The length axis is logarithmic if the largest tested length is far beyond the trained ones.
    """
    curves = statistics.cell_curves(results.evaluation)
    runs = statistics.run_curves(results.evaluation)
    styles = cell_looks(results)
    cells = [cell for cell in results.cells if (curves["cell"] == cell).any()]
    with style.apply():
        figure, axes = style.new_figure(2.7, cells)
        scale_lengths(axes, results, results.evaluation["length"])
        _mark_ranges(axes, results, styles)
        handles = []
        for cell in cells:
            rows, curve = runs[runs["cell"] == cell], curves[curves["cell"] == cell]
            seeds = list(rows["trial_id"])
            draw_runs(axes, rows["length"], 100 * rows["exact_match"], seeds, styles[cell])
            handles.append(draw_median(axes, curve["length"], curve, cell, styles[cell]))
        axes.set(ylim=(-3, 106), yticks=range(0, 101, 20), ylabel="exact match (%)")
        axes.set_xlabel(length_label(results))
        text = f"{explain_marks(curves)}; dashed: 95\u00a0%"
        if len(set(trained_ranges(results).values())) != 1:
            text += "; dotted: longest trained length of each cell"
        add_small_print(figure, results, f"{text}; checkpoint: {results.checkpoint}")
        style.add_legend(figure, handles)
    return figure


def plot_losses(results: Results) -> Figure:
    """Training loss (nats per target, log scale) against step: median per cell, every run thin.

    A run that diverged ends in a cross.
    """
    reports = results.reports
    is_drawn = np.isfinite(reports["loss"]) & (reports["loss"] > 0)
    reports = reports[is_drawn & reports["status"].isin(COUNTED)]
    cells = [cell for cell in results.cells if (reports["cell"] == cell).any()]
    with style.apply():
        figure, axes = style.new_figure(2.3, cells)
        handles, styles = [], cell_looks(results)
        for cell in cells:
            look = styles[cell]
            rows = reports[reports["cell"] == cell]
            for _, run in first_runs(rows).groupby("trial_id", sort=True):
                _draw_loss_run(axes, run.sort_values("step"), look)
            median = rows.groupby("step")["loss"].median()
            (line,) = axes.plot(
                median.index,
                median,
                label=cell,
                color=look.color,
                linestyle=look.line,
                marker=look.marker,
                markevery=None if len(median) < FEW else (0.06 * len(handles) / len(cells), 0.15),
                **EDGE,
            )
            handles.append(line)
        if cells:
            axes.set_yscale("log")
            plain = StrMethodFormatter("{x:g}")
            axes.yaxis.set_major_formatter(plain)
            is_short = reports["loss"].max() < 10 * reports["loss"].min()
            axes.yaxis.set_minor_formatter(plain if is_short else NullFormatter())
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8, steps=STEPS))
        axes.set(xlabel="step", ylabel="training loss (nats per target)")
        counts = describe_counts(reports.groupby("cell")["trial_id"].nunique())
        text = f"line: median over runs; thin: runs; ×: diverged; {counts}"
        add_small_print(figure, results, text)
        axes.margins(x=0.02)
        style.add_legend(figure, handles)
    return figure


def has_curves(results: Results) -> bool:
    """Whether any counted run has two reports of its loss: of one there is nothing to see."""
    reports = results.reports[results.reports["status"].isin(COUNTED)]
    return bool((reports.groupby("trial_id")["step"].nunique() > 1).any())


def _draw_loss_run(axes: Axes, run: pd.DataFrame, look: Look) -> None:
    axes.plot(run["step"], run["loss"], label="_run", color=look.color, linewidth=0.5, alpha=0.35)
    if (run["status"] == "diverged").all():
        last = run.iloc[-1]
        axes.plot(
            last["step"],
            last["loss"],
            label="_end",
            marker="x",
            markersize=6,
            color=look.color,
            zorder=4,
        )


def scale_lengths(axes: Axes, results: Results, lengths: Iterable[float], across: int = 1) -> None:
    """From the shortest to the longest of these lengths; a logarithmic axis where a linear one
    would squeeze the trained lengths into a corner.

    across: panels side by side. With several, only powers of ten fit where the lengths span two.
    """
    ordered = sorted(lengths)
    low, high = ordered[0], ordered[-1]
    trained = [last for _, last in trained_ranges(results).values()]
    if trained and results.evaluation["length"].max() >= LOG_SPAN * max(trained):
        factor = (high / low) ** MARGIN if high > low else 1.5
        decades = [10**power for power in range(math.ceil(math.log10(high)) + 1)]
        few = math.log10(high / low) >= (MOST_DECADES if across == 1 else 2)
        ticks = [ten * digit for ten in decades for digit in ((1,) if few else (1, 2, 5))]
        axes.set_xscale("log")
        axes.set_xlim(low / factor, high * factor)
        minor = [ten * digit for ten in decades for digit in range(2, 10)] if few else []
        axes.set_xticks([tick for tick in minor if low <= tick <= high], minor=True)
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        margin = MARGIN * (high - low) or 0.5
        axes.set_xlim(low - margin, high + margin)
        nbins = 12 if across < 3 else 6
        ticks = MaxNLocator(integer=True, nbins=nbins, steps=STEPS).tick_values(low, high)
    shown = [int(tick) for tick in ticks if low <= tick <= high]
    shown = shown if len(shown) > 1 else sorted({int(low), int(high)})
    axes.set_xticks(shown, list(map(str, shown)))


def _mark_ranges(axes: Axes, results: Results, styles: dict[str, Look]) -> None:
    """Trained and near range, multiples of the trained length, and the 95 % line."""
    axes.axhline(95, label="_95", color=style.LIGHT, linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
    trained = trained_ranges(results)
    if len(set(trained.values())) != 1:
        for cell, (_, high) in trained.items():
            color = styles[cell].color
            axes.axvline(high, label="_trained", color=color, linewidth=0.6, linestyle=":")
        return
    low, high = next(iter(trained.values()))
    left, right = axes.get_xlim()
    is_log = axes.get_xscale() == "log"

    def share(length: float) -> float:
        if is_log:
            return math.log(length / left) / math.log(right / left)
        return (length - left) / (right - left)

    def label(length: float, text: str) -> None:
        above: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "ha": "center"}
        axes.text(length, 1.01, text, color=style.GREY, fontsize=7, **above)

    def shade(first: float, last: float, color: str, text: str) -> float:
        span = (max(first - 0.5, left), min(last + 0.5, right))
        axes.axvspan(*span, label=f"_{text}", color=color, linewidth=0, zorder=0)
        middle = math.sqrt(span[0] * span[1]) if is_log else sum(span) / 2
        label(middle, text)
        return share(middle)

    shade(low, high, style.FAINT, "trained")
    rows = results.evaluation
    near = rows.loc[rows["range"] == "near", "length"]
    taken = shade(near.min(), near.max(), style.FAINTER, "near") if len(near) else math.inf
    for length, text in ((1.5 * high, "1.5×"), (2 * high, "2×")):
        if length <= right:
            axes.axvline(length, label="_multiple", zorder=1, color=style.LIGHT, linewidth=0.6)
            if abs(share(length) - taken) >= LABEL:
                label(length, text)
