"""Tables and figures inside Markdown files, filled in from Parquet.

A block starts with a comment that names its content and ends with another:

    <!-- pcore table SWEEP SCALE RESULTS -->              the table with its notes
    <!-- pcore selection SWEEP SCALE RESULTS -->          candidates and their near scores
    <!-- pcore figure SWEEP SCALE RESULTS NAME FILE -->   the figure NAME, written to FILE.png
    <!-- /pcore -->

RESULTS is relative to the working folder, FILE to the folder of the Markdown file. The text between
the two comments is replaced, so that no number is typed by hand.
"""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from analysis import load
from analysis.figures import style
from analysis.figures.choose import draw_figures
from analysis.load import Results
from analysis.tables import render, selection
from analysis.tables import sweep_tables as tables
from sweeps.engine.store.store import Store

START = re.compile(r"<!-- pcore (?P<words>[^\n]*?) -->\n")
END = "<!-- /pcore -->"


def fill(file: Path, draw: bool = True) -> str:
    """The text of a Markdown file with every block filled in again; figures are written unless
    `draw` is false.

    Raises ValueError for a block that does not end, or that names what does not exist.
    """
    text, parts, read = file.read_text(encoding="utf-8"), list[str](), _read_once()
    while start := START.search(text):
        _, end, rest = text[start.end() :].partition(END)
        if not end:
            raise ValueError(f"{file}: no {END} after {start[0].strip()}")
        words = start["words"].split()
        parts += [text[: start.end()], _fill_block(words, file, draw, read), END]
        text = rest
    return "".join([*parts, text])


def _read_once() -> Callable[[str, str, str], Results]:
    """Reads a sweep, named as in a block; several blocks of a page show the same one."""
    open_once = cache(Store)

    @cache
    def read(sweep: str, scale: str, place: str) -> Results:
        return load.load_sweep(open_once(place), sweep, scale)

    return read


def _fill_block(
    words: list[str], file: Path, draw: bool, read: Callable[[str, str, str], Results]
) -> str:
    kind, *names = words
    if (kind, len(names)) not in (("table", 3), ("selection", 3), ("figure", 5)):
        raise ValueError(
            f"{file}: <!-- pcore {' '.join(words)} --> is neither table, selection nor figure"
        )
    results = read(*names[:3])
    if kind == "table":
        return render.render_markdown(tables.ablation_table(results))
    if kind == "selection":
        return render.render_markdown(selection.selection_table(results))
    others = list[str]()
    for drawn in draw_figures(results):  # no further than to the one that is asked for
        if drawn.name == names[3]:
            break
        others.append(drawn.name)
    else:
        existing = ", ".join(others) or "none"
        raise ValueError(f"{file}: {names[0]} has no figure {names[3]!r}; there: {existing}")
    stem = file.parent / names[4]
    if not stem.resolve().is_relative_to(file.parent.resolve()):
        raise ValueError(f"{file}: the figure {names[4]} would be outside of {file.parent}")
    if draw:
        style.save(drawn.figure, stem, kinds=("png",))
    title = results.title if results.title.endswith(("?", "!", ".")) else f"{results.title}."
    return f"![{results.title}]({names[4]}.png)\n\n*{title} {drawn.caption}*\n"
