"""Writes the snapshot again: `python -m tests.snapshots [PART...]`, after a difference is meant."""

import sys

from tests.snapshots.write import FOLDER, PARTS

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        for old in (FOLDER / part).glob("*.txt"):
            old.unlink()
        for name, text in PARTS[part]():
            file = FOLDER / part / f"{name}.txt"
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="\n")
