"""The published store says what it said when tests/snapshots was last written.

The commit that means a difference writes the snapshot again (`python -m tests.snapshots`) and gives
its reason; anything else is a mistake.
"""

import pytest

from tests.snapshots.write import FOLDER, PARTS

SLOW = ("tables", "figures", "rows", "verdicts")
MARKS = {part: (pytest.mark.slow, pytest.mark.timeout(900)) for part in SLOW}  # all of the store


@pytest.mark.parametrize("part", [pytest.param(p, marks=MARKS.get(p, ())) for p in PARTS])
def test_the_published_store_says_what_it_said(part: str):
    kept = {file.stem: file.read_text(encoding="utf-8") for file in (FOLDER / part).glob("*.txt")}
    now = dict(PARTS[part]())
    assert sorted(now) == sorted(kept)
    for name, text in now.items():
        assert text.splitlines() == kept[name].splitlines(), f"{part}/{name}.txt"


@pytest.mark.parametrize(("program", "number"), [("analysis", 30), ("pcore", 100), ("sweeps", 60)])
def test_a_refusal_is_one_sentence(program: str, number: int):
    text = (FOLDER / "refusals" / f"{program}.txt").read_text(encoding="utf-8")
    answers = [answer.splitlines() for answer in text.split("\n\n$ ") if "usage:" not in answer]
    assert len(answers) > number
    assert [lines[2:] for lines in answers] == [["exit 2"]] * len(answers)
