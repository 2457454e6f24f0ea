"""Figures of curves: exact match against length, and training loss against step. One panel, or one
per value of the first axis of a sweep.

Each line is the median over the runs of a cell, which is its label; the band around it is the
interval that tables print.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import (
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
    StrMethodFormatter,
)
from matplotlib.transforms import offset_copy

from analysis.figures import style
from analysis.figures.captions import (
    add_small_print,
    describe_counts,
    describe_factor,
    explain_band,
    factor_text,
    length_label,
)
from analysis.figures.looks import LOG_SPAN, Look, Panel, find_facets, make_panels
from analysis.load import COUNTED, Results, trained_ranges
from analysis.statistics import runs as statistics
from analysis.statistics.cells import cells_of

EDGE: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.4}
DASHED: dict[str, Any] = {"linewidth": 0.8, "linestyle": (0, (2, 2)), "zorder": 1}
STEPS = (1, 2, 5, 10)  # of round numbers on an axis
FEW = 8  # points up to which every one has a marker
SPREAD = 3.0  # points of print from the first of several lines to the last: equal ones are seen
LABEL = 0.05  # of the length axis: the width of a label above the plot
MARGIN = 0.02  # of the length axis, on both sides of what was tested
MOST_DECADES = 2.5  # up to which every power of ten has three labels
HIGH = 0.5  # exact match above which the axis may begin later than at 0


def plot_lengths(results: Results) -> Figure:
    """Exact match (%) against length: a line per cell; see the module.

    The length axis is logarithmic if the largest tested length is far beyond the trained ones.
    """
    curves = cells_of(results).curves.rename(columns={"length": "x"})
    medians = cells_of(results).train["median"].dropna()
    unfitted = {str(cell) for cell, median in medians.items() if not statistics.fits(median)}
    panels, looks = make_panels(results)

    def dress(axes: Axes, panel: Panel, stats: pd.DataFrame) -> None:
        scale_lengths(axes, results, stats["x"], panel.across)
        _scale_match(axes, curves)
        axes.axhline(95, label="_95", color=style.LIGHT, **DASHED)
        if panel.across == 1:
            _mark_ranges(axes, results, {line: look.color for line, look in looks.items()})
        elif panel.lines and set(panel.lines.values()) <= unfitted:
            text = "does not fit\nits trained lengths"
            look: dict[str, Any] = {"ha": "right", "va": "top", "fontsize": 6.5}
            axes.text(0.97, 0.8, text, color=style.GREY, transform=axes.transAxes, **look)

    notes = [describe_counts(curves["n"]), "dashed: 95\u00a0%"]
    if len(panels) == 1 and len(set(trained_ranges(results).values())) != 1:
        notes.append("dotted: longest trained length of each cell")
    if len(panels) == 1 and unfitted:
        notes.append(f"at most 95\u00a0% on the trained lengths: {', '.join(sorted(unfitted))}")
    notes.append(describe_factor(results))
    names = (length_label(results), "exact match (%)")
    return _draw(results, curves, (panels, looks), dress, names, notes, factor=100)


def plot_losses(results: Results) -> Figure:
    """Training loss (nats per target, log scale) against step; where a run diverged, a cross."""
    rows = results.reports
    rows = rows[np.isfinite(rows["loss"]) & (rows["loss"] > 0) & rows["status"].isin(COUNTED)]
    spans = rows.assign(x=rows["step"]).groupby(["cell", "x"], observed=True)["loss"]
    stats = spans.agg(median="median", low="min", high="max", n="size").reset_index()
    kinds = np.where(stats["n"] > 1, "range", "none")
    stats = stats.assign(cell=stats["cell"].astype(str), interval=kinds)
    ends = rows[rows["status"] == "diverged"].sort_values("step")
    ends = ends.groupby("trial_id", observed=True).last()
    panels, looks = make_panels(results)

    def dress(axes: Axes, panel: Panel, _: pd.DataFrame) -> None:
        axes.set_yscale("log")
        axes.set_ylim(0.7 * rows["loss"].min(), 1.4 * rows["loss"].max())
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        nbins = 8 if panel.across == 1 else 4
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=nbins, steps=STEPS))
        axes.margins(x=0.02)
        cross: dict[str, Any] = {"marker": "x", "linestyle": "none", "markersize": 6, "zorder": 4}
        for line, cell in panel.lines.items():
            of = ends[ends["cell"] == cell]
            if len(of):
                axes.plot(of["step"], of["loss"], label="_end", color=looks[line].color, **cross)

    notes = [describe_counts(rows.groupby("cell", observed=True)["trial_id"].nunique())]
    notes += ["×: diverged"] if len(ends) else []
    name = "training loss (nats per target)" if len(panels) == 1 else "loss (nats)"
    names = ("step", name)
    return _draw(results, stats, (panels, looks), dress, names, notes, has_policy=False)


def _draw(
    results: Results,
    stats: pd.DataFrame,
    spec: tuple[list[Panel], dict[str, Look]],
    dress: Callable[[Axes, Panel, pd.DataFrame], None],
    names: tuple[str, str],
    notes: Iterable[str],
    *,
    factor: float = 1,
    has_policy: bool = True,
) -> Figure:
    """The curves of each panel over what `dress` prepares. names: of the axes, x and y."""
    panels, looks = spec
    across, facets = panels[0].across, find_facets(results)
    with style.apply():
        height = 2.7 if len(panels) == 1 else 1.7
        figure, drawn = style.new_panels(height, len(panels), across, list(looks))
        for panel, axes in zip(panels, drawn, strict=True):
            lines = {cell: line for line, cell in panel.lines.items()}
            rows = stats[stats["cell"].isin(lines)]
            rows = rows.assign(line=rows["cell"].map(lines))
            dress(axes, panel, rows)
            draw_curves(axes, rows, looks, factor)
        style.label_panels(drawn, across, [panel.title for panel in panels], *names)
        kinds = f"panel: {facets.names[0]}; colour: {', '.join(facets.names[1:])}" if facets else ""
        most = SPREAD / 2 if len(panels) == 1 else SPREAD / 4
        moved = f"lines shifted by up to {most:g}\u00a0pt so that equal ones show"
        notes = [kinds, explain_band(stats["interval"]), *notes, moved * (len(looks) > 1)]
        add_small_print(figure, results, notes, has_policy)
        handles = {line.get_label(): line for axes in drawn for line in axes.get_lines()}
        style.add_legend(figure, [handles[name] for name in looks if name in handles])
    return figure


def has_losses(results: Results) -> bool:
    """Whether any counted run has two reports of its loss: of one there is nothing to see."""
    reports = results.reports[results.reports["status"].isin(COUNTED)]
    return bool((reports.groupby("trial_id", observed=True)["step"].nunique() > 1).any())


def draw_curves(
    axes: Axes, stats: pd.DataFrame, looks: Mapping[str, Look], factor: float = 1
) -> None:
    """A line for each `line` of stats through its medians at x, with the interval from low to high
    as a band (all times factor). Lines that are equal are drawn side by side, their markers apart.
    """
    names = [name for name in looks if (stats["line"] == name).any()]
    alpha = min(0.15, 0.6 / len(names))
    figure = axes.get_figure(root=True)
    spread = SPREAD if len(axes.figure.axes) == 1 else SPREAD / 2
    for i, name in enumerate(names):
        look = looks[name]
        of = stats[stats["line"] == name].dropna(subset="median").sort_values("x")
        low, high = (factor * of[end].fillna(of["median"]) for end in ("low", "high"))
        axes.fill_between(of["x"], low, high, color=look.color, alpha=alpha, linewidth=0)
        drawn: dict[str, Any] = {"color": look.color, "marker": look.marker, "label": name}
        (line,) = axes.plot(of["x"], factor * of["median"], **drawn, **EDGE)
        if not isinstance(look.line, str):
            line.set_dashes(look.line)
        if len(line.get_xdata()) > FEW:  # pyright: ignore[reportArgumentType]
            line.set_markevery((0.09 * i / len(names), 0.09))
        points = spread * (i - (len(names) - 1) / 2) / max(len(names) - 1, 1)
        line.set_transform(offset_copy(axes.transData, figure, y=-points, units="points"))


def scale_lengths(axes: Axes, results: Results, lengths: Iterable[float], across: int = 1) -> None:
    """From the shortest to the longest of these lengths; a logarithmic axis where a linear one
    would squeeze the trained lengths into a corner.

    across: panels side by side. With several, only powers of ten fit where the lengths span two.
    """
    ordered = sorted(lengths)
    if not ordered:
        return
    low, high = ordered[0], ordered[-1]
    trained = [last for _, last in trained_ranges(results).values()]
    is_far = trained and results.evaluation["length"].max() >= LOG_SPAN * max(trained)
    if is_far and high >= LOG_SPAN * low:
        factor = (high / low) ** MARGIN
        few = math.log10(high / low) >= (MOST_DECADES if across == 1 else 2)
        axes.set_xscale("log")
        axes.set_xlim(low / factor, high * factor)
        locator = LogLocator(subs=(1,) if few else (1, 2, 5))
        axes.xaxis.set_minor_locator(LogLocator(subs="auto") if few else NullLocator())
    else:
        margin = MARGIN * (high - low) or 0.5
        axes.set_xlim(low - margin, high + margin)
        nbins = 12 if across < 3 else 6
        locator = MaxNLocator(integer=True, nbins=nbins, steps=STEPS, min_n_ticks=1)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _scale_match(axes: Axes, stats: pd.DataFrame) -> None:
    """From 0 to 100 %, or from a round number where everything lies above it."""
    least = min(stats["low"].min(), stats["median"].min())
    floor = min(90, 10 * math.floor(10 * least)) if least >= HIGH else 0
    room = (100 - floor) / 100
    axes.set_ylim(floor - 4 * room, 100 + 6 * room)
    axes.set_yticks(range(floor, 101, 20 if floor == 0 else 10 if floor < 80 else 5))


def _mark_ranges(axes: Axes, results: Results, colors: Mapping[str, str]) -> None:
    """Trained and near range, multiples of the trained length."""
    trained = trained_ranges(results)
    if len(set(trained.values())) != 1:
        for cell, (_, high) in trained.items():
            look: dict[str, Any] = {"linewidth": 0.6, "linestyle": ":"}
            axes.axvline(high, label="_trained", color=colors[cell], **look)
        return
    (low, high), rows, marks = trained.popitem()[1], results.evaluation, dict[str, float]()
    (left, right), to_axes = axes.get_xlim(), axes.transData + axes.transAxes.inverted()
    near = rows.loc[rows["range"] == "near", "length"]
    spans = {"trained": (low, high, style.FAINT)}
    spans |= {"near": (near.min(), near.max(), style.FAINTER)} if len(near) else {}
    for text, (first, last, color) in spans.items():
        ends = np.array([max(first - 0.5, left), min(last + 0.5, right)])
        axes.axvspan(*ends, label=f"_{text}", color=color, linewidth=0, zorder=0)
        marks[text] = ends.prod() ** 0.5 if axes.get_xscale() == "log" else ends.mean()
    longest, decade = int(rows["length"].max()), 10 ** math.ceil(math.log10(10 * high))
    far = [n for n in (decade, 10 * decade) if n < longest] + [longest]
    for length in (1.5 * high, 2 * high, *(n for n in far if n >= LOG_SPAN * high)):
        if length <= right:
            axes.axvline(length, label="_multiple", zorder=1, color=style.LIGHT, linewidth=0.6)
            marks[factor_text(length / high)] = length
    taken, look = list[float](), {"color": style.GREY, "fontsize": 7, "ha": "center"}
    for text, length in marks.items():
        share = to_axes.transform((length, 0))[0]
        if all(abs(share - other) >= LABEL for other in taken):
            taken.append(share)
            axes.text(length, 1.01, text, transform=axes.get_xaxis_transform(), **look)
