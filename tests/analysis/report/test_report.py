"""The report as a page: sound HTML, no dead links, nothing unescaped; in a browser too."""

import dataclasses
import json
import re
from functools import lru_cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from analysis.findings import VerdictRow
from analysis.load import Results, load_sweep
from analysis.report import markup
from analysis.report import page as report
from analysis.report.samples import pick_samples
from analysis.report.write import write_section
from analysis.statistics import comparisons
from analysis.tables.comparison_table import p_value, points
from sweeps.engine.store.store import Store
from tests.support.browser import BROWSER, Page
from tests.support.rows import analysis_examples as examples
from tests.support.rows.example_store import example, make_config, view_rows, write_trial

PUBLISHED = Path(__file__).parents[3] / "results" / "published" / "laptop"
RIGHT = ("12+34=", "046", "046", True)
WRONG = ("<b>&1+34=", "04<5", "04>", False)
VERDICTS = (
    VerdictRow(
        finding="Coupling adds at twice the length & <more>",
        published="> 95 %",
        ours="EM@16 99.8 %",
        scale="laptop",
        verdict="not separated",
        certainty="paper",
        rule='median < "5" points & worse',
        source="arXiv 2405.20671",
        sweep="depth_ablation",
        n=3,
    ),
    VerdictRow(
        finding="Copy to 300",
        published="near-perfect",
        ours="",
        scale="",
        verdict="not run at paper scale",
        certainty="secondary",
        rule="",
        sweep="copying",
    ),
)


class Reader(HTMLParser):
    """Everything that tests ask about a page. Fails on tags that are not closed in order."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[tuple[str, str | None]] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []
        self.texts: list[tuple[str, str]] = []  # (tag, text)
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if "id" in found:
            self.ids.append(str(found["id"]))
        if "href" in found:
            self.links.append(str(found["href"]))
        if "src" in found:
            self.sources.append(str(found["src"]))
        if tag not in markup.EMPTY:
            self.open.append((tag, found.get("id")))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in markup.EMPTY:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        opened, _ = self.open.pop()
        assert opened == tag, f"</{tag}> closes <{opened}>"

    def handle_data(self, data: str) -> None:
        if self.open and data.strip():
            self.texts.append((self.open[-1][0], " ".join(data.split())))

    def all(self, tag: str) -> list[str]:
        """The texts directly inside a kind of element."""
        return [text for name, text in self.texts if name == tag]


def with_samples(results: Results) -> Results:
    """The results with samples at the longest length: only coupling answers any right."""

    def text(row: Any) -> str:
        solved = row.cell.startswith("coupling")
        return examples.sample_text(RIGHT, WRONG) if solved else examples.sample_text(WRONG)

    samples = [
        text(row) if row.range == "test" else None for row in results.evaluation.itertuples()
    ]
    return dataclasses.replace(results, evaluation=results.evaluation.assign(samples=samples))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of three sweeps: incomplete, along an axis, with second lengths."""
    root = tmp_path_factory.mktemp("report")
    swept = [with_samples(example()), examples.heads(root / "a"), examples.two_lengths(root / "b")]
    folders = [root / "out" / f"{results.sweep}-laptop" for results in swept]
    sections = [write_section(r, folder) for r, folder in zip(swept, folders, strict=True)]
    out = root / "out" / "report.html"
    out.write_text(report.show_report(sections, VERDICTS, out))
    return out


@lru_cache
def read(page: Path) -> Reader:
    return Reader(page.read_text(encoding="utf-8"))


def test_ids_are_unique_and_links_resolve(page: Path):
    found = read(page)
    assert len(found.ids) == len(set(found.ids))
    for link in found.links:
        if link.startswith("data:image/png;base64,"):  # a colour bar
            continue
        if link.startswith("#"):
            assert link[1:] in found.ids, link
        else:
            assert not re.match(r"[a-z]+:|/", link), f"{link} leaves the folder"
            assert (page.parent / unquote(link)).is_file(), link


def test_the_page_needs_no_other_file(page: Path):
    text = page.read_text(encoding="utf-8")
    assert not read(page).sources
    assert not re.findall(r"@import|url\((?!#)|<link|<iframe|<img", text)
    addresses = set(re.findall(r"https?://[^\s\"'<)]+", text))
    assert not addresses
    assert len(text) / 3 < 20_000_000 / 25


def test_verdicts_come_first_then_contents_then_sections(page: Path):
    found = read(page)
    text = page.read_text(encoding="utf-8")
    names = ["verdicts", "contents", "depth_ablation-laptop", "heads_ablation-laptop"]
    places = [text.index(f'id="{name}"') for name in [*names, "operands-laptop"]]
    assert places == sorted(places)
    assert found.all("h1") == [report.TITLE]
    assert "not separated" in text[places[0] : places[1]]
    assert 'href="#depth_ablation-laptop">Coupling adds' in text  # the claim leads to its rows
    assert "stated in the paper; arXiv 2405.20671" in found.all("small")
    assert "read from a figure or retold" in found.all("small")


def test_the_first_screen_has_the_headline_and_folds_what_is_not_decided(page: Path):
    first = page.read_text(encoding="utf-8").partition('id="contents"')[0]
    headline, _, verdicts = first.partition('id="verdicts"')
    assert "median exact match above 95 % up to length" in headline
    assert 'id="headline-lengths"' in headline
    shown, _, folded = verdicts.partition("<details>")
    assert "Not separated (1)" in shown
    assert "Coupling adds" in shown
    assert "Copy to 300" not in shown
    assert "1 other claim<" in folded
    assert folded.count("Copy to 300") == 2  # the second time with its source and rule


def test_text_from_data_is_escaped(page: Path):
    found = read(page)
    assert "Coupling adds at twice the length & <more>" in found.all("a")
    assert 'median < "5" points & worse' in found.all("p")
    assert "<b>&1+34=" in found.all("code")
    assert not found.all("b").count("&1+34=")


def test_wrong_answers_are_marked_where_they_begin(page: Path):
    found = read(page)
    assert set(found.all("mark")) == {">"}
    shelves = pick_samples(with_samples(example()).evaluation)
    kinds = {shelf.cell: [sample.is_right for sample in shelf.samples] for shelf in shelves}
    assert kinds["coupling, 1 layer"] == [True, False]
    assert kinds["NoPE, 3 layers"] == [False]
    assert {shelf.length for shelf in shelves} == {20}
    seeds = [s.seed for shelf in shelves if shelf.cell == "APE, 3 layers" for s in shelf.samples]
    assert seeds == [1]  # seed 0 diverged and answered nothing
    assert not pick_samples(example().evaluation)


def test_a_section_says_command_cost_and_what_is_missing(page: Path):
    found = read(page)
    assert "python sweeps/depth_ablation.py --scale laptop" in found.all("code")
    assert "16 of 18 trials done (1 diverged); 1 error, 1 missing" in found.all("dd")
    assert "all 12 trials done" in found.all("dd")
    assert "16 trials, 16 min 24 s of wall time in all; cpu" in found.all("dd")
    assert "2/3" in found.all("td")
    assert "Coupling generalizes to twice the length." in found.all("p")


def test_every_trial_can_be_found(page: Path):
    results, found = example(), read(page)
    for trial in results.trials["trial_id"]:
        assert f"depth_ablation-laptop-trial-{trial}" in found.ids
    cells = found.all("td")
    assert {"01234567", "c0de0001", "missing", "error"} <= set(cells)
    assert "model.num_heads" in found.all("th")


def test_comparisons_and_notes_stand_in_the_section(page: Path):
    text = " ".join(page.read_text(encoding="utf-8").split())
    frame = comparisons.compare_arms(example().evaluation, 16)
    row = frame[frame["cell"] == "NoPE, 3 layers"].iloc[0]
    assert points(row["difference_median"]) in read(page).all("td")
    assert f"{row['wins']}–{row['ties']}–{row['losses']}" in read(page).all("td")
    assert "No column of p (sign test, Holm), too few runs: the least p" in text
    assert "too few runs" not in read(page).all("td")
    assert "Not counted, missing: 1 of coupling, 2 layers." in read(page).all("li")


def test_files_beside_the_report(page: Path):
    names = sorted(file.name for file in (page.parent / "heads_ablation-laptop").iterdir())
    drawn = ("axis", "failures", "lengths")
    pictures = [f"{n}.{k}" for n in drawn for k in ("pdf", "png", "svg")]
    tables = [
        "comparisons.csv",
        "comparisons.md",
        "comparisons.tex",
        "runs.csv",
        "table.csv",
        "table.md",
        "table.tex",
    ]
    assert names == sorted(pictures + tables)
    assert (page.parent / "operands-laptop" / "map.svg").is_file()


def test_same_rows_same_bytes(tmp_path: Path):
    pages = []
    for _ in range(2):
        sections = [write_section(example(), tmp_path / "depth")]
        pages.append(report.show_report(sections, VERDICTS, tmp_path / "r.html"))
    assert pages[0] == pages[1]


def test_a_sweep_that_has_not_run_has_a_section(tmp_path: Path):
    store, configs = Store(tmp_path), [make_config({}, seed) for seed in range(2)]
    write_trial(store, configs[0], "error", error="ValueError: <no>")
    store.write_view(view_rows({"a <b>": configs}))
    results = load_sweep(tmp_path, "depth_ablation", "laptop")
    out = tmp_path / "r.html"
    found = Reader(report.show_report([write_section(results, tmp_path / "f")], [], out))
    assert "No trial has been evaluated yet." in found.all("p")
    assert "0 of 2 trials done; 1 error, 1 missing" in found.all("dd")
    assert "a <b>" in found.all("td")


def test_printed_numbers_sort_as_numbers():
    assert [markup.sort_key(t) for t in ("≥20 (2.5x)", "2/8", "−1.5", "1,234", "+3", "<0.001")] == (
        [20, 0.25, -1.5, 1234, 3, 0.001]
    )
    assert [markup.sort_key(t) for t in ("1–8", "3–0–1", "cpu", "–")] == [None] * 4
    assert (p_value(0.0312), p_value(1e-5), p_value(1.0)) == ("0.031", "<0.001", "1.000")
    assert (p_value(1.0, least=0.0625), p_value(0.05, least=0.05)) == ("too few runs", "0.050")
    assert (points(0.123), points(-0.05), points(float("nan"))) == ("+12.3", "−5.0", "–")


def test_attributes_and_children_are_escaped():
    built = markup.element("td", "a<b", markup.element("br"), class_='x"y', data_value=None)
    assert built == '<td class="x&quot;y">a&lt;b<br></td>'


needs_browser = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="chromium is not installed"),
]


class TestInABrowser:
    pytestmark = needs_browser

    @pytest.mark.parametrize("width", [390, 1280])
    def test_nothing_overflows_and_the_console_is_silent(
        self, page: Path, chromium: Page, width: int
    ):
        chromium.open(page, width)
        assert chromium.run("document.documentElement.scrollWidth") <= width
        assert chromium.run("getComputedStyle(document.body).fontSize") == "16px"
        assert chromium.too_wide(width) == []
        boxes = "[...document.querySelectorAll('#verdicts, #verdicts *')]"
        scrolls = f"{boxes}.filter(e => getComputedStyle(e).overflowY !== 'visible').length"
        assert chromium.run(scrolls) == 0  # none cuts a verdict
        chromium.run("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert chromium.run("document.documentElement.scrollWidth") <= width
        assert chromium.problems == []

    def test_tables_sort_by_mouse_and_keyboard(self, page: Path, chromium: Page):
        chromium.open(page, 1280)
        table = "document.querySelector('#depth_ablation-laptop table')"
        heads = f"[...{table}.tHead.rows[0].cells]"
        names = json.loads(
            chromium.run(f"JSON.stringify({heads}.map(h => h.innerText.split('\\n')[0]))")
        )
        column = names.index("EM@16")
        cells = f"[...{table}.tBodies[0].rows].map(r => Number(r.cells[{column}].dataset.value))"
        before = chromium.run(cells)
        chromium.run(f"{heads}[{column}].querySelector('button').click()")
        assert chromium.run(cells) == sorted(before)
        assert chromium.run(f"{heads}[{column}].ariaSort") == "ascending"
        chromium.run(f"{heads}[{column}].querySelector('button').focus()")
        chromium.press("Enter", 13, "\r")
        assert chromium.run(cells) == sorted(before, reverse=True)
        assert chromium.run(f"{heads}[{column}].ariaSort") == "descending"
        assert chromium.run(f"{heads}.filter(h => h.hasAttribute('aria-sort')).length") == 1
        chromium.run(f"{heads}[0].querySelector('button').click()")
        rows = chromium.run(f"[...{table}.tBodies[0].rows].map(r => r.cells[0].innerText)")
        assert rows[0] == "APE, 3 layers"
        assert chromium.problems == []

    def test_without_scripts_all_is_there(self, page: Path, chromium: Page):
        chromium.open(page, 1280, scripts=False)
        document = chromium.call("DOM.getDocument", depth=-1)
        text = json.dumps(document)
        assert "not separated" in text
        assert "BUTTON" not in text
