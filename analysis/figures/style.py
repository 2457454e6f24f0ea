"""The style of all figures: size, fonts, colours.

The first colours are Okabe and Ito's, which colour-blind readers tell apart. Figures are built
without pyplot, so nothing global changes.
"""

import io
import math
import textwrap
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.text import Text

from analysis.tables.files import check_place
from pcore.cli.text import plain

WIDTH = 5.5  # inches: the text width of a conference paper
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000", "#56B4E9", "#8C8C00")
METHOD_COLORS = {  # encoding and IDs (or the encoding alone), by one colour in every figure
    "learned coupled": COLORS[0],
    "learned candidates": COLORS[0],
    "residues coupled": COLORS[6],
    "mixture": "#332288",
    "rotary coupled": "#44AA99",
    "NoPE": COLORS[5],
    "index hints": COLORS[1],
    "learned sequential": COLORS[4],
    "learned randomized": COLORS[3],
    "learned abacus": "#882255",
    "rotary": COLORS[2],
    "sinusoidal": COLORS[7],
    "alibi": "#7A4FB5",
    "t5": "#8C510A",
    "fire": "#B2182B",
}
# Of lines that are no methods: none is the colour of one.
OTHER_COLORS = (
    *("#77AADD", "#EE8866", "#44BB99", "#AA4499", "#BBBB33"),
    *("#EE3377", "#777777", "#663300", "#224466"),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = (  # dashes and gaps in line widths; "" is a line without gaps
    "",
    (5, 1.5),
    (4, 1.5, 1, 1.5),
    (1, 1),
    (3, 1, 1, 1, 1, 1),
    (9, 2),
    (2, 2),
    (7, 1, 1, 1),
)
GREY, LIGHT, FAINT, FAINTER = "#4D4D4D", "#C4C4C4", "#E9E9E9", "#F5F5F5"
MAP = "cividis"  # from dark to light for everybody, in colour and in grey
# For what is near 0 mostly (attention): paper white, so that a print shows the rest.
WEIGHTS = LinearSegmentedColormap.from_list("weights", ["white", COLORS[0], "#00213D"])
CAPTION_WIDTH = 118  # characters of small print that fit on a line
CAPTION_LINE = 0.125  # inches: the height of a line of it
MOST_COLUMNS = 6  # of labels in a legend
MANY_LABELS = 8  # beyond which they are smaller
# Widths in a legend, in letter sizes: a letter; mark and gap; between columns.
LETTER, HANDLE, BETWEEN = 0.6, 4.0, 1.6
FORMATS: Any = {  # of a figure; what of each changes from one run to the next
    "png": (FigureCanvasAgg, ("Software",)),
    "pdf": (FigureCanvasPdf, ("CreationDate", "Creator", "Producer")),
    "svg": (FigureCanvasSVG, ("Date", "Creator", "Format", "Type")),
}
KINDS = tuple(FORMATS)
DPI = 200
RC: Any = {
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
    "text.parse_math": False,  # a label may hold any signs
    "pdf.fonttype": 42,  # text stays text
    "svg.fonttype": "none",
    "svg.hashsalt": "pcore",
}


def apply() -> AbstractContextManager[None]:
    """The settings, for the block of a `with` statement only."""
    return matplotlib.rc_context(RC)


def new_panels(
    height: float, number: int = 1, across: int = 1, labels: Sequence[str] = ()
) -> tuple[Figure, list[Axes]]:
    """A figure of paper width with a number of Axes, row by row, each row `height` inches high, and
    room for a legend with these labels.
    """
    rows, lines = math.ceil(number / across), math.ceil(len(labels) / legend_columns(labels))
    size = (WIDTH, rows * height + 1.6 * legend_size(labels) / 72 * lines)
    figure = Figure(figsize=size, layout="constrained")
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.set(w_pad=0.03, h_pad=0.05)  # pyright: ignore[reportCallIssue]
    axes = list(figure.subplots(rows, across, squeeze=False).flat)
    for unused in axes[number:]:
        unused.remove()
    return figure, axes[:number]


def panel_width(across: int) -> float:
    """Inches, of one of so many panels in a row; the rest is between them."""
    return 0.86 * WIDTH / across


def label_panels(
    panels: Sequence[Axes], across: int, titles: Iterable[str], x: str, y: str
) -> None:
    """Titles of all panels, names at the outer axes."""
    size = 7.5
    letters = int(72 * panel_width(across) / (LETTER * size))
    for i, (axes, title) in enumerate(zip(panels, titles, strict=True)):
        axes.set_title(textwrap.fill(plain(title), letters), fontsize=size, loc="left")
        is_bottom, is_left = i + across >= len(panels), i % across == 0
        axes.set(xlabel=x if is_bottom else "", ylabel=y if is_left else "")


def draw_squares(axes: Axes, values: Any, colors: Any, most: float, **look: Any) -> None:
    """Values from 0 to `most` as squares, the first row on top, no ticks; grey where none is."""
    import seaborn  # slow to import

    axes.set_facecolor(FAINT)
    look |= {"xticklabels": False, "yticklabels": False}  # its own take 4 MB each to place
    seaborn.heatmap(values, cmap=colors, vmin=0, vmax=most, cbar=False, ax=axes, **look)
    axes.tick_params(length=0)


def add_bar(figure: Figure, panels: Sequence[Axes], label: str) -> None:
    """What the colours of the squares in all panels mean."""
    bar = figure.colorbar(panels[0].collections[0], ax=panels, label=label, aspect=30, pad=0.015)
    bar.outline.set_visible(False)


def add_caption(figure: Figure, text: str) -> None:
    """Small print below the plot, which makes the figure higher: what the marks mean, in lines of
    about the same length."""
    num_lines = len(textwrap.wrap(text, CAPTION_WIDTH))
    widths = range(len(text) // num_lines, CAPTION_WIDTH + 1)
    lines = next(t for w in widths if len(t := textwrap.wrap(text, w)) == num_lines)
    figure.set_figheight(figure.get_figheight() + CAPTION_LINE * num_lines)
    figure.supxlabel("\n".join(lines), fontsize=6.5, color=GREY, linespacing=1.35)


def add_watermark(figure: Figure, text: str) -> None:
    """Large pale words across the whole figure, which no crop of a panel leaves out."""
    look: dict[str, Any] = {"color": GREY, "alpha": 0.3, "fontsize": 17, "zorder": 10}
    figure.text(0.5, 0.5, text, ha="center", va="center", rotation=12, **look)


def legend_size(labels: Sequence[str]) -> float:
    """The letter size of a legend, in points."""
    return 6.5 if len(labels) > MANY_LABELS else 7.5


def legend_columns(labels: Sequence[str]) -> int:
    """How many labels stand side by side: as few as give the fewest rows."""
    size = legend_size(labels)

    def fits(columns: int) -> bool:
        longest = sum(max(map(len, labels[i::columns])) for i in range(columns))
        return size * (LETTER * longest + (HANDLE + BETWEEN) * columns) <= 72 * WIDTH

    fitting = [n for n in range(1, min(MOST_COLUMNS, len(labels)) + 1) if n == 1 or fits(n)]
    return min(fitting, key=lambda n: (math.ceil(len(labels) / n), n), default=1)


def add_legend(figure: Figure, handles: Sequence[Artist]) -> None:
    """The labels above the plot, read row by row as in the table."""
    if not handles:
        return
    labels = [str(handle.get_label()) for handle in handles]
    columns = legend_columns(labels)
    # matplotlib fills column by column: deal the handles out so that rows read in order
    ordered = [handle for first in range(columns) for handle in handles[first::columns]]
    figure.legend(
        handles=ordered,
        loc="outside upper left",
        ncols=columns,
        fontsize=legend_size(labels),
        handlelength=3.2,
        handletextpad=HANDLE - 3.2,
        columnspacing=BETWEEN,
        borderaxespad=0.2,
    )


def save(figure: Figure, stem: str | Path, kinds: Sequence[str] = KINDS) -> list[Path]:
    """Write `stem`.png (DPI), .pdf and .svg; the same figure gives the same bytes."""
    stem = Path(stem)
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [check_place(stem.with_name(f"{stem.name}.{kind}")) for kind in kinds]
    for path, data in zip(paths, render(figure, kinds).values(), strict=True):
        path.write_bytes(data)
    return paths


def render(figure: Figure, kinds: Sequence[str] = KINDS) -> dict[str, bytes]:
    """The bytes of the files of a figure, by kind."""
    files = {kind: io.BytesIO() for kind in kinds}
    with apply():
        for text in figure.findobj(Text):
            text.set_text(plain(text.get_text()))  # XML has no control characters
        figure.set_dpi(DPI)  # at which text is as wide as in print; coarser pixels make it narrower
        figure.draw_without_rendering()  # lay out once, not again for every format
        figure.set_layout_engine("none")
        for kind, file in files.items():
            canvas, changing = FORMATS[kind]
            # Not `savefig`, which draws everything twice, the first time to lay it out.
            write = getattr(canvas(figure), f"print_{kind}")
            write(file, metadata=dict.fromkeys(changing))
    return {kind: file.getvalue() for kind, file in files.items()}
