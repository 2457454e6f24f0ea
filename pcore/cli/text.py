"""Text for terminals: what is safe to print, aligned columns, durations and counts."""

import re
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO

OWN_LINE = re.compile(r"\r(\x1b\[2K)?")  # begins a progress line: back to the start, erase
# What a terminal obeys, and what turns the direction of writing.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """The text with control characters, but tabs and ends of lines, written out: \\u001b."""
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


@contextmanager
def plain_output() -> Generator[None]:
    """While it lasts, nothing printed can command the terminal, or fail for a character that it
    lacks: labels, hosts and errors in rows are other people's text.
    """
    with redirect_stdout(_Plain(sys.stdout)), redirect_stderr(_Plain(sys.stderr)):
        yield


class _Plain:
    """A stream that writes plain text."""

    def __init__(self, stream: TextIO):
        self.stream = stream

    def write(self, text: str) -> int:
        start = found[0] if (found := OWN_LINE.match(text)) else ""
        shown, coding = start + plain(text[len(start) :]), self.stream.encoding or "utf-8"
        self.stream.write(shown.encode(coding, "backslashreplace").decode(coding))
        self.stream.flush()  # a closed pipe is an error here, not at the end of the process
        return len(text)

    def flush(self) -> None:
        self.stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def align(
    rows: Sequence[Sequence[str]], sides: str = "<>", *, gap: str = "  ", indent: str = ""
) -> list[str]:
    """Rows as lines of aligned columns.

    sides: "<" or ">" for each column; the last one holds for all further columns.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = sides.ljust(len(widths), sides[-1])
    lines = (
        gap.join(f"{text:{side}{width}}" for text, side, width in zip(*columns, strict=True))
        for columns in ((row, sides, widths) for row in rows)
    )
    return [f"{indent}{line}".rstrip() for line in lines]


def align_labelled(rows: Sequence[tuple[str, list[str]]], width: int | None = None) -> str:
    """Labelled rows of equally many cells, in blocks at most `width` wide (None = one block)."""
    room = (width or sys.maxsize) - max(len(label) for label, _ in rows) - 1
    blocks, used = [list[int]()], 0
    for column, cells in enumerate(zip(*(cells for _, cells in rows), strict=True)):
        wide = 1 + max(map(len, cells))
        if blocks[-1] and used + wide > room:
            blocks, used = [*blocks, []], 0
        blocks[-1].append(column)
        used += wide
    tables = ([[f"{label} ", *(cells[i] for i in b)] for label, cells in rows] for b in blocks)
    return "\n\n".join("\n".join(align(table, gap=" ")) for table in tables)


def format_seconds(seconds: float) -> str:
    """ "45 s", "3 min 20 s", "2 h 05 min"."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def plural(number: int, thing: str) -> str:
    """ "1 trial", "2 trials", "1,000 trials"."""
    return f"{number:,} {thing}" + ("" if number == 1 else "s")
