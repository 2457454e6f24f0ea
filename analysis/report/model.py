"""What the report is made of: sections with tables and pictures."""

from dataclasses import dataclass
from pathlib import Path

from analysis.load import Results
from analysis.tables.sweep_tables import Table


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """A figure that was written. svg: the text of its SVG file; files: PNG, PDF and SVG."""

    name: str
    caption: str
    svg: str
    files: tuple[Path, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """One sweep at one scale. table: None if nothing was evaluated yet; comparisons: every
    cell against the reference, None if there is one cell. files: all that was written beside the
    report, pictures too.
    """

    results: Results
    checkpoint: str
    table: Table | None
    comparisons: Table | None
    pictures: tuple[Picture, ...]
    files: tuple[Path, ...]
