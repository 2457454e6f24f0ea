"""Sweeps of several axes, from where their cells are on each: a panel of curves per value of the
first axis, and heat maps over the others.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.figures import style
from analysis.figures.heat_maps import draw_map, explain_percents
from analysis.figures.lengths import scale_lengths
from analysis.figures.looks import Look, cell_method_colors, ordered_colors
from analysis.figures.shared.labels import add_small_print, length_label
from analysis.figures.shared.marks import describe_counts, draw_median, draw_runs, explain_marks
from analysis.load import Coordinate, Results, cell_axes
from analysis.statistics import runs as statistics
from analysis.tables.sweep_tables import choose_lengths

ACROSS = 3  # panels side by side
TICK_LETTERS = 60  # that fit below a map of the whole width


@dataclass(frozen=True, kw_only=True, slots=True)
class Facets:
    """The cells of a sweep by their place on two axes or more."""

    names: tuple[str, ...]  # of the axes, the one of the panels first
    values: tuple[tuple[Coordinate, ...], ...]  # of each axis, in the order of the sweep
    cells: dict[tuple[Coordinate, ...], str]  # at each place that has one
    reference: str | None  # the first cell, if it has no place: it is drawn in every panel

    @property
    def others(self) -> list[tuple[Coordinate, ...]]:
        """All places on the axes but the first, the last axis fastest."""
        return list(itertools.product(*self.values[1:]))

    def lines(self, value: Coordinate) -> list[str | None]:
        """The cells of a panel: the reference, if there is one, then those at all other places."""
        cells = [self.cells.get((value, *place)) for place in self.others]
        return cells if self.reference is None else [self.reference, *cells]


def _place(names: Sequence[str], values: Sequence[Coordinate]) -> str:
    """Where a panel lies: words stand for themselves, numbers need the name of their axis."""
    pairs = zip(names, values, strict=False)
    return ", ".join(v if isinstance(v, str) else f"{name} {v}" for name, v in pairs)


def find_facets(results: Results) -> Facets | None:
    """None unless every cell, but perhaps the first, has a place of its own on the same two axes or
    more.
    """
    places = cell_axes(results)
    head = next(iter(places), None)
    reference = head if head is not None and not places[head] else None
    places = {cell: place for cell, place in places.items() if cell != reference}
    first = next(iter(places.values()), {})
    if any(place.keys() != first.keys() for place in places.values()):
        return None
    values = {name: tuple(dict.fromkeys(p[name] for p in places.values())) for name in first}
    names = tuple(name for name in values if len(values[name]) > 1)
    cells = {tuple(place[name] for name in names): cell for cell, place in places.items()}
    if len(names) < 2 or len(cells) < len(places):
        return None
    levels = tuple(values[name] for name in names)
    return Facets(names=names, values=levels, cells=cells, reference=reference)


def plot_facets(results: Results, facets: Facets) -> Figure:
    """Exact match (%) against length, a panel per value of the first axis, a line per place on the
    others.
    """
    curves = statistics.cell_curves(results.evaluation)
    runs = statistics.run_curves(results.evaluation)
    panels, looks = facets.values[0], _looks(results, facets)
    across = _across(len(panels))
    with style.apply():
        figure, drawn = style.new_panels(1.7, -(-len(panels) // across), across, list(looks))
        for i, value in enumerate(panels):
            axes, lengths = drawn[i], set[int]()
            axes.axhline(95, label="_95", color=style.LIGHT, linewidth=0.8, linestyle=(0, (2, 2)))
            for cell, look in zip(facets.lines(value), looks.values(), strict=True):
                rows, curve = runs[runs["cell"] == cell], curves[curves["cell"] == cell]
                if cell is None or curve.empty:
                    continue
                match = 100 * rows["exact_match"]
                draw_runs(axes, rows["length"], match, list(rows["trial_id"]), look)
                draw_median(axes, curve["length"], curve, cell, look)
                lengths |= set(curve["length"])
            axes.set_title(_place(facets.names[:1], (value,)), fontsize=7.5, loc="left")
            axes.set(ylim=(-3, 106), yticks=range(0, 101, 20))
            axes.set_xlabel(length_label(results) if i + across >= len(panels) else "")
            axes.set_ylabel("exact match (%)" if i % across == 0 else "")
            if lengths:
                scale_lengths(axes, results, lengths, across)
        for axes in drawn[len(panels) :]:
            axes.remove()
        text = f"panel: {facets.names[0]}; colour: {', '.join(facets.names[1:])}"
        text += f"; {explain_marks(curves)}; dashed: 95\u00a0%; checkpoint: {results.checkpoint}"
        add_small_print(figure, results, text)
        style.add_legend(figure, [_key(look, label) for label, look in looks.items()])
    return figure


def _across(num_panels: int) -> int:
    """How many panels stand side by side."""
    return 2 if num_panels in (2, 4) else min(ACROSS, num_panels)


def _looks(results: Results, facets: Facets) -> dict[str, Look]:
    """Every line by its label in the legend, in the order of `Facets.lines`."""
    looks = dict[str, Look]()
    if facets.reference is not None:
        looks[facets.reference] = Look(color=style.GREY, marker="", line="--")
    for i, (place, color) in enumerate(zip(facets.others, _colors(results, facets), strict=True)):
        marker = style.MARKERS[i % len(style.MARKERS)]
        label = ", ".join(map(_label, facets.names[1:], place))
        looks[label] = Look(color=color, marker=marker, line="-")
    return looks


def _colors(results: Results, facets: Facets) -> list[str]:
    """Of each place on the axes but the first: that of its method, if these differ; else colours
    without an order for words, and with one for numbers.
    """
    others, of_cells = facets.others, cell_method_colors(results)
    methods = [
        {of_cells[c] for v in facets.values[0] if (c := facets.cells.get((v, *place)))}
        for place in others
    ]
    if len(set().union(*methods)) == len(others) == sum(map(len, methods)):
        return [color for colors in methods for color in colors]
    if any(isinstance(value, str) for place in others for value in place):
        return [style.OTHER_COLORS[i % len(style.OTHER_COLORS)] for i in range(len(others))]
    return list(ordered_colors(len(others)))


def _key(look: Look, label: str) -> Line2D:
    drawn: dict[str, Any] = {"color": look.color, "marker": look.marker, "linestyle": look.line}
    return Line2D([], [], label=label, **drawn)


def _label(name: str, value: Coordinate) -> str:
    """A word as it is, a number with the name of its axis."""
    return value if isinstance(value, str) else f"{name} {value}"


def plot_maps(results: Results, facets: Facets) -> Figure:
    """Median exact match (%) at the length near 2x: one map of two axes, or of more a map per value
    of the first.

    Raises ValueError if nothing beyond the trained lengths was tested.
    """
    shown = choose_lengths(results)
    if shown.solve is None:
        raise ValueError(f"sweep {results.sweep!r} was not tested beyond its trained lengths")
    curves = statistics.cell_curves(results.evaluation)
    at = curves[curves["length"] == shown.solve].groupby("cell")["median"].max()
    several = len(facets.names) > 2
    panels = [(value,) for value in facets.values[0]] if several else [()]
    rows = facets.values[1 if several else 0]
    columns = list(itertools.product(*facets.values[2 if several else 1 :]))
    across = _across(len(panels))
    ticks = [", ".join(map(str, column)) for column in columns]
    is_long = across * sum(map(len, ticks)) > TICK_LETTERS
    with style.apply():
        height = 0.65 + 0.3 * len(rows) + 0.55 * is_long
        figure, drawn = style.new_panels(height, -(-len(panels) // across), across)
        for i, panel in enumerate(panels):
            values = np.full((len(rows), len(columns)), np.nan)
            for (y, row), (x, column) in itertools.product(enumerate(rows), enumerate(columns)):
                values[y, x] = at.get(facets.cells.get((*panel, row, *column), ""), np.nan)
            draw_map(drawn[i], values)
            drawn[i].set_title(_place(facets.names, panel), fontsize=7.5, loc="left")
            drawn[i].set_xticks(range(len(columns)), ticks, rotation=30 if is_long else 0)
            if is_long:
                for tick in drawn[i].get_xticklabels():
                    tick.set(ha="right", rotation_mode="anchor")
            drawn[i].set_yticks(range(len(rows)), list(map(str, rows)))
            if any(isinstance(row, str) for row in rows):  # words are read from the top
                drawn[i].invert_yaxis()
            names = facets.names[len(panel) :]
            drawn[i].set_xlabel(", ".join(names[1:]) if i + across >= len(panels) else "")
            drawn[i].set_ylabel(names[0] if i % across == 0 else "")
        for axes in drawn[len(panels) :]:
            axes.remove()
        text = f"median over runs of exact match (%) at length {shown.label(shown.solve)}"
        drawn_at = at.reindex(list(facets.cells.values()))
        text += explain_percents(drawn_at)
        is_whole = drawn_at.notna().all() and len(drawn_at) == np.prod([*map(len, facets.values)])
        text += "" if is_whole else "; grey: not tested"
        text += f"; {describe_counts(curves['n'])}"
        text += f"; not on these axes: {facets.reference}" if facets.reference else ""
        add_small_print(figure, results, f"{text}; checkpoint: {results.checkpoint}")
    return figure
