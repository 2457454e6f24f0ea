"""Writes the snapshot again: `python -m tests.snapshots [PART...]`, after a difference is meant."""

import sys

from tests.snapshots.write import FOLDER, PARTS

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        texts = dict(PARTS[part]())  # some repeat the commands of the files that are there
        for old in (FOLDER / part).glob("*.txt"):
            old.unlink()
        for name, text in texts.items():
            file = FOLDER / part / f"{name}.txt"
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="\n")
