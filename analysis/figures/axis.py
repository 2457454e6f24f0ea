"""Results against the numbers that a sweep varies: curves along one, a heat map over two."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.figures import style
from analysis.figures.axes import Axis, find_axes
from analysis.figures.heat_maps import draw_map, whole_percent
from analysis.figures.marks import describe_counts, draw_median, draw_runs, explain_marks
from analysis.figures.style import Look
from analysis.load import Results, select_checkpoint, trained_ranges
from analysis.statistics import runs as statistics
from analysis.tables.sweep_tables import Shown, choose_lengths, times

L95_LOOK = Look(color=style.GREY, marker="o", line="-")
SHIFT = 0.012  # of the width of the axis, by which the runs of neighbouring lengths stand apart


def plot_axis(results: Results, checkpoint: str = "last") -> Figure:
    """Exact match (%) at the lengths of the table, and L95, against the number that cells vary.

    Raises ValueError if cells do not differ in exactly one number (see `find_axes`).
    """
    axis = _find(results, 1)[0]
    evaluation = select_checkpoint(results, checkpoint)
    shown = choose_lengths(results, evaluation)
    curves = statistics.cell_curves(evaluation)
    labels = [_length_label(length, shown) for length in shown.lengths]
    with style.apply():
        longest = max(map(len, labels), default=1)
        figure, (left, right) = style.new_panels(2.3, 1, 2, len(labels), longest)
        handles = _draw_lengths(left, axis, evaluation, curves, shown, labels)
        has_bound = _draw_l95(right, axis, results, evaluation, curves)
        for axes in (left, right):
            _set_axis(axes, axis)
        left.set(ylim=(-3, 106), yticks=range(0, 101, 20), ylabel="exact match (%)")
        right.set(ylabel="L95 (length)", ylim=(0, None))
        parts = [
            explain_marks(curves),
            f"checkpoint: {checkpoint}",
            "dashed: longest trained length",
        ]
        parts += ["hollow: at least that much (the largest length tested)"] if has_bound else []
        parts += [f"along with it: {', '.join(axis.tied)}"] if axis.tied else []
        style.add_caption(figure, "; ".join(parts))
        style.add_legend(figure, handles)
    return figure


def plot_grid(results: Results, checkpoint: str = "last") -> Figure:
    """Median exact match at the length near 2x, and L95, over the two numbers that cells vary.

    Raises ValueError if there are not two, or if nothing beyond the trained lengths was tested.
    """
    rows, columns = _find(results, 2)
    evaluation = select_checkpoint(results, checkpoint)
    shown = choose_lengths(results, evaluation)
    if shown.solve is None:
        raise ValueError(f"sweep {results.sweep!r} was not tested beyond its trained lengths")
    curves = statistics.cell_curves(evaluation)
    longest = shown.lengths[-1]
    shape = (len(rows.ticks), len(columns.ticks))
    values, texts = np.full((2, *shape), np.nan), np.full((2, *shape), "", dtype=object)
    for cell, curve in curves.groupby("cell"):
        place = list(rows.ticks).index(rows.values[cell])
        place = (place, list(columns.ticks).index(columns.values[cell]))
        median = float(curve.loc[curve["length"] == shown.solve, "median"].max())
        l95 = statistics.generalizable_length(curve["length"], curve["median"])
        values[0][place], texts[0][place] = median, whole_percent(median)
        values[1][place] = l95.length / longest
        texts[1][place] = f"{'≥' if l95.is_lower_bound else ''}{l95.length}"
    with style.apply():
        figure, panels = style.new_panels(0.6 + 0.36 * shape[0], 1, 2)
        at = _length_label(shown.solve, shown)
        for i, title in enumerate((f"exact match (%), {at}", "L95 (length)")):
            draw_map(panels[i], values[i], texts[i])
            panels[i].set_title(title, fontsize=7.5, loc="left")
            panels[i].set_xticks(range(shape[1]), columns.ticks.values())
            panels[i].set_yticks(range(shape[0]), rows.ticks.values())
            panels[i].set(xlabel=columns.label, ylabel=rows.label if i == 0 else "")
        counts = describe_counts(curves["n"])
        text = f"median over runs; light: 100 %, or the longest tested length ({longest})"
        text += "; ≥: nothing longer was tested; grey: not tested"
        style.add_caption(figure, f"{text}; {counts}; checkpoint: {checkpoint}")
    return figure


def _find(results: Results, count: int) -> tuple[Axis, ...]:
    axes = find_axes(results)
    if len(axes) != count:
        raise ValueError(
            f"the cells of sweep {results.sweep!r} do not differ in {count} number(s) alone"
        )
    return axes


def _draw_lengths(
    axes: Axes,
    axis: Axis,
    evaluation: pd.DataFrame,
    curves: pd.DataFrame,
    shown: Shown,
    labels: list[str],
) -> list[Line2D]:
    axes.axhline(95, label="_95", color=style.LIGHT, linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
    runs = statistics.run_curves(evaluation)
    handles = []
    for number, (length, label) in enumerate(zip(shown.lengths, labels, strict=True)):
        look, stats = style.look_of(number), _along(axis, curves[curves["length"] == length])
        dots = runs[runs["length"] == length]
        shift = SHIFT * (number - (len(labels) - 1) / 2)
        places = _shifted(axis, _places(axis, dots["cell"]), shift)
        draw_runs(axes, places, 100 * dots["exact_match"], look)
        handles.append(draw_median(axes, _places(axis, stats["cell"]), stats, label, look))
    return handles


def _draw_l95(
    axes: Axes, axis: Axis, results: Results, evaluation: pd.DataFrame, curves: pd.DataFrame
) -> bool:
    """L95 of the median over runs, as in the table; whether any is a lower bound."""
    runs = statistics.run_l95(evaluation)
    draw_runs(axes, _places(axis, runs["cell"]), runs["l95"], L95_LOOK)
    rows = []
    for cell, curve in curves.groupby("cell"):
        found = statistics.generalizable_length(curve["length"], curve["median"])
        own = runs.loc[runs["cell"] == cell, "l95"]
        row = {"cell": cell, "n": len(own), "low": own.min(), "high": own.max()}
        rows.append(row | {"median": found.length, "bound": found.is_lower_bound})
    stats = _along(axis, pd.DataFrame(rows))
    places = np.array(_places(axis, stats["cell"]))
    draw_median(axes, places, stats, "L95", L95_LOOK, factor=1)
    bound = stats["bound"].to_numpy(dtype=bool)
    if bound.any():
        hollow = {"markerfacecolor": "white", "markeredgecolor": style.GREY, "zorder": 4}
        heights = stats["median"].to_numpy(dtype=float)[bound]
        axes.plot(places[bound], heights, "o", label="_bound", markersize=4.6, **hollow)
    trained = {cell: high for cell, (_, high) in trained_ranges(results).items()}
    cells = [cell for cell in sorted(axis.values, key=axis.values.__getitem__) if cell in trained]
    axes.plot(
        _places(axis, cells),
        [trained[cell] for cell in cells],
        label="_trained",
        color=style.LIGHT,
        linewidth=0.9,
        linestyle=(0, (5, 3)),
        zorder=1,
    )
    return bool(bound.any())


def _along(axis: Axis, stats: pd.DataFrame) -> pd.DataFrame:
    """The rows of the cells on the axis, in its order."""
    known = stats[stats["cell"].isin(list(axis.values))]
    return known.sort_values("cell", key=lambda cells: cells.map(axis.values), kind="stable")


def _places(axis: Axis, cells: "pd.Series | list[str]") -> list[float]:
    return [axis.place(axis.values[cell]) for cell in cells]


def _shifted(axis: Axis, places: list[float], share: float) -> list[float]:
    """Places moved sideways by a share of the axis."""
    if not places:
        return places
    low, high = (axis.place(edge(axis.values.values())) for edge in (min, max))
    if axis.is_log:
        return [place * (high / low) ** share for place in places]
    return [place + share * (high - low) for place in places]


def _set_axis(axes: Axes, axis: Axis) -> None:
    axes.set_xlabel(axis.label)
    if axis.is_log:
        axes.set_xscale("log")
    ticks = {axis.place(value): text for value, text in axis.ticks.items()}
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.minorticks_off()
    axes.margins(x=0.06)


def _length_label(length: int, shown: Shown) -> str:
    multiple = f" ({times(length / shown.largest_trained)})" if shown.is_common else ""
    return f"length {length}{multiple}"
