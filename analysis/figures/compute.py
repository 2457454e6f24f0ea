"""Results at equal compute: exact match against training tokens, FLOPs and seconds."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator
from matplotlib.transforms import offset_copy

from analysis.figures import style
from analysis.figures.axes import LOG_SPAN
from analysis.figures.cell_styles import CellStyle, cell_styles
from analysis.figures.marks import EDGE, describe_counts, first_runs
from analysis.load import COUNTED, Results
from analysis.statistics import runs as statistics
from analysis.tables.sweep_tables import choose_lengths

COSTS = {
    "train_tokens": "training tokens",
    "train_flops": "training FLOPs",
    "train_seconds": "training seconds",
}
UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
NEAR = 0.03  # of the widest cost: cells nearer than this stand side by side
DODGE = 4.5  # points between cells side by side


def plot_compute(results: Results) -> Figure:
    """Exact match (%) at the length near 2x, or L95 if none was tested there, against three costs.

    A run whose cost was not recorded in full (diverged, or continued after an interruption) has
    the median cost of its cell.
    """
    runs, label = _score_runs(results)
    runs = runs.merge(_costs(results), on=["cell", "trial_id"], how="left")
    cells = [cell for cell in results.cells if (runs["cell"] == cell).any()]
    with style.apply():
        longest = max(map(len, cells), default=1)
        figure, panels = style.new_panels(2.2, 1, len(COSTS), len(cells), longest)
        style.set_padding(figure, wspace=0.06)
        handles, styles = dict[str, Line2D](), cell_styles(results)
        for axes, (cost, name) in zip(panels, COSTS.items(), strict=True):
            axes.set_xlabel(name)
            recorded = runs.dropna(subset=[cost])
            if recorded.empty:
                axes.text(0.5, 0.5, "not recorded", transform=axes.transAxes, ha="center")
                axes.set_xticks([])
            for cell, points in _dodge(recorded, cost).items():
                rows = recorded[recorded["cell"] == cell]
                handles[cell] = _draw_cell(axes, rows, cost, styles[cell], points)
            _draw_best(axes, recorded, cost, cells)
            if len(recorded):
                _set_scale(axes, recorded[cost])
            if label.startswith("exact"):
                axes.set(ylim=(-3, 106), yticks=range(0, 101, 20))
            else:
                axes.set_ylim(bottom=0)
            if axes is not panels[0]:
                axes.tick_params(labelleft=False)
                axes.sharey(panels[0])
        panels[0].set_ylabel(label)
        style.add_caption(figure, f"{_explain(results, runs)}; checkpoint: {results.checkpoint}")
        style.add_legend(figure, [handles[cell] for cell in cells if cell in handles])
    return figure


def has_costs(results: Results) -> bool:
    """Whether any cost of any counted run was recorded."""
    return bool(_costs(results)[list(COSTS)].notna().any(axis=None))


def _score_runs(results: Results) -> tuple[pd.DataFrame, str]:
    """One score per run, as it is drawn, and what it is."""
    shown, evaluation = choose_lengths(results), results.evaluation
    if shown.solve is None:
        runs = statistics.run_l95(evaluation).rename(columns={"l95": "score"})
        return runs[["cell", "trial_id", "score"]], "L95 (length)"
    runs = statistics.run_curves(evaluation)
    runs = runs[runs["length"] == shown.solve].assign(score=lambda f: 100 * f["exact_match"])
    return runs[["cell", "trial_id", "score"]], f"exact match (%) at {shown.label(shown.solve)}"


def _costs(results: Results) -> pd.DataFrame:
    """The three costs of every counted run; nan where a column or a value is missing."""
    trials = results.trials[results.trials["status"].isin(COUNTED)].copy()
    resumed = trials["first_step"].fillna(0) > 0  # its seconds are those since it was resumed
    trials["train_seconds"] = trials["train_seconds"].mask(resumed)
    trials.loc[trials["status"] == "diverged", "train_seconds"] = np.nan  # it stopped early
    for cost in COSTS:
        values = trials[cost] if cost in trials else pd.Series(np.nan, index=trials.index)
        values = pd.to_numeric(values).astype(float)
        trials[cost] = values.fillna(values.groupby(trials["cell"]).transform("median"))
    return trials[["cell", "trial_id", *COSTS]]


def _dodge(runs: pd.DataFrame, cost: str) -> dict[str, float]:
    """By how many points the marks of a cell are moved, so that cells of equal cost can be seen."""
    medians = runs.groupby("cell", sort=False)[cost].median().sort_values(kind="stable")
    near = NEAR * medians.max() if len(medians) else 0
    group = (medians.diff() > near).cumsum()
    rank = medians.groupby(group).cumcount()
    size = medians.groupby(group).transform("size")
    return dict(DODGE * (rank - (size - 1) / 2))


def _draw_cell(axes: Axes, runs: pd.DataFrame, cost: str, look: CellStyle, points: float) -> Line2D:
    """Every run, the range of the cell as a bar, and its median, which is labelled."""
    middle, median = runs[cost].median(), runs["score"].median()
    moved = offset_copy(axes.transData, axes.get_figure(root=True), x=points, units="points")
    bar: dict[str, Any] = {"color": look.color, "alpha": 0.6, "zorder": 2, "transform": moved}
    axes.plot(
        [middle, middle],
        [runs["score"].min(), runs["score"].max()],
        label="_range",
        linewidth=0.9,
        **bar,
    )
    dots: dict[str, Any] = {"marker": ".", "linestyle": "none", "markeredgewidth": 0}
    drawn = first_runs(runs)
    axes.plot(drawn[cost], drawn["score"], label="_runs", **bar, **dots)
    (mark,) = axes.plot(
        [middle],
        [median],
        label=runs["cell"].iloc[0],
        color=look.color,
        marker=look.marker,
        markersize=5,
        linestyle="none",
        transform=moved,
        zorder=3,
        **EDGE,
    )
    return mark


def _draw_best(axes: Axes, runs: pd.DataFrame, cost: str, cells: list[str]) -> None:
    """A staircase: the best median that any cell reaches at or below each cost."""
    medians = runs.groupby("cell")[[cost, "score"]].median().reindex(cells).dropna()
    if len(medians) < 2:
        return
    best = medians.sort_values([cost, "score"])
    best = best.assign(score=best["score"].cummax())
    look: dict[str, Any] = {"color": style.LIGHT, "linewidth": 0.9, "zorder": 1}
    axes.step(best[cost], best["score"], where="post", label="_best", **look)


def _set_scale(axes: Axes, costs: pd.Series) -> None:
    """A log scale for a wide span, few ticks with units."""
    if costs.min() > 0 and costs.max() >= LOG_SPAN * costs.min():
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(numticks=4))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=3))
    axes.minorticks_off()
    axes.xaxis.set_major_formatter(FuncFormatter(short_number))
    axes.margins(x=0.1)


def short_number(cost: float, _: object = None) -> str:
    """1.5e6 as "1.5M", 5e14 as "5e14"."""
    if abs(cost) >= 1e12:
        mantissa, _, exponent = f"{cost:.2e}".partition("e+")
        return f"{float(mantissa):g}e{exponent}"
    for unit, name in UNITS:
        if abs(cost) >= unit:
            return f"{cost / unit:g}{name}"
    return f"{cost:g}"


def _explain(results: Results, runs: pd.DataFrame) -> str:
    ran = results.trials[results.trials["status"].isin(COUNTED)].drop_duplicates("trial_id")
    devices = ran["device"].dropna().value_counts()
    names = ", ".join(f"{name} ({count} runs)" for name, count in sorted(devices.items()))
    mixed = "; seconds on different devices do not compare" if len(devices) > 1 else ""
    counts = describe_counts(runs.groupby("cell")["trial_id"].nunique())
    marks = "mark: median of a cell, bar: worst to best run, dots: runs; cells of equal cost stand"
    marks += " side by side; line: best median at or below that cost"
    return f"{marks}; {counts}; seconds on {names}{mixed}"
