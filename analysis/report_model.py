"""What the report is made of: lines of the summary, and sections with tables and pictures."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from analysis.load import Results
from analysis.tables import Table

Word = Literal[
    "reproduced",
    "ordering holds",
    "not reproduced",
    "ordering does not hold",
    "not enough seeds",
    "undecided",
    "not run at paper scale",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class VerdictRow:
    """A published claim and what we can say about it.

    published: its value in words; certainty: how sure that value is (paper, abstract, secondary);
    source: where it stands. ours: our numbers, "" if there are none; scale: of the rows that
    decided. rule: in words. sweep: whose section shows the rows; n: runs of its smallest cell.
    """

    claim: str
    published: str
    ours: str
    scale: str
    verdict: Word
    certainty: str
    rule: str
    source: str = ""
    sweep: str = ""
    n: int = 0
    remark: str = ""


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
