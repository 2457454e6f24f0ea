"""The first screen of report and page: its headline, and the verdicts shown whole or folded."""

import dataclasses
import re
from pathlib import Path
from typing import Any

from analysis.findings import Verdict, VerdictRow
from analysis.load import load_sweep
from analysis.report import markup
from analysis.report import page as report
from analysis.report.browse.links import Links
from analysis.report.browse.write import write_page
from analysis.report.first import Candidate, choose_headline, show_headline, show_verdicts
from analysis.report.write import make_tables
from sweeps.engine.store.store import Store
from tests.analysis.report.test_report import VERDICTS, Reader

PUBLISHED = Path(__file__).parents[3] / "results" / "published" / "laptop"
FURTHEST = Candidate(
    title="Twelve digits",
    scale="paper",
    cell="rows of 128",
    task="addition",
    l95=10_000,
    is_longest=True,
    worst=0.85,
    reach=10_000 / 12,
    trained=(1, 12),
    n=8,
    constructed=False,
)


def judged(verdict: Verdict, count: int = 1, scale: str = "laptop") -> list[VerdictRow]:
    """Claims with this verdict, named by it."""
    row = dataclasses.replace(VERDICTS[0], verdict=verdict, scale=scale)
    return [dataclasses.replace(row, finding=f"{verdict} {number}") for number in range(count)]


def claims_by_fold(rows: list[VerdictRow]) -> dict[str, list[str]]:
    """The claims shown whole (""), and those behind each summary."""
    text = show_verdicts(rows, lambda row: markup.element("i", row.finding))
    folds = dict[str, list[str]]()
    for part in re.split(r"(?=<details>)|</details>", text):
        name = re.search("<summary>(.*?)</summary>", part)
        folds.setdefault(name[1] if name else "", []).extend(re.findall("<i>(.*?)</i>", part))
    return folds


def test_the_first_verdicts_are_shown_whole_and_what_speaks_against_a_claim_before_all():
    rows = judged("holds", 5) + judged("not separated", 4) + judged("reproduced", 1, "any")
    rows += judged("reversed") + judged("undecided", 2)
    assert claims_by_fold(rows) == {
        "": ["reversed 0", "reproduced 0", "holds 0", "not separated 0", "not separated 1"],
        "4 more decided": ["holds 1", "holds 2", "holds 3", "holds 4"],
        "2 more not separated": ["not separated 2", "not separated 3"],
        "2 other claims": ["undecided 0", "undecided 1"],
    }
    assert list(claims_by_fold(judged("holds", 3))) == [""]  # nothing to fold


def test_the_verdicts_begin_with_how_many_claims_are_decided():
    def said(rows: list[VerdictRow]) -> str:
        return Reader(show_verdicts(rows, lambda row: markup.element("i", row.finding))).all("p")[0]

    rows = judged("holds", 2) + judged("reproduced", 1, "any") + judged("not separated", 2)
    rows += judged("not run at paper scale", 3, "") + judged("not run", 1, "")
    assert said(rows) == (
        "3 of 9 claims decided: 2 at laptop scale, 1 at any scale. "
        "The others: 3 need paper scale, 2 not separated, 1 not run."
    )
    assert said(judged("not run at paper scale")) == (
        "0 of 1 claim decided. The others: 1 needs paper scale."
    )
    assert said(judged("holds")) == "1 of 1 claim decided: 1 at laptop scale."


def test_the_headline_says_the_task_how_far_and_the_worst_run():
    def said(**changed: Any) -> str:
        chosen = dataclasses.replace(FURTHEST, **changed)
        return Reader(show_headline(chosen)).all("p")[0]

    assert said() == (
        "rows of 128 (addition): median exact match above 95 % up to length 10,000, the longest "
        "tested, 833x the longest of the trained lengths 1–12; worst of n = 8 runs at that "
        "length: 85.0 %."
    )
    assert said(title="Addition: rows").startswith("rows of 128: median")
    assert "up to length 18, 1.5x the longest" in said(l95=18, is_longest=False, reach=1.5)
    assert said(n=1, worst=1).endswith("1–12; n = 1 run: 100.0 %.")


def test_report_and_page_say_the_same_headline(tmp_path: Path):
    """With the worst run of the rows, in a sweep where it is worse than the median."""
    out, sweep = tmp_path / "page.html", "ten_thousand_digits"
    nowhere = Links(results="results", report="", sections=())
    write_page(Store(PUBLISHED), [(sweep, "laptop")], "last", nowhere, out)
    results = load_sweep(PUBLISHED, sweep, "laptop")
    section, _ = make_tables(results, tmp_path / "tables")
    texts = [report.show_report([section], [], out), out.read_text(encoding="utf-8")]
    (first, second) = (Reader(text.partition("<script")[0] + "</body></html>") for text in texts)
    sentence = next(text for text in first.all("p") if "median exact match above" in text)
    assert sentence in second.all("p")
    (furthest, *_) = results.cells
    rows = results.evaluation[results.evaluation["cell"] == furthest]
    at_end = rows[rows["length"] == rows["length"].max()]
    worst = (at_end["num_correct"] / at_end["num_examples"]).min()
    assert worst < 0.95
    assert f"worst of n = 8 runs at that length: {100 * worst:.1f} %." in sentence
    assert sentence.startswith(f"{furthest} (addition): ")


def test_the_headline_is_the_trained_cell_that_reaches_furthest():
    low = dataclasses.replace(FURTHEST, scale="laptop", reach=2.0, n=3)
    far = dataclasses.replace(low, reach=5.0)
    others = [
        dataclasses.replace(far, constructed=True, reach=9.0),
        dataclasses.replace(far, scale="smoke", reach=9.0),
        dataclasses.replace(far, reach=None),
        dataclasses.replace(far, n=2),
    ]
    assert choose_headline([low, *others, far]) == 5
    assert choose_headline([others[1]]) == 0
    assert choose_headline(others[:1]) is None
