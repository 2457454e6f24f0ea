"""The panels of a sweep, from where its cells are on each axis: one panel per value of the first
axis, with a line for each place on the others; one panel alone for other sweeps.
"""

import itertools
from dataclasses import dataclass

from analysis.figures import style
from analysis.figures.looks import (
    Look,
    cell_looks,
    cell_method_colors,
    make_looks,
    ordered_colors,
)
from analysis.load import Coordinate, Results, cell_axes

ACROSS = 3  # panels side by side


@dataclass(frozen=True, kw_only=True, slots=True)
class Facets:
    """The cells of a sweep by their place on two axes or more."""

    names: tuple[str, ...]  # of the axes, the one of the panels first
    values: tuple[tuple[Coordinate, ...], ...]  # of each axis, in the order of the sweep
    cells: dict[tuple[Coordinate, ...], str]  # at each place that has one
    reference: str | None  # the first cell, if it has no place: it is drawn in every panel


@dataclass(frozen=True, kw_only=True, slots=True)
class Panel:
    """One panel of curves."""

    title: str
    lines: dict[str, str]  # the cell of each line that has one here
    across: int  # panels side by side


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


def make_panels(results: Results) -> tuple[list[Panel], dict[str, Look]]:
    """The panels of a sweep and the looks of the lines in them."""
    facets = find_facets(results)
    if facets is None:
        lines = {cell: cell for cell in results.cells}
        return [Panel(title="", lines=lines, across=1)], cell_looks(results)
    looks, panels = _facet_looks(results, facets), list[Panel]()
    places = list(itertools.product(*facets.values[1:]))
    for value in facets.values[0]:
        cells = [facets.cells.get((value, *place)) for place in places]
        cells = cells if facets.reference is None else [facets.reference, *cells]
        lines = {line: cell for line, cell in zip(looks, cells, strict=True) if cell}
        across = 2 if len(facets.values[0]) in (2, 4) else min(ACROSS, len(facets.values[0]))
        panels.append(Panel(title=say(facets.names[0], value), lines=lines, across=across))
    return panels, looks


def say(name: str, value: Coordinate) -> str:
    """A word as it is, a number with the name of its axis."""
    return value if isinstance(value, str) else f"{name} {value}"


def _facet_looks(results: Results, facets: Facets) -> dict[str, Look]:
    """The look of every line by its label: of its method, if these differ; else colours without an
    order for words, and with one for numbers.
    """
    places = list(itertools.product(*facets.values[1:]))
    of_cells, first = cell_method_colors(results), facets.values[0]
    methods = [
        {of_cells[cell] for value in first if (cell := facets.cells.get((value, *place)))}
        for place in places
    ]
    if len(set().union(*methods)) == len(places) == sum(map(len, methods)):
        colors = [color for found in methods for color in found]
    elif any(isinstance(value, str) for place in places for value in place):
        colors = [style.OTHER_COLORS[i % len(style.OTHER_COLORS)] for i in range(len(places))]
    else:
        colors = list(ordered_colors(len(places)))
    labels = [", ".join(map(say, facets.names[1:], place)) for place in places]
    looks = make_looks(dict(zip(labels, colors, strict=True)))
    if facets.reference is None:
        return looks
    return {facets.reference: Look(color=style.GREY, marker="o", line=(5, 2))} | looks
