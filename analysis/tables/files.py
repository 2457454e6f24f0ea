"""Writes tables, figures and reports to plain files, never through a link."""

from pathlib import Path


def check_place(path: Path) -> Path:
    """Return the path; raise ValueError if it is a link."""
    if path.is_symlink():
        raise ValueError(f"{path} is a link, which is not followed; remove it")
    return path


def write_text(path: Path, text: str) -> None:
    """Write a text file, as UTF-8 and with the same line ends everywhere."""
    check_place(path).write_text(text, encoding="utf-8", newline="\n")
