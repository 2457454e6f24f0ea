"""Where the page is, and what it leads to."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

Block: TypeAlias = dict[str, Any]  # a sweep as `analysis.report.browse.blocks` makes it
SECTION = re.compile(r'<section id="([A-Za-z0-9_-]+)">')  # of a report


@dataclass(frozen=True, kw_only=True, slots=True)
class Links:
    """What the page leads to. results: the folder, as commands name it."""

    results: str
    report: str  # its link; "" if there is no report
    sections: tuple[str, ...]  # anchors that the report has


def find_links(results: str, folders: Sequence[Path], out: Path) -> Links:
    """What a page leads to: the first report there is in these folders, and its sections."""
    for folder in folders:
        report = folder / "report.html"
        if report.is_file():
            sections = sorted(set(SECTION.findall(report.read_text(encoding="utf-8"))))
            link = Path(os.path.relpath(report.absolute(), out.absolute().parent)).as_posix()
            return Links(results=results, report=quote(link), sections=tuple(sections))
    return Links(results=results, report="", sections=())
