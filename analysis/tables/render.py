"""A `Table` as terminal text, Markdown, LaTeX or CSV, with its notes.

CSV: the numbers with full precision, then the notes as lines that start with "# "
(read it with `pandas.read_csv(path, comment="#")`, or cut at the first such line).
"""

import csv
import re
import textwrap

import pandas as pd

from analysis.tables.table import Table, TableCell
from pcore.cli.text import align

WIDTH = 120  # columns of a terminal
LEAST_LABEL_WIDTH = 12
GAP = "  "
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what spreadsheets take for the start of one
LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "[": "{[}",  # `\\` followed by "[" would be read as its option
    "–": "--",
    "−": r"$-$",
    "≥": r"$\geq$",
    "†": r"\dag{}",
    "≤": r"$\leq$",
    "×": r"$\times$",
    "…": r"\ldots{}",
}


def render_files(table: Table, stem: str) -> dict[str, str]:
    """The table in every format that is written to a file, by the name of the file."""
    kinds = {"md": render_markdown, "tex": render_latex, "csv": render_csv}
    return {f"{stem}.{kind}": render(table) for kind, render in kinds.items()}


def render_text(table: Table) -> str:
    """For a terminal: aligned columns, intervals on a second line, at most 120 columns wide."""
    rows = (table.header, *table.rows)
    others = [max(len(text) for row in rows for text in row[i]) for i in range(1, len(rows[0]))]
    room = WIDTH - sum(others) - len(GAP) * len(others)
    lines = [line for row in rows for line in _stack(row, max(LEAST_LABEL_WIDTH, room))]
    printed = align(lines)
    rule = "─" * max(map(len, printed))
    head = len(_stack(table.header, WIDTH))
    notes = [
        part
        for note in table.notes
        for part in textwrap.wrap(note, WIDTH - 2, initial_indent="  ", subsequent_indent="    ")
    ]
    return "\n".join(
        [one_line(table.title), rule, *printed[:head], rule, *printed[head:], rule, *notes, ""]
    )


def _stack(row: tuple[TableCell, ...], label_width: int) -> list[list[str]]:
    """The printed lines of a row: values, details, and the rest of a long label."""
    label = textwrap.wrap(row[0].text, label_width) or [""]
    rest = [[field.text for field in row[1:]], [field.detail for field in row[1:]]]
    height = max(len(label), 2 if any(rest[1]) else 1)
    empty = [""] * len(rest[0])
    label += [""] * (height - len(label))
    rest += [empty] * (height - len(rest))
    return [[name, *values] for name, values in zip(label, rest[:height], strict=True)]


def render_markdown(table: Table) -> str:
    """A Markdown table with the notes as a list."""

    def line(row: tuple[TableCell, ...]) -> str:
        fields = [escape_markdown(" ".join(filter(None, f))).replace("|", r"\|") for f in row]
        return f"| {' | '.join(fields)} |"

    rule = "|" + "|".join([":--", *["--:"] * (len(table.header) - 1)]) + "|"
    rows = [line(table.header), rule, *map(line, table.rows)]
    return "\n".join(
        [
            f"**{escape_markdown(table.title)}**",
            "",
            *rows,
            "",
            *(f"- {escape_markdown(note)}" for note in table.notes),
            "",
        ]
    )


def escape_markdown(text: str) -> str:
    """Text on one line that Markdown shows and does not obey: no tags, entities, links, images."""
    text = re.sub(r"&(?=#?\w+;)", "&amp;", one_line(text))
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text).replace("](", r"]\(")


def render_latex(table: Table) -> str:
    """A tabular with booktabs rules, details in small print, and the notes as plain lines below."""

    def lines(row: tuple[TableCell, ...]) -> list[str]:
        first = " & ".join(escape_latex(field.text) for field in row) + r" \\"
        if not any(field.detail for field in row):
            return [first]
        small = [rf"{{\scriptsize {escape_latex(e.detail)}}}" if e.detail else "" for e in row]
        return [first[:-3] + r" \\[-2pt]", " & ".join(small) + r" \\"]

    columns = "l" + "r" * (len(table.header) - 1)
    body = [line for row in table.rows for line in lines(row)]
    return "\n".join(
        [
            f"% {one_line(table.title)}; needs \\usepackage{{booktabs}}",
            rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}",
            r"\toprule",
            *lines(table.header),
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            "",
            r"{\footnotesize\raggedright",
            *(escape_latex(note) + r"\par" for note in table.notes),
            "}",
            "",
        ]
    )


def escape_latex(text: str) -> str:
    """Text that LaTeX prints unchanged, on one line."""
    return "".join(LATEX.get(character, character) for character in one_line(text))


def one_line(text: str) -> str:
    """Text of a label, title or note without line breaks: they end a comment or a row."""
    return " ".join(text.splitlines())


def render_csv(table: Table) -> str:
    """Numbers with full precision, then the notes; see the module."""
    notes = "".join(f"# {one_line(note)}\n" for note in table.notes)
    return frame_csv(table.numbers) + notes


def frame_csv(frame: pd.DataFrame) -> str:
    """A frame as CSV: text quoted, numbers as they are, empty where nothing was measured.

    Before text that a spreadsheet would compute (`=HYPERLINK(...)`) stands an apostrophe.
    """
    for name in frame.select_dtypes(include=["object", "str"]).columns:
        values = frame[name].unique()
        computed = [v for v in values if isinstance(v, str) and v.startswith(FORMULA)]
        if computed:
            inert = frame[name].replace(computed, [f"'{text}" for text in computed])
            frame = frame.assign(**{name: inert})
    return frame.to_csv(index=False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
