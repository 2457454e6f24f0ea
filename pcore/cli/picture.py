"""The picture the papers explain position coupling with: tokens in boxes, coloured by position ID.

One row of boxes for each level, the ID under each box; equal colour means equal ID. The colours
(viridis) keep their order in grey and for colour-blind eyes. Long sequences continue below, if
possible after '=' or another separator. matplotlib is imported only when something is drawn.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pcore.cli.show import Example

BOXES_PER_LINE = 32
SEPARATORS = ("=", "+", "*", ">")
INCHES_PER_BOX = 0.36
ROW_HEIGHT = 1.75  # of one level, in boxes: the box and the ID under it
LINE_GAP = 0.7  # between continued lines, in boxes
LIGHT, DARK = "#ffffff", "#000000"
FORMATS = ("png", "pdf", "svg")


def draw_example(example: "Example", file: Path, title: str) -> None:
    """Write the picture of an example to a PNG, PDF or SVG file."""
    if file.suffix.lstrip(".").lower() not in FORMATS:
        raise ValueError(f"a picture is a .png, .pdf or .svg file, got {str(file)!r}")
    if not file.parent.is_dir():
        raise ValueError(f"there is no folder {file.parent} for the picture")

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    lines = split_lines(example.tokens, example.num_context)
    has_names = len(example.levels) > 1
    margin = max(map(len, example.levels)) * 0.32 + 0.6 if has_names else 0.4
    width = margin + max(end - first for first, end in lines) + 0.4
    line_height = len(example.levels) * ROW_HEIGHT + LINE_GAP
    height = len(lines) * line_height - LINE_GAP + 1.1
    figure = Figure(figsize=(width * INCHES_PER_BOX, height * INCHES_PER_BOX))
    FigureCanvasAgg(figure)
    axes: Any = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-margin, width - margin), ylim=(-height, 0), aspect="equal")
    axes.axis("off")
    axes.text(
        0, -0.55, _shorten(title, round(4 * (width - margin))), fontsize=10, color=DARK, va="center"
    )
    for number, (first, end) in enumerate(lines):
        top = -0.9 - number * line_height
        for level, name in enumerate(example.levels):
            y = top - level * ROW_HEIGHT
            if has_names:
                axes.text(-0.3, y - 0.5, name, fontsize=8, color=DARK, ha="right", va="center")
            _draw_row(axes, example, level, first, end, y)
    figure.savefig(file, dpi=160, facecolor="white")


def split_lines(tokens: list[str], num_context: int) -> list[tuple[int, int]]:
    """(first, end) of each line: whole if it fits, else cut after '=' and then by width."""
    if len(tokens) <= BOXES_PER_LINE:
        return [(0, len(tokens))]
    lines: list[tuple[int, int]] = []
    for first, end in ((0, num_context), (num_context, len(tokens))):
        while end - first > BOXES_PER_LINE:
            cut = _find_cut(tokens, first)
            lines.append((first, cut))
            first = cut
        lines.append((first, end))
    return lines


def _find_cut(tokens: list[str], first: int) -> int:
    """After the last separator of a full line, unless that leaves it half empty."""
    full = first + BOXES_PER_LINE
    for cut in range(full, first + BOXES_PER_LINE // 2, -1):
        if tokens[cut - 1] in SEPARATORS:
            return cut
    return full


def _draw_row(axes: "Axes", example: "Example", level: int, first: int, end: int, y: float) -> None:
    from matplotlib.patches import FancyBboxPatch

    ids = example.position_ids[level]
    largest = max(ids)
    lowest = min((i for i in ids if i), default=1)
    for column, index in enumerate(range(first, end)):
        identifier, token = ids[index], example.tokens[index]
        fill = _colour(identifier, lowest, largest) if identifier else LIGHT
        axes.add_patch(
            FancyBboxPatch(
                (column + 0.06, y - 0.94),
                0.88,
                0.88,
                boxstyle="round,pad=0,rounding_size=0.14",
                facecolor=fill,
                edgecolor="#666666" if not identifier else fill,
                linestyle="-" if identifier else (0, (2, 2)),
                linewidth=0.8,
            )
        )
        style: dict[str, Any] = {"ha": "center", "va": "center", "clip_on": False}
        axes.text(
            column + 0.5,
            y - 0.52,
            _escape(token),
            color=_ink(fill),
            fontsize=12 if len(token) == 1 else 8,
            **style,
        )
        if identifier:
            axes.text(column + 0.5, y - 1.25, str(identifier), color=DARK, fontsize=8, **style)


def _colour(identifier: int, lowest: int, largest: int) -> str:
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    share = (identifier - lowest) / max(1, largest - lowest)
    return to_hex(colormaps["viridis"](0.06 + 0.92 * share))


def _ink(fill: str) -> str:
    """Black or white, whichever contrasts more with the fill (WCAG relative luminance)."""
    channels = [int(fill[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return LIGHT if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else DARK


def _shorten(text: str, limit: int) -> str:
    text = text.replace("$", "\\$")
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _escape(token: str) -> str:
    return "\\$" if token == "$" else token  # matplotlib reads $...$ as mathematics
