"""What the report is made of: sections with tables and figures."""

from dataclasses import dataclass
from pathlib import Path

from analysis.load import Results
from analysis.tables.sweep_tables import Table


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedFigure:
    """A figure that was written."""

    name: str  # of its files, without the extension
    caption: str
    svg: str  # the text of the SVG file
    files: dict[Path, str]  # PNG, PDF and SVG with their hashes


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """One sweep at one scale."""

    results: Results
    table: Table | None  # None if nothing was evaluated yet
    comparisons: Table | None  # every cell against the first; None if there is only one
    figures: tuple[SavedFigure, ...]
    # all that was written next to the report, figures too, with the hash of each
    files: dict[Path, str]
