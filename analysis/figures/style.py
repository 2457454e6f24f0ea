"""The one visual language of all figures: size, fonts, colours, and which cell looks how.

Colours are Okabe and Ito's, which colour-blind readers tell apart; markers and line styles differ
too, so a figure printed in grey still reads. Figures are built without pyplot, so nothing global
changes.
"""

import textwrap
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

WIDTH = 5.5  # inches: the text width of a conference paper
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000", "#56B4E9", "#8C8C00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = (
    "-",
    (0, (5, 1.5)),
    (0, (4, 1.5, 1, 1.5)),
    (0, (1, 1)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (9, 2)),
    (0, (2, 2)),
    (0, (7, 1, 1, 1)),
)
GREY, LIGHT, FAINT, FAINTER = "#4D4D4D", "#C4C4C4", "#E9E9E9", "#F5F5F5"
MAP = "cividis"  # from dark to light for everybody, in colour and in grey
# For what is near 0 mostly (attention, strengths): paper white, so that a print shows the rest.
WEIGHTS = LinearSegmentedColormap.from_list("weights", ["white", COLORS[0], "#00213D"])
CAPTION_WIDTH = 118  # characters of small print that fit on a line
KINDS = ("png", "pdf", "svg")
DPI = 200
RC = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # ships with matplotlib: the same on every machine
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.labelsize": 8.5,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "pdf.fonttype": 42,  # text stays text
    "svg.fonttype": "none",
    "svg.hashsalt": "pcore",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """How one cell is drawn, in every figure."""

    color: str
    marker: str
    line: str | tuple[int, tuple[float, ...]]


def look_of(index: int) -> Look:
    """The look of the cell at a place in the order of cells; 64 cells until one comes back."""
    return Look(
        color=COLORS[index % len(COLORS)],
        marker=MARKERS[index % len(MARKERS)],
        line=LINES[(index + index // len(COLORS)) % len(LINES)],
    )


def apply() -> AbstractContextManager[None]:
    """The settings, for the block of a `with` statement only."""
    return matplotlib.rc_context(RC)


def new_figure(height: float, num_labels: int, longest_label: int) -> tuple[Figure, Axes]:
    """A figure of paper width with one Axes of `height` inches and room for a legend above it."""
    figure, panels = new_panels(height, 1, 1, num_labels, longest_label)
    return figure, panels[0]


def new_panels(
    height: float, rows: int, columns: int, num_labels: int = 0, longest_label: int = 1
) -> tuple[Figure, list[Axes]]:
    """A figure of paper width with a grid of Axes, row by row, each row `height` inches high."""
    lines = -(-num_labels // legend_columns(longest_label))
    size = (WIDTH, rows * height + 0.17 * lines + 0.25)
    figure = Figure(figsize=size, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.03, h_pad=0.03)
    return figure, [figure.add_subplot(rows, columns, i + 1) for i in range(rows * columns)]


def add_caption(figure: Figure, text: str) -> None:
    """What the marks mean, in small print below the plot."""
    lines = textwrap.fill(text, CAPTION_WIDTH)
    figure.supxlabel(lines, fontsize=6.5, color=GREY, linespacing=1.35)


def ink_on(fraction: float, cmap: str | Colormap = MAP) -> str:
    """Black or white: what can be read on the place of a colour map of ours."""
    is_light = fraction <= 0.5 if cmap is WEIGHTS else fraction > 0.5
    return "black" if is_light else "white"


def legend_columns(longest_label: int) -> int:
    """How many labels of so many characters fit side by side."""
    return max(1, min(4, int(WIDTH * 72 / (7.5 * 0.55 * longest_label + 42))))


def add_legend(figure: Figure, handles: Sequence[Line2D]) -> None:
    """The cells above the plot, read row by row as in the table."""
    if not handles:
        return
    labels = [str(handle.get_label()) for handle in handles]
    columns = min(legend_columns(max(map(len, labels))), len(handles))
    # matplotlib fills column by column: deal the handles out so that rows read in order
    ordered = [handle for first in range(columns) for handle in handles[first::columns]]
    figure.legend(
        handles=ordered,
        loc="outside upper left",
        ncols=columns,
        handlelength=3.2,
        columnspacing=1.6,
        borderaxespad=0.2,
    )


def save(figure: Figure, stem: str | Path) -> list[Path]:
    """Write `stem`.png (DPI), .pdf and .svg; the same figure gives the same bytes."""
    stem = Path(stem)
    stem.parent.mkdir(parents=True, exist_ok=True)
    png, pdf, svg = (stem.with_name(f"{stem.name}.{kind}") for kind in KINDS)
    with apply():
        figure.set_dpi(DPI)  # at which text is as wide as in print; coarser pixels make it narrower
        figure.draw_without_rendering()  # lay out once, not again for every format
        figure.set_layout_engine("none")
        # Not `savefig`, which draws everything twice, the first time to lay it out.
        FigureCanvasAgg(figure).print_png(png, metadata={"Software": None})
        nothing = dict.fromkeys(("CreationDate", "Creator", "Producer"))
        FigureCanvasPdf(figure).print_pdf(pdf, metadata=nothing)
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        FigureCanvasSVG(figure).print_svg(svg, metadata=nothing)
    return [png, pdf, svg]
