"""Figures of a sweep as pure functions of `Results`, without pyplot; `analysis.figures.style` says
how.

Every Line2D of a cell's median carries the cell as its label; helper artists carry labels that
start with "_".
"""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from analysis.figures import style
from analysis.figures.marks import describe_counts, draw_median, draw_runs, explain_marks
from analysis.figures.style import Look
from analysis.load import COUNTED, Results, select_checkpoint, trained_ranges
from analysis.statistics import runs as statistics

FEW = 8  # reports up to which every one has a marker
LABEL = 0.05  # of the largest length: the width of a label above the plot
SPREAD = 0.28  # of the smallest gap between lengths, over which single runs are spread sideways


def plot_lengths(results: Results, checkpoint: str = "last") -> Figure:
    """Exact match (%) against length: a median line per cell, a band over its runs, a dot per run.

    Raises ValueError if the checkpoint policy was not evaluated.
    """
    evaluation = select_checkpoint(results, checkpoint)
    curves = statistics.cell_curves(evaluation)
    runs = statistics.run_curves(evaluation)
    cells = [cell for cell in results.cells if (curves["cell"] == cell).any()]
    with style.apply():
        figure, axes = style.new_figure(2.7, len(cells), max(map(len, cells), default=1))
        _mark_ranges(axes, results, evaluation)
        gap = np.diff(np.sort(curves["length"].unique())).min(initial=1)
        shifts = np.linspace(-1, 1, max(len(cells), 2)) * SPREAD * gap
        handles = []
        for shift, cell in zip(shifts, cells, strict=False):
            look = style.look_of(results.cells.index(cell))
            dots = runs[runs["cell"] == cell]
            draw_runs(axes, dots["length"] + shift, 100 * dots["exact_match"], look)
            curve = curves[curves["cell"] == cell]
            handles.append(draw_median(axes, curve["length"], curve, cell, look))
        axes.set(ylim=(-3, 106), yticks=range(0, 101, 20), ylabel="exact match (%)")
        axes.set_xlabel("length")
        style.add_caption(figure, f"{explain_marks(curves)}; checkpoint: {checkpoint}")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=12, steps=[1, 2, 5, 10]))
        axes.margins(x=0.02)
        style.add_legend(figure, handles)
    return figure


def plot_losses(results: Results) -> Figure:
    """Training loss (nats per target, log scale) against step: median per cell, every run thin.

    A run that diverged ends in a cross.
    """
    reports = results.reports[results.reports["status"].isin(COUNTED)]
    reports = reports[np.isfinite(reports["loss"]) & (reports["loss"] > 0)]
    cells = [cell for cell in results.cells if (reports["cell"] == cell).any()]
    with style.apply():
        figure, axes = style.new_figure(2.3, len(cells), max(map(len, cells), default=1))
        handles = []
        for cell in cells:
            look = style.look_of(results.cells.index(cell))
            rows = reports[reports["cell"] == cell]
            for _, run in rows.groupby("trial_id", sort=True):
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
                markeredgecolor="white",
                markeredgewidth=0.4,
            )
            handles.append(line)
        if cells:
            axes.set_yscale("log")
            plain = FuncFormatter(lambda loss, _: f"{loss:g}")
            axes.yaxis.set_major_formatter(plain)
            is_short = reports["loss"].max() < 10 * reports["loss"].min()
            axes.yaxis.set_minor_formatter(plain if is_short else NullFormatter())
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
        axes.set(xlabel="step", ylabel="training loss (nats per target)")
        counts = describe_counts(reports.groupby("cell")["trial_id"].nunique())
        style.add_caption(figure, f"line: median over runs; thin: runs; ×: diverged; {counts}")
        axes.margins(x=0.02)
        style.add_legend(figure, handles)
    return figure


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


def _mark_ranges(axes: Axes, results: Results, evaluation: pd.DataFrame) -> None:
    """Trained and near range, multiples of the trained length, and the 95 % line."""
    axes.axhline(95, label="_95", color=style.LIGHT, linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
    above = {"transform": axes.get_xaxis_transform(), "ha": "center", "fontsize": 7}
    trained = trained_ranges(results)
    if len(set(trained.values())) != 1:
        for cell, (_, high) in trained.items():
            look = style.look_of(results.cells.index(cell))
            axes.axvline(high, label="_trained", color=look.color, linewidth=0.6, linestyle=":")
        return
    low, high = next(iter(trained.values()))
    axes.axvspan(low - 0.5, high + 0.5, label="_trained", color=style.FAINT, linewidth=0, zorder=0)
    axes.text((low + high) / 2, 1.01, "trained", color=style.GREY, **above)
    near = evaluation.loc[evaluation["range"] == "near", "length"]
    middle = (near.min() + near.max()) / 2
    if len(near):
        left, right = near.min() - 0.5, near.max() + 0.5
        axes.axvspan(left, right, label="_near", color=style.FAINTER, linewidth=0, zorder=0)
        axes.text(middle, 1.01, "near", color=style.GREY, **above)
    longest, line = evaluation["length"].max(), {"color": style.LIGHT, "linewidth": 0.6}
    for place, text in ((1.5 * high, "1.5×"), (2 * high, "2×")):
        if place <= longest:
            axes.axvline(place, label="_multiple", zorder=1, **line)
            if not abs(place - middle) < LABEL * longest:  # there "near" stands
                axes.text(place, 1.01, text, color=style.GREY, **above)
