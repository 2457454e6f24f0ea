"""How each cell is drawn, and in which panel.

A method has one colour in all sweeps. Several lines of one method are shades of its colour, light
to dark in the order of the sweep. Where all lines have one method, or many have, its shades would
be hard to tell apart: lines that differ in a number go through the hues of a palette from light to
dark, others have colours that no method has. Markers and line styles differ too, so a figure
printed in grey still reads.
"""

import itertools
import zlib
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex, to_rgb

from analysis.figures.style import GREY, LINES, MARKERS, METHOD_COLORS, OTHER_COLORS
from analysis.load import MEASURED, Coordinate, Results, cell_axes, cell_configs, differences

LIGHTEST = 0.75  # of a palette: lighter colours are lost on white
LOG_SPAN = 8  # largest over smallest value from which on an axis is logarithmic
ACROSS = 3  # panels side by side
MOST_SHADES = 4  # of one colour among others


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """How one line is drawn."""

    color: str
    marker: str
    line: str | tuple[float, ...]  # dashes and gaps, of `style.LINES`


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


# Colours ------------------------------------------------------------------------------------------


def cell_looks(results: Results) -> dict[str, Look]:
    """The look of every cell of a sweep."""
    return make_looks(cell_method_colors(results), have_order(results))


def make_looks(methods: Mapping[str, str | None], in_order: bool) -> dict[str, Look]:
    """The look of each line by the colour of its method (None: it has several); see the module. 64
    lines until marker and line style both come back."""
    counts = Counter(methods.values())
    if len(methods) > 1 and (len(counts) == 1 or max(counts.values()) > MOST_SHADES):
        counts[None] += 1
    colors = other_colors(methods, in_order) if None in counts else shade_methods(methods)
    return {
        name: Look(
            color=color,
            marker=MARKERS[i % len(MARKERS)],
            line=LINES[(i + i // len(MARKERS)) % len(LINES)],
        )
        for i, (name, color) in enumerate(colors.items())
    }


def shade_methods(methods: Mapping[str, Any]) -> dict[str, str]:
    """Lines of one method as shades of its colour, light to dark; the colour itself for one."""
    import seaborn  # slow to import

    colors = dict[str, str]()
    for color in dict.fromkeys(methods.values()):
        lines, rgb = [line for line in methods if methods[line] == color], np.array(to_rgb(color))
        ends = [tuple(1 - 0.6 * (1 - rgb)), tuple(rgb), tuple(0.45 * rgb)]
        # two are the colour itself and a darker one, so that the first looks as in other sweeps;
        # beside black a lighter one
        ends = ends[int(rgb.any()) :][:2] if len(lines) == 2 else ends
        shades = seaborn.blend_palette(ends, len(lines))
        colors |= zip(lines, map(to_hex, shades) if len(lines) > 1 else [color], strict=True)
    return colors


def cell_method_colors(results: Results) -> dict[str, str]:
    """The colour of the method of every cell."""
    configs = cell_configs(results)
    return {cell: method_color(configs.get(cell, {})) for cell in results.cells}


def method_name(config: Mapping[str, Any]) -> str:
    """What a method is called: its encoding together with its IDs."""
    encoding = str(config.get("position.encoding"))
    if encoding == "none":
        return "index hints" if config.get("task.index_hints") else "NoPE"
    return f"{encoding} {config.get('position.ids')}"


def method_color(config: Mapping[str, Any]) -> str:
    """The colour of a method, or of its encoding with any IDs; of an own encoding one of those that
    no method has, always the same; grey for all others.
    """
    name = method_name(config)
    encoding = name.partition(" ")[0]
    own = OTHER_COLORS[zlib.crc32(encoding.encode()) % len(OTHER_COLORS)]
    other = own if ":" in encoding else GREY
    return METHOD_COLORS.get(name, METHOD_COLORS.get(encoding, other))


def other_colors(names: Collection[str], in_order: bool) -> dict[str, str]:
    """Colours of lines that are no methods: light to dark for an order, and for very many."""
    if not in_order and len(names) <= len(OTHER_COLORS):
        return dict(zip(names, OTHER_COLORS, strict=False))
    palette = colormaps["viridis"](np.linspace(LIGHTEST, 0.05, len(names)))
    return dict(zip(names, map(to_hex, palette), strict=True))


def have_order(results: Results) -> bool:
    """Whether one number tells all cells apart, and they differ in nothing but numbers."""
    configs = cell_configs(results)
    varied = [v for name, v in differences(configs).items() if name not in MEASURED]
    tells_apart = any(len(set(values)) == len(configs) for values in varied)
    return tells_apart and all(map(_is_numeric, varied))


def _is_numeric(values: list[Any]) -> bool:
    """None (fresh examples for ever) is one, after all others."""
    numbers = [v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)]
    return len(numbers) > 0 and all(v is None or v in numbers for v in values)


# Panels -------------------------------------------------------------------------------------------


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
    """The panels of a sweep and the looks of the lines in them: a panel per value of the first axis
    with a line for each place on the others, or one panel alone.
    """
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
    """The look of every line by its label; numbers have an order, words have none."""
    of_cells, methods, places = cell_method_colors(results), {}, facets.values[1:]
    for place in itertools.product(*places):
        cells = [facets.cells.get((value, *place)) for value in facets.values[0]]
        found = {of_cells[cell] for cell in cells if cell}
        label = ", ".join(map(say, facets.names[1:], place))
        methods[label] = found.pop() if len(found) == 1 else None
    looks = make_looks(methods, not any(isinstance(v, str) for axis in places for v in axis))
    if facets.reference is None:
        return looks
    return {facets.reference: Look(color=GREY, marker="o", line=(5, 2))} | looks
