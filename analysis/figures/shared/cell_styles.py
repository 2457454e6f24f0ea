"""How each cell is drawn, in every figure: the colour is that of its method in all sweeps.

Several cells of one method are shades of its colour, light to dark in the order of the sweep. Where
all cells have one method, its shades would be hard to tell apart: cells that differ in a number go
through the hues of a palette from light to dark, others have colours that no method has. Markers
and line styles differ too, so a figure printed in grey still reads.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex, to_rgb

from analysis.configs import cell_configs
from analysis.figures.shared.varied_axes import find_axis
from analysis.figures.style import GREY, LINES, MARKERS, METHOD_COLORS, OTHER_COLORS
from analysis.load import Results

LIGHTEST = 0.75  # of a palette: lighter colours are lost on white


@dataclass(frozen=True, kw_only=True, slots=True)
class CellStyle:
    """How one cell is drawn."""

    color: str
    marker: str
    line: str | tuple[int, tuple[float, ...]]  # as matplotlib's `linestyle`


def cell_styles(results: Results) -> dict[str, CellStyle]:
    """The style of every cell of a sweep; 64 cells until marker and line both come back."""
    colors, methods = cell_shades(results), cell_method_colors(results)
    if len(set(methods.values())) == 1 < len(methods):
        colors = dict(zip(methods, _hues(results, len(methods)), strict=True))
    return {
        cell: CellStyle(
            color=colors[cell],
            marker=MARKERS[i % len(MARKERS)],
            line=LINES[(i + i // len(MARKERS)) % len(LINES)],
        )
        for i, cell in enumerate(results.cells)
    }


def _hues(results: Results, number: int) -> Sequence[str]:
    """Colours for cells of one method: in an order where they differ in a number, or are many."""
    if find_axis(results) or number > len(OTHER_COLORS):
        return ordered_colors(number)
    return OTHER_COLORS[:number]


def cell_shades(results: Results) -> dict[str, str]:
    """The colour of every cell by its method alone, also where all cells have one."""
    methods, colors = cell_method_colors(results), dict[str, str]()
    for color in dict.fromkeys(methods.values()):
        cells = [cell for cell in methods if methods[cell] == color]
        colors |= zip(cells, shades(color, len(cells)), strict=True)
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


def shades(color: str, number: int) -> Sequence[str]:
    """A colour from light to dark; the colour itself if one is enough."""
    import seaborn  # slow to import

    if number == 1:
        return [color]
    rgb = np.array(to_rgb(color))
    ends = [tuple(1 - 0.6 * (1 - rgb)), tuple(rgb), tuple(0.45 * rgb)]
    # two are the colour itself and a darker one, so that the first looks as in other sweeps
    return [to_hex(shade) for shade in seaborn.blend_palette(ends[number == 2 :], number)]


def ordered_colors(number: int, palette: str = "viridis") -> Sequence[str]:
    """Colours for values in an order, light to dark: "viridis" for cells, "inferno" for lengths."""
    return [to_hex(color) for color in colormaps[palette](np.linspace(LIGHTEST, 0.05, number))]
