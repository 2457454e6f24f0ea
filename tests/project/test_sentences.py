"""Every sentence with a result is what the published rows say; none escapes."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.project import sentences
from tests.project.sentences import OTHER_PAGES, RESULTS, WITHOUT_ROWS

ROOT = Path(__file__).parents[2]
FILLED = re.compile(r"<!-- pcore .*?<!-- /pcore -->", flags=re.DOTALL)
CODE = re.compile(r"^```.*?^```|^    .*?$|^\|.*?$", flags=re.DOTALL | re.MULTILINE)
SHARE = re.compile(r"\d ?%")
CHECKS = [(page, check) for page, checks in RESULTS.items() for check in checks]
PAGES = sorted({"README.md", *(f"docs/{file.name}" for file in (ROOT / "docs").glob("*.md"))})


def flow(text: str) -> str:
    """The text on one line: where lines break says nothing."""
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("page", "check"), CHECKS, ids=lambda value: getattr(value, "__name__", value)
)
def test_a_sentence_says_what_the_rows_say(page, check):
    text = flow((ROOT / page).read_text())
    for passage in check():
        assert passage in text


@pytest.mark.parametrize("page", [page for page in PAGES if page not in OTHER_PAGES])
def test_no_share_in_prose_is_unchecked(page):
    text = flow(CODE.sub("", FILLED.sub("", (ROOT / page).read_text())))
    passages = [passage for check in RESULTS.get(page, ()) for passage in check()]
    for passage in [*passages, *WITHOUT_ROWS.get(page, {})]:
        text = text.replace(passage, "")
    found = [text[max(0, m.start() - 60) : m.end()] for m in SHARE.finditer(text)]
    assert not found, "add its sentence to tests/project/sentences.py, or say it without a number"


def test_exempt_passages_stand_on_their_pages():
    for page, passages in WITHOUT_ROWS.items():
        text = flow((ROOT / page).read_text())
        assert [passage for passage in passages if passage not in text] == []


def test_a_planted_wrong_number_in_prose_is_found():
    text = flow((ROOT / "README.md").read_text())
    (passage,) = sentences.depth_at_24()
    planted = text.replace(passage, passage.replace("52 and 100", "62 and 100"))
    assert planted != text
    assert passage not in planted


def test_a_planted_wrong_row_is_found(monkeypatch):
    """Every run with coupled IDs a little worse than published."""
    results = sentences.load("depth_ablation")
    worse = results.evaluation.assign(exact_match=0.95 * results.evaluation["exact_match"])
    monkeypatch.setattr(sentences, "load", lambda *_: replace(results, evaluation=worse))
    text = flow((ROOT / "README.md").read_text())
    (passage,) = sentences.depth_at_24()
    assert passage not in text
