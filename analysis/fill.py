"""Tables, figures and numbers inside Markdown files, filled in from Parquet.

A block starts with a comment that names its content and ends with another:

    <!-- pcore figure SWEEP SCALE RESULTS NAME FILE -->   the figure NAME, written to FILE.png
    <!-- pcore ranges SWEEP LENGTHS -->                   worst to best run, a line per cell
    <!-- pcore value SWEEP CELL LENGTH WHICH -->          a number: worst, median, best, ends, runs
    <!-- /pcore -->

SWEEP SCALE RESULTS may be SWEEP alone: laptop, results/published/laptop; CELL is quoted if it has
spaces, and may be a pattern; LENGTHS are separated by commas, a pair of them is 20x15. RESULTS is
relative to the working folder, FILE to that of the Markdown file. The text between is replaced.
"""

import re
import shlex
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pandas as pd

from analysis import load
from analysis.figures import style
from analysis.figures.choose import choose_figures
from analysis.load import Results
from analysis.statistics.cells import Place, cells_of, read_place, show_place
from analysis.tables import table

START = re.compile(r"<!-- pcore (?P<words>[^\n]*?) -->\n?")
END = "<!-- /pcore -->"
PUBLISHED = ("laptop", "results/published/laptop")
# How many words a block has after SWEEP SCALE RESULTS.
EXTRA = {"figure": 2, "ranges": 1, "value": 3}
WHICH: dict[str, Callable[[pd.Series], str]] = {
    "worst": lambda shares: table.percent(shares.min()),
    "median": lambda shares: table.percent(shares.median()),
    "best": lambda shares: table.percent(shares.max()),
    "ends": lambda shares: _ends(shares),
    "runs": lambda shares: str(len(shares)),
}


def fill(file: Path, draw: bool = True) -> str:
    """The text of a Markdown file with every block filled in again; figures are written unless
    `draw` is false.

    Raises ValueError for a block that does not end, or that names what does not exist.
    """
    text, parts = file.read_text(encoding="utf-8"), list[str]()
    read = cache(load.load_sweep)  # several blocks of a page show the same sweep
    while start := START.search(text):
        old, end, rest = text[start.end() :].partition(END)
        if not end or START.search(old):
            raise ValueError(f"{file}: no {END} after {start[0].strip()}")
        try:
            filled = _fill_block(shlex.split(start["words"]), file, draw, read)
        except ValueError as error:
            raise ValueError(f"{file}: {start[0].strip()}: {error}") from None
        parts += [text[: start.end()], filled, END]
        text = rest
    if END in text:
        raise ValueError(f"{file}: {END} without a beginning")
    return "".join([*parts, text])


def _fill_block(words: Sequence[str], file: Path, draw: bool, read: Callable[..., Results]) -> str:
    kind, *rest = words or [""]
    if (extra := EXTRA.get(kind)) is None:
        raise ValueError(f"no kind of block {kind!r}; there are {', '.join(EXTRA)}")
    if len(rest) - extra not in (1, 3):
        raise ValueError(f"{kind} has a sweep, a scale and a folder or neither, and {extra} words")
    sweep, *where = rest[:-extra]
    scale, place = where or PUBLISHED
    results, given = read(place, sweep, scale), rest[-extra:]
    match kind:
        case "figure":
            return _figure(results, given[0], given[1], file, draw)
        case "value":
            return _value(results, *given)
        case _:
            return _ranges(results, [read_place(text) for text in given[0].split(",")])


def _value(results: Results, cell: str, place: str, which: str) -> str:
    """One number over the runs of the cells that a pattern names, at a length."""
    cells = load.find_cells(results, cell)
    shares = cells_of(results).runs_at(cells, read_place(place))["exact_match"]
    if shares.empty:
        raise ValueError(f"no runs of {cell!r} at {place}")
    if which not in WHICH:
        raise ValueError(f"{which!r} is none of {', '.join(WHICH)}")
    return WHICH[which](shares)


def _ranges(results: Results, places: Sequence[Place]) -> str:
    """Exact match in % at some lengths, as Markdown: worst to best run of each cell."""
    lines, numbers = list[str](), cells_of(results)
    for cell in results.cells:
        runs = [numbers.runs_at([cell], place)["exact_match"] for place in places]
        shown = [table.DASH if shares.empty else _ends(shares) for shares in runs]
        if set(shown) != {table.DASH}:
            lines.append(f"| {cell} | {' | '.join(shown)} |")
    head = f"| cell | {' | '.join(show_place(*place) for place in places)} |"
    return "\n".join([head, "|:--|" + "--:|" * len(places), *lines, ""])


def _ends(shares: pd.Series) -> str:
    """Worst to best in %, such as 98.1-100; one number if they agree."""
    ends = (table.percent(end).removesuffix(".0") for end in (shares.min(), shares.max()))
    return "–".join(dict.fromkeys(ends))


def _figure(results: Results, name: str, target: str, file: Path, draw: bool) -> str:
    figures = {figure.name: figure for figure in choose_figures(results)}
    if name not in figures:
        existing = ", ".join(figures) or "none"
        raise ValueError(f"{results.sweep} has no figure {name!r}; there: {existing}")
    stem = file.parent / target
    if not stem.resolve().is_relative_to(file.parent.resolve()):
        raise ValueError(f"the figure {target} would be outside of {file.parent}")
    if draw:
        style.save(figures[name].draw(), stem, kinds=("png",))
    return f"![{results.title}]({target}.png)\n\n*{figures[name].caption}*\n"
