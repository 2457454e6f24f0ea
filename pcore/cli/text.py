"""Text for terminals: aligned columns, durations and counts."""

from collections.abc import Sequence


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


def format_seconds(seconds: float) -> str:
    """ "45 s", "3 min 20 s", "2 h 05 min"."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def plural(number: int, thing: str) -> str:
    """ "1 trial", "2 trials", "1,000 trials"."""
    return f"{number:,} {thing}" + ("" if number == 1 else "s")
