"""Exact match against length in the terminal: one row per length, one column of bars per cell."""

import textwrap

from analysis.load import Results
from analysis.statistics import runs as statistics
from analysis.tables.render import WIDTH
from analysis.tables.sweep_tables import percent

BLOCKS = " ▏▎▍▌▋▊▉█"
BAR_WIDTH = 8
COLUMN_WIDTH = 16


def draw_bar(fraction: float, width: int = BAR_WIDTH) -> str:
    """A fraction in [0, 1] as a bar, in eighths of a character; any success shows."""
    eighths = round(fraction * width * 8)
    eighths = max(eighths, 1) if fraction > 0 else 0
    full, rest = divmod(eighths, 8)
    return ("█" * full + (BLOCKS[rest] if rest else "")).ljust(width)


def draw_curves(results: Results) -> str:
    """Median exact match (%) of every cell at every length, as text at most 120 columns wide."""
    evaluation = results.evaluation
    curves = statistics.cell_curves(evaluation)
    ranges = evaluation.groupby("length")["range"].agg(lambda names: "/".join(names.unique()))
    left = max(map(len, ranges)) + 7
    per_block = max(1, (WIDTH - left) // COLUMN_WIDTH)
    cells = [cell for cell in results.cells if (curves["cell"] == cell).any()]
    lines = [f"exact match (%), median over runs; checkpoint: {results.checkpoint}"]
    for first in range(0, len(cells), per_block):
        block = cells[first : first + per_block]
        median = curves[curves["cell"].isin(block)].set_index(["length", "cell"])["median"]
        lines += ["", *_head(block, left)]
        for length in sorted(median.index.get_level_values("length").unique()):
            bars = [_field(median.get((length, cell))) for cell in block]
            lines.append(f"{ranges[length]:<{left - 7}} {length:>5} {''.join(bars)}".rstrip())
    return "\n".join(lines) + "\n"


def _head(cells: list[str], left: int) -> list[str]:
    """Labels over their columns, on as many lines as the longest needs."""
    parts = [textwrap.wrap(cell, COLUMN_WIDTH - 2) for cell in cells]
    height = max(map(len, parts))
    rows = [[""] * (height - len(part)) + part for part in parts]
    return [
        " " * left + "".join(row[i].ljust(COLUMN_WIDTH) for row in rows).rstrip()
        for i in range(height)
    ]


def _field(fraction: float | None) -> str:
    if fraction is None:
        return " " * COLUMN_WIDTH
    return f"{draw_bar(fraction)} {percent(fraction):>5}  "
