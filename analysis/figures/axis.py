"""Results against the number that a sweep varies, and slices of the values that a search tried."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from analysis.figures import style
from analysis.figures.looks import LOG_SPAN, Axis, Look, find_axis, number, ordered_colors
from analysis.figures.shared.labels import add_small_print
from analysis.figures.shared.marks import EDGE, draw_median, draw_runs, explain_marks
from analysis.load import Results, trained_ranges
from analysis.statistics import runs as statistics
from analysis.tables.sweep_tables import ShownLengths, choose_lengths

MOST_VALUES = 7  # of a searched parameter up to which each has a place of its own
L95_STYLE = Look(color=style.GREY, marker="o", line="-")


def plot_axis(results: Results) -> Figure:
    """Exact match (%) at the lengths of the table, and L95, against the number that cells vary.

    Raises ValueError if cells do not differ in exactly one number (see `find_axis`).
    """
    axis = find_axis(results)
    if axis is None:
        raise ValueError(f"the cells of sweep {results.sweep!r} do not differ in one number alone")
    shown = choose_lengths(results)
    curves = statistics.cell_curves(results.evaluation)
    with style.apply():
        names = [_name(shown, length) for length in shown.lengths]
        figure, (left, right) = style.new_panels(2.3, 1, 2, names)
        handles = _draw_lengths(left, axis, results, curves, shown)
        has_bound = _draw_l95(right, axis, results)
        for axes in (left, right):
            _set_axis(axes, axis)
        left.set(ylim=(-3, 106), yticks=range(0, 101, 20), ylabel="exact match (%)")
        right.set(ylabel="L95 (length)", ylim=(0, None))
        right.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6, steps=(1, 2, 5, 10)))
        parts = [
            explain_marks(curves),
            f"checkpoint: {results.checkpoint}",
            "dashed: 95\u00a0%, and longest trained length",
        ]
        parts += ["hollow: lower bound (the largest length tested)"] if has_bound else []
        parts += [f"changes with it: {', '.join(axis.tied)}"] if axis.tied else []
        add_small_print(figure, results, "; ".join(parts))
        style.add_legend(figure, handles)
    return figure


def _draw_lengths(
    axes: Axes, axis: Axis, results: Results, curves: pd.DataFrame, shown: ShownLengths
) -> list[Line2D]:
    """A median line per length; runs of equal seeds are joined."""
    axes.axhline(95, label="_95", color=style.LIGHT, linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
    runs = statistics.run_curves(results.evaluation)
    runs = runs[runs["cell"].isin(list(axis.values))]
    colors = ordered_colors(len(shown.lengths), "inferno")
    handles = []
    for i, length in enumerate(shown.lengths):
        look = Look(color=colors[i], marker=style.MARKERS[i], line=style.LINES[i])
        rows, stats = runs[runs["length"] == length], _along(axis, curves, length)
        seeds = list(zip(rows["seed"], rows["data_seed"], strict=True))
        draw_runs(axes, _positions(axis, rows["cell"]), 100 * rows["exact_match"], seeds, look)
        label = _name(shown, length)
        handles.append(draw_median(axes, _positions(axis, stats["cell"]), stats, label, look))
    return handles


def _name(shown: ShownLengths, length: int) -> str:
    return f"length {shown.label(length)}"


def _draw_l95(axes: Axes, axis: Axis, results: Results) -> bool:
    """L95 of the median over runs, as in the table; whether any is a lower bound."""
    runs = statistics.run_l95(results.evaluation)
    runs = runs[runs["cell"].isin(list(axis.values))]
    seeds = list(zip(runs["seed"], runs["data_seed"], strict=True))
    draw_runs(axes, _positions(axis, runs["cell"]), runs["l95"], seeds, L95_STYLE)
    names = {"l95": "median", "l95_low": "low", "l95_high": "high"}
    stats = _along(axis, statistics.cell_l95(results.evaluation).rename(columns=names))
    x = np.array(_positions(axis, stats["cell"]))
    draw_median(axes, x, stats, "L95", L95_STYLE, factor=1)
    bound = stats["l95_is_lower_bound"].to_numpy(dtype=bool)
    if bound.any():
        hollow: dict[str, Any] = {"markerfacecolor": "white", "markeredgecolor": style.GREY}
        heights = stats["median"].to_numpy(dtype=float)[bound]
        axes.plot(x[bound], heights, "o", label="_bound", markersize=4.6, zorder=4, **hollow)
    trained = {cell: high for cell, (_, high) in trained_ranges(results).items()}
    cells = [cell for cell in sorted(axis.values, key=axis.values.__getitem__) if cell in trained]
    axes.plot(
        _positions(axis, cells),
        [trained[cell] for cell in cells],
        label="_trained",
        color=style.LIGHT,
        linewidth=0.9,
        linestyle=(0, (5, 3)),
        zorder=1,
    )
    return bool(bound.any())


def _along(axis: Axis, stats: pd.DataFrame, length: int | None = None) -> pd.DataFrame:
    """The rows of the cells on the axis, in its order; length: of this one only."""
    rows = stats[stats["cell"].isin(list(axis.values))]
    rows = rows if length is None else rows[rows["length"] == length]
    return rows.sort_values("cell", key=lambda cells: cells.map(axis.values), kind="stable")


def _positions(axis: Axis, cells: Iterable[str]) -> list[float]:
    return [axis.position(axis.values[cell]) for cell in cells]


def _set_axis(axes: Axes, axis: Axis) -> None:
    axes.set_xlabel(axis.label)
    if axis.is_log:
        axes.set_xscale("log")
    ticks = {axis.position(value): text for value, text in axis.ticks.items()}
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.minorticks_off()
    axes.margins(x=0.06)


def plot_slices(tried: pd.DataFrame) -> Figure:
    """Near score against each searched field, a row of panels per arm; tried as `load_search`."""
    fields = [name for name in tried.columns if "." in name]
    arms = list(tried["arm"].unique())
    with style.apply():
        figure, panels = style.new_panels(1.25, len(arms), len(fields))
        for i, axes in enumerate(panels):
            arm, field = arms[i // len(fields)], fields[i % len(fields)]
            is_last = i >= len(panels) - len(fields)
            x = _place_values(axes, tried[field], field if is_last else "")
            _draw_tried(axes, x[tried["arm"] == arm], tried[tried["arm"] == arm])
            if i:
                axes.sharey(panels[0])
            axes.tick_params(labelbottom=is_last, labelleft=i % len(fields) == 0)
            if i % len(fields) == 0:
                axes.set_title(arm, fontsize=7.5, loc="left")
                axes.set_ylabel("near score")
        low, high = tried["near_score"].min(), tried["near_score"].max()
        margin = 0.08 * max(0.1, high - low)
        panels[0].set_ylim(low - margin, high + margin)
        style.add_caption(
            figure,
            "near score, smaller is better: wrong answers + wrong tokens, as shares of all on the "
            "near range; a mark per configuration: small and pale: stopped early, full: trained to "
            "the end, star: the winner of its arm",
        )
    return figure


def _place_values(axes: Axes, values: pd.Series, label: str) -> pd.Series:
    """Where each value lies: on a linear or a logarithmic axis if values were drawn from a range,
    else one place after another.
    """
    axes.set_xlabel(label)
    different = sorted(values.unique(), key=lambda v: (isinstance(v, str), v))
    is_number = pd.api.types.is_numeric_dtype(values) and values.dtype != bool
    drawn = is_number and any(float(f"{value:.2g}") != value for value in different)
    if drawn or (is_number and len(different) > MOST_VALUES):
        low, high = values.min(), values.max()
        if low > 0 and high >= LOG_SPAN * low:
            axes.set_xscale("log")
            axes.set_xlim(low / 1.3, high * 1.3)
            many = high >= 50 * low
            axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if many else (1.0, 2.0, 5.0)))
            axes.xaxis.set_major_formatter(lambda value, place: number(value))
            axes.xaxis.set_minor_formatter(NullFormatter())
        else:
            axes.set_xlim(low - 0.05 * (high - low), high + 0.05 * (high - low))
        return values.astype(float)
    names = [number(v) if is_number else str(v) for v in different]
    axes.set_xticks(range(len(different)), names)
    axes.set_xlim(-0.5, len(different) - 0.5)
    return values.map(different.index).astype(float)


def _draw_tried(axes: Axes, x: pd.Series, tried: pd.DataFrame) -> None:
    """A mark for each configuration of an arm: how far it was trained, and which one won."""
    full = tried["num_steps"] == tried["num_steps"].max()
    looks: dict[str, tuple[pd.Series, dict[str, Any]]] = {
        "_stopped": (~full, {"marker": "o", "markersize": 2.6, "color": style.LIGHT}),
        "_full": (full & ~tried["is_best"], {"marker": "o", "color": style.COLORS[0]}),
        "_best": (tried["is_best"], {"marker": "*", "markersize": 8, "color": style.COLORS[1]}),
    }
    for name, (chosen, look) in looks.items():
        y = np.asarray(tried.loc[chosen, "near_score"], dtype=float)
        axes.plot(x[chosen], y, label=name, linestyle="none", **look, **EDGE)
