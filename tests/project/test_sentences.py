"""Every sentence with a result is what the published rows say; none escapes."""

from dataclasses import replace

import pytest

from tests.project.derived import front_page, rows
from tests.project.sentences import (
    OTHER_PAGES,
    RESULTS,
    ROOT,
    WITHOUT_ROWS,
    flow,
    missing,
    said,
    unchecked,
)

CHECKS = [(page, check) for page, checks in RESULTS.items() for check in checks]
PAGES = sorted({"README.md", *(f"docs/{file.name}" for file in (ROOT / "docs").glob("*.md"))})
THOUSAND = "docs/thousand_digits.md"
WITHOUT_SCORES = {  # they follow from settings, other records, theory, or differences of scores
    *("published_claim", "quick_start", "no_paper_scale", "fewest_runs", "the_core_set"),
    *("patterns", "patterns_of_heads", "one_setting_for_all", "one_setting_on_the_other_page"),
    *("first_probe", "a_thousand_digits_by_hand", "sizes", "theory_limits", "ceilings"),
    *("the_candidates", "the_example", "selection", "the_packed_recipe", "the_older_recipe"),
    "the_uncoupled",
    *("rings", "packed_rows", "attention_and_decay", "six_rings", "other_seeds_and_rounding"),
    *("core_and_probes", "beyond", "tuned_arms", "arms_that_were_not_run"),
}
PLANTED = [  # page, what it says, what rows do not say
    ("README.md", "has packed rows too", "has rings too"),
    ("README.md", "all eight runs are right", "seven of eight runs are right"),
    ("README.md", "all four runs get at least", "three of four runs get at least"),
    ("README.md", "and none with a learned table", "and one with a learned table"),
    ("README.md", "tests them on up to 96", "tests them on up to 128"),
    ("README.md", "Nothing has been run at `paper` scale", "Much has been run at `paper` scale"),
    ("README.md", "The sweep takes six to seven minutes", "The sweep takes two to three minutes"),
    ("README.md", "fewer than four runs of a trained", "fewer than three runs of a trained"),
    ("docs/results.md", "two model seeds and two data", "three model seeds and two data"),
    ("docs/results.md", "One head does not fit", "One head fits"),
    ("docs/results.md", "which no other sweep has", "which other sweeps have"),
    ("docs/results.md", "row single runs do not", "row single runs do"),
    ("docs/results.md", "train 5 99.8", "train 5 89.8"),
    ("docs/results.md", "54.7 -45.1", "64.7 -35.1"),
    ("docs/results.md", "gives the same verdict", "gives another verdict"),
    ("docs/results.md", "Under the same rounding a rerun", "Under any rounding a rerun"),
    ("docs/results.md", "do replicate** (", "hardly replicate** ("),
    ("docs/results.md", "a single head divides", "a single head holds"),
    ("docs/results.md", "the models barely fit", "the models fit well"),
    ("docs/results.md", "one head cannot hold both", "one head can hold both"),
    (
        "docs/results.md",
        "entmax, stick-breaking or the loop none",
        "stick-breaking or the loop none",
    ),
    ("docs/results.md", "All runs with a sink and with", "All runs with a scale and with"),
    ("docs/results.md", "With coupling, no arm", "With coupling, one arm"),
    ("docs/results.md", "two arms lay below", "three arms lay below"),
    ("docs/results.md", "None replaces position", "Contextual positions replace position"),
    (THOUSAND, "All eight runs are right on", "Seven of eight runs are right on"),
    (THOUSAND, "is 6.67 times the", "is 7.67 times the"),
    (THOUSAND, "each of five small", "each of six small"),
    (THOUSAND, "distinct up to their product, 45,045", "distinct up to their product, 45,055"),
    (THOUSAND, "at least 3,465", "at least 3,565"),
    (THOUSAND, "over the 4,000 steps", "over the 2,000 steps"),
    (THOUSAND, "Each step has 64 problems", "Each step has 32 problems"),
    (THOUSAND, "200 examples at 1,000 digits, 66", "300 examples at 1,000 digits, 66"),
    (THOUSAND, "| 303, 300 | 100 |", "| 303, 301 | 100 |"),
    (THOUSAND, "| 401, 400 | 100.0 |", "| 401, 401 | 100.0 |"),
    (THOUSAND, "a median of 99 % at 1,000", "a median of 98 % at 1,000"),
    (THOUSAND, "wrote 100 of 100 sums of 500", "wrote 99 of 100 sums of 500"),
    (THOUSAND, "A learned table has 202 rows", "A learned table has 302 rows"),
    (THOUSAND, "at most 8 problems per row", "at most 16 problems per row"),
    (THOUSAND, "Alone they are worse than a table", "Alone they are better than a table"),
    (THOUSAND, "but their 45 rows", "but their 50 rows"),
    (THOUSAND, "alone, all four runs get 1.8", "alone, three runs get 1.8"),
    (THOUSAND, "help beyond 700 digits", "help beyond 300 digits"),
    (THOUSAND, "packed or not** (three layers", "packed or not** (two layers"),
    (THOUSAND, "one run of NoPE did not fit", "no run of NoPE did not fit"),
    (THOUSAND, "RoPE nothing from 13 on. With", "RoPE nothing from 14 on. With"),
    (THOUSAND, "but only two of four go on", "but only three of four go on"),
    (THOUSAND, "**Three digits are enough", "**Two digits are enough"),
    (THOUSAND, "with 40 examples at 5,000", "with 50 examples at 5,000"),
    (THOUSAND, "missed three digits in four sums", "missed two digits in four sums"),
    (THOUSAND, "Seven of eight runs are right", "All eight runs are right"),
    (THOUSAND, "126, 145 and 157 of 160", "126, 154 and 157 of 160"),
    (THOUSAND, "of the seeds 410 and 411, 68", "of the seeds 410 and 411, 78"),
    (THOUSAND, "right in all four runs", "right in two runs"),
    (THOUSAND, "half the steps (2,000)", "half the steps (3,000)"),
    (THOUSAND, "all five prototype runs fitted", "four prototype runs fitted"),
    (
        "docs/found_coupling.md",
        "The learned mixtures fit both tasks",
        "The learned mixtures fit addition",
    ),
    ("docs/found_coupling.md", "This costs five runs", "This costs four runs"),
    ("docs/laptop_recipe.md", "wrapped start) of 28 positions", "wrapped start) of 32 positions"),
    ("docs/laptop_recipe.md", "2,000 steps, learning", "3,000 steps, learning"),
    ("docs/models.md", "48,404 parameters", "48,440 parameters"),
    ("docs/models.md", "99.7 % of 989 failures", "97.7 % of 989 failures"),
    ("results/published/README.md", "76 of 76 trials", "72 of 76 trials"),
    ("docs/theory.md", "12,048 126", "12,084 126"),
    ("docs/theory.md", "0.945 % 765,139", "0.954 % 765,139"),
]


@pytest.mark.parametrize(
    ("page", "check"), CHECKS, ids=lambda value: getattr(value, "__name__", value)
)
def test_a_sentence_says_what_the_rows_say(page, check):
    text = flow((ROOT / page).read_text())
    for passage in said(check):
        assert passage in text


@pytest.mark.parametrize("page", [page for page in PAGES if page not in OTHER_PAGES])
def test_no_claim_in_prose_is_unchecked(page):
    found = unchecked(page, (ROOT / page).read_text())
    assert not found, "derive its sentence in tests/project/derived, or say it without a number"


@pytest.mark.parametrize("page", WITHOUT_ROWS)
def test_exempt_passages_stand_on_their_pages(page):
    text = flow((ROOT / page).read_text())
    assert [passage for passage in WITHOUT_ROWS[page] if passage not in text] == []


@pytest.mark.parametrize(("page", "right", "wrong"), PLANTED)
def test_a_planted_wrong_word_or_number_is_found(page, right, wrong):
    text = flow((ROOT / page).read_text())
    assert right in text
    assert missing(page, text.replace(right, wrong))


@pytest.mark.parametrize(
    "added",
    [
        "No run with rings fails.",
        "It fits 3 of 4 tasks.",
        "All arms are alike.",
        "It gets 12 % right.",
        "Both models fit after 500 steps.",
        "- **Rings are all that matters.** They are.",
        "| 304, 300 | 100 | 100 |",
    ],
)
def test_an_added_claim_is_found(added):
    text = (ROOT / THOUSAND).read_text()
    assert not unchecked(THOUSAND, text)
    assert unchecked(THOUSAND, f"{text}\n\n{added}\n")


@pytest.mark.parametrize(
    ("page", "check"),
    [(page, check) for page, check in CHECKS if check.__name__ not in WITHOUT_SCORES],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_other_scores_would_be_noticed(page, check, monkeypatch):
    """All scores of all sweeps nearer to one half."""
    real = rows.load

    def other(*names):
        scores = real(*names).evaluation
        changed = scores.assign(exact_match=0.05 + 0.9 * scores["exact_match"])
        return replace(real(*names), evaluation=changed)

    monkeypatch.setattr(rows, "load", other)
    text = flow((ROOT / page).read_text())
    try:
        passages = check()
    except (AssertionError, ValueError):  # what it says in words, or how many runs it names
        return
    assert [passage for passage in passages if passage not in text]


def test_a_planted_wrong_row_is_found(monkeypatch):
    """Every run with coupled IDs a little worse than published."""
    results = rows.load("depth_ablation")
    worse = results.evaluation.assign(exact_match=0.95 * results.evaluation["exact_match"])
    monkeypatch.setattr(rows, "load", lambda *_: replace(results, evaluation=worse))
    text = flow((ROOT / "README.md").read_text())
    (passage,) = front_page.depth_at_200()
    assert passage not in text
