"""Results at equal compute: exact match against training FLOPs."""

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from matplotlib.transforms import offset_copy

from analysis.figures import style
from analysis.figures.shared.cell_styles import CellStyle, cell_styles
from analysis.figures.shared.labels import add_small_print
from analysis.figures.shared.marks import EDGE, describe_counts, first_runs
from analysis.load import COUNTED, Results
from analysis.statistics import runs as statistics
from analysis.tables.sweep_tables import choose_lengths

LEAST_SPREAD = 2  # largest over smallest cost: within less, cells are about equally expensive
NEAR = 1.03  # ratio of costs: cells nearer than this stand side by side
DODGE, MOST_DODGE = 4.5, 45.0  # points between cells side by side, and from first to last


def plot_compute(results: Results) -> Figure:
    """Exact match (%) at the length near 2x, or L95 if none was tested there, against FLOPs.

    A run whose FLOPs were not recorded (it diverged) has the median of its cell.
    """
    runs, label = _score_runs(results)
    runs = runs.merge(_flops(results), on=["cell", "trial_id"]).dropna(subset=["train_flops"])
    cells = [cell for cell in results.cells if (runs["cell"] == cell).any()]
    with style.apply():
        figure, axes = style.new_figure(2.2, cells)
        styles, moved = cell_styles(results), _dodge(runs)
        handles = [
            _draw_cell(axes, runs[runs["cell"] == cell], styles[cell], moved[cell])
            for cell in cells
        ]
        _draw_best(axes, runs, cells)
        _set_scale(axes, runs["train_flops"])
        axes.set(xlabel="training FLOPs", ylabel=label)
        if label.startswith("exact"):
            axes.set(ylim=(-3, 106), yticks=range(0, 101, 20))
        else:
            axes.set_ylim(bottom=0)
        text = "mark: median of a cell, bar: worst to best run, dots: runs; cells of equal cost "
        text += "stand side by side; line: best median at or below that cost; "
        text += describe_counts(runs.groupby("cell")["trial_id"].nunique())
        add_small_print(figure, results, f"{text}; checkpoint: {results.checkpoint}")
        style.add_legend(figure, handles)
    return figure


def has_spread(results: Results) -> bool:
    """Whether FLOPs were recorded, and some cell cost at least twice as much as another."""
    costs = _flops(results).groupby("cell")["train_flops"].median()
    return bool(costs.max() >= LEAST_SPREAD * costs.min() > 0)


def _score_runs(results: Results) -> tuple[pd.DataFrame, str]:
    """One score per run, as it is drawn, and what it is."""
    shown, evaluation = choose_lengths(results), results.evaluation
    if shown.solve is None:
        runs = statistics.run_l95(evaluation).rename(columns={"l95": "score"})
        return runs[["cell", "trial_id", "score"]], "L95 (length)"
    runs = statistics.run_curves(evaluation)
    runs = runs[runs["length"] == shown.solve].assign(score=lambda f: 100 * f["exact_match"])
    return runs[["cell", "trial_id", "score"]], f"exact match (%) at {shown.label(shown.solve)}"


def _flops(results: Results) -> pd.DataFrame:
    """The training FLOPs of every counted run; nan where neither it nor its cell has any."""
    trials = results.trials[results.trials["status"].isin(COUNTED)]
    flops = pd.to_numeric(trials["train_flops"]).astype(float)
    flops = flops.fillna(flops.groupby(trials["cell"]).transform("median"))
    return trials[["cell", "trial_id"]].assign(train_flops=flops)


def _dodge(runs: pd.DataFrame) -> dict[str, float]:
    """By how many points the marks of a cell are moved, so that cells of equal cost can be seen."""
    medians = runs.groupby("cell", sort=False)["train_flops"].median()
    medians = medians.sort_values(kind="stable")
    group = (medians / medians.shift() > NEAR).cumsum()
    rank = medians.groupby(group).cumcount()
    size = medians.groupby(group).transform("size")
    step = (MOST_DODGE / size).clip(upper=DODGE)
    return dict(step * (rank - (size - 1) / 2))


def _draw_cell(axes: Axes, runs: pd.DataFrame, look: CellStyle, points: float) -> Line2D:
    """Every run, the range of the cell as a bar, and its median, which is labelled."""
    axes.update_datalim(runs[["train_flops", "score"]].to_numpy())  # moved marks do not count
    middle, median = runs["train_flops"].median(), runs["score"].median()
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
    axes.plot(drawn["train_flops"], drawn["score"], label="_runs", **bar, **dots)
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


def _draw_best(axes: Axes, runs: pd.DataFrame, cells: list[str]) -> None:
    """A staircase: the best median that any cell reaches at or below each cost."""
    medians = runs.groupby("cell")[["train_flops", "score"]].median().reindex(cells).dropna()
    if len(medians) < 2:
        return
    best = medians.sort_values(["train_flops", "score"])
    best = best.assign(score=best["score"].cummax())
    look: dict[str, Any] = {"color": style.LIGHT, "linewidth": 0.9, "zorder": 1}
    axes.step(best["train_flops"], best["score"], where="post", label="_best", **look)


def _set_scale(axes: Axes, costs: pd.Series) -> None:
    """A log scale, with labels so dense that there are at least two; linear for equal costs."""
    low, high = costs.min(), costs.max()
    if low > 0 and high >= LEAST_SPREAD * low:
        decades = math.log10(high / low)
        subs = (1, 2, 3, 4, 6, 8) if decades < 0.7 else (1, 2, 5) if decades < 2 else (1,)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=subs, numticks=20))
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6))
    axes.minorticks_off()
    axes.xaxis.set_major_formatter(FuncFormatter(power_of_ten))
    axes.margins(x=0.1)


def power_of_ten(cost: float, _: object = None) -> str:
    """1.5e15 as 1.5·10^15 with a raised exponent, 1e15 as 10^15, and 0."""
    if not cost:
        return "0"
    mantissa, _, exponent = f"{cost:.2e}".partition("e")
    factor = "" if float(mantissa) == 1 else rf"{float(mantissa):g}{{\cdot}}"
    return f"${factor}10^{{{int(exponent)}}}$"
