"""The picture the papers explain position coupling with: tokens in boxes, coloured by position ID.

One row of boxes for each level, the ID under each box; equal colour means equal ID. The colours
(viridis) keep their order in grey and for colour-blind eyes. Long sequences continue below.
matplotlib is imported only when something is drawn.
"""

from pathlib import Path
from typing import Any

from pcore.cli.show import POSITION, Example

BOXES_PER_LINE = 32
INCHES_PER_BOX = 0.36
ROW_HEIGHT = 1.75  # of one level, in boxes: the box and the ID under it
LINE_GAP = 0.7  # between continued lines, in boxes
DARK, LIGHT, GREY = "#000000", "#ffffff", "#666666"
FORMATS = ("png", "pdf", "svg")


def draw_example(example: Example, file: Path, title: str) -> None:
    """Write the picture of an example to a PNG, PDF or SVG file."""
    if file.suffix.lstrip(".").lower() not in FORMATS:
        raise ValueError(f"a picture is a .png, .pdf or .svg file, got {str(file)!r}")
    if not file.parent.is_dir():
        raise ValueError(f"there is no folder {file.parent} for the picture")

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = example.levels if len(example.levels) > 1 else ("",)
    starts = range(0, len(example.tokens), BOXES_PER_LINE)
    margin = max(map(len, names)) * 0.32 + 0.6
    width = margin + min(len(example.tokens), BOXES_PER_LINE) + 0.4
    line_height = len(names) * ROW_HEIGHT + LINE_GAP
    height = len(starts) * line_height - LINE_GAP + 1.1
    figure = Figure(figsize=(width * INCHES_PER_BOX, height * INCHES_PER_BOX))
    FigureCanvasAgg(figure)
    axes: Any = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-margin, width - margin), ylim=(-height, 0), aspect="equal")
    axes.axis("off")
    shown = title if len(title) <= 4 * (width - margin) else f"{title[: round(4 * width) - 1]}…"
    axes.text(0, -0.55, _escape(shown), fontsize=10, color=DARK, va="center")
    for line, first in enumerate(starts):
        for level, name in enumerate(names):
            y = -0.9 - line * line_height - level * ROW_HEIGHT
            axes.text(-0.3, y - 0.5, name, fontsize=8, color=DARK, ha="right", va="center")
            _draw_row(axes, example, level, first, y)
    figure.savefig(file, dpi=160, facecolor="white")


def _draw_row(axes: Any, example: Example, level: int, first: int, y: float) -> None:
    """One line of one level, its top at y."""
    from matplotlib import colormaps
    from matplotlib.patches import FancyBboxPatch

    ids = [i or 0 for i in example.ids[POSITION][level]]  # 0: none
    lowest = min((i for i in ids if i), default=1)
    row = zip(example.tokens[first:], ids[first:], range(BOXES_PER_LINE), strict=False)
    for token, identifier, column in row:
        share = 0.06 + 0.92 * (identifier - lowest) / max(1, max(ids) - lowest)
        fill = colormaps["viridis"](share) if identifier else LIGHT
        style: dict[str, Any] = {"facecolor": fill, "edgecolor": fill, "linewidth": 0.8}
        if not identifier:
            style |= {"edgecolor": GREY, "linestyle": (0, (2, 2))}
        shape = "round,pad=0,rounding_size=0.14"
        axes.add_patch(FancyBboxPatch((column + 0.06, y - 0.94), 0.88, 0.88, shape, **style))
        ink = LIGHT if identifier and share < 0.44 else DARK
        size = 12 if len(token) == 1 else 8
        middle: dict[str, Any] = {"ha": "center", "va": "center", "x": column + 0.5}
        axes.text(y=y - 0.52, s=_escape(token), color=ink, fontsize=size, **middle)
        axes.text(y=y - 1.25, s=str(identifier or ""), color=DARK, fontsize=8, **middle)


def _escape(text: str) -> str:
    return text.replace("$", "\\$")  # matplotlib reads $...$ as mathematics
