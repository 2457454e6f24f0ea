"""The page: numbers of the tables, nothing unescaped, nothing that was not run; in a browser."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from analysis.__main__ import main
from analysis.load import load_sweep
from analysis.report.page import inline_svg, make_page
from analysis.statistics import runs as statistics
from analysis.tables.sweep_tables import ablation_table
from sweeps.engine.store.store import Store
from tests.support.browser import BROWSER, Page
from tests.support.rows.example_store import (
    build_store,
    make_config,
    make_evaluation,
    view_rows,
    write_trial,
)

PUBLISHED = Path(__file__).parents[3] / "results" / "published" / "laptop"
HOSTILE = "</script><script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'>$^$"
SAMPLES = (("12+34=", "046", "046", True), ("<b>&1+34=", "04<5", "04>", False))
EMPTY = ("meta", "br", "link", "input", "path", "use", "rect")


class Reader(HTMLParser):
    """Tags of a page in order, its ids, links and texts. Fails on tags closed out of order."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self.ids, self.links = list[str](), list[str](), list[str]()
        self.sources, self.texts = list[str](), list[tuple[str, str]]()
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, kept in (("id", self.ids), ("href", self.links), ("src", self.sources)):
            kept += [str(value) for key, value in attrs if key == name]
        self.open += [] if tag in EMPTY else [tag]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in EMPTY:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and data.strip():
            self.texts.append((self.open[-1], " ".join(data.split())))

    def all(self, tag: str) -> list[str]:
        """The texts directly inside a kind of element."""
        return [text for name, text in self.texts if name == tag]


def add_sweep(store: Store, name: str, label: str = "own", **trial: Any) -> None:
    """A sweep of one cell with two runs, one of them failed."""
    configs = [make_config({"model.d_ff": 77}, seed) for seed in range(2)]
    keys = ("query", "answer", "predicted", "right")
    samples = json.dumps([dict(zip(keys, sample, strict=True)) for sample in SAMPLES])
    rows = [row | {"samples": samples} for row in make_evaluation(15.0, 1.0, 0)]
    write_trial(store, configs[0], "ok", rows, **trial)
    write_trial(store, configs[1], "error", error=f"ValueError: {label}")
    store.write_view(view_rows({label: configs}, name))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a store with an incomplete sweep and one with hostile texts."""
    results = tmp_path_factory.mktemp("page")
    store = build_store(results)
    add_sweep(store, "hostile", HOSTILE, git_commit=HOSTILE)
    assert main(["report", "--results", str(results)]) == 0
    return results / "reports" / "report.html"


def read_data(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    assert "<" not in found[1]
    return json.loads(found[1])


def table_rows(text: str) -> list[list[str]]:
    """The texts of the table of cells, small print behind a line break."""
    body = text.partition('id="table"')[2].partition("<tbody>")[2].partition("</tbody>")[0]
    rows = re.findall(r"<tr.*?</tr>", body, re.DOTALL)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    return [[re.sub("<[^>]*>", "", re.sub("<small>", "\n", c)) for c in row] for row in cells]


@pytest.fixture(scope="module")
def published() -> str:
    """The page of one published sweep."""
    text, left_out = make_page(Store(PUBLISHED), [("depth_ablation", "laptop")], "last", "here")
    assert not left_out
    return text


def test_the_numbers_are_those_of_the_table_and_the_curves_of_the_statistics(published: str):
    text = published
    results = load_sweep(PUBLISHED, "depth_ablation", "laptop")
    assert {"0.001", "0.01", "0.1"} <= set(Reader(text).all("text")), "of a loss, not rounded"
    table = ablation_table(results)
    names, shown = [head.text for head in table.header], table_rows(text)
    assert len(shown) == len(table.rows)
    for row, cells in zip(table.rows, shown, strict=True):
        value = dict(zip(names, row, strict=True))
        assert cells[:2] == [f"{value['cell'].text}\ndepth_ablation, laptop", value["runs"].text]
        assert [cells[2], cells[6]] == ["\n".join(value[name]) for name in ("L95", "train")]
        for place, length in ((3, 18), (4, 24), (5, 200)):
            at = value[f"EM@{length}"]
            assert cells[place] == f"{at.text}\nat {length} {at.detail}"
    medians = statistics.cell_curves(results.evaluation).set_index(["cell", "length"])["median"]
    for cell in read_data(text)["cells"]:
        expected = [100 * medians[cell["cell"], length] for length in cell["lengths"]]
        assert cell["median"] == pytest.approx(expected, abs=1e-4)
        assert {len(trial["curve"]) for trial in cell["trials"]} == {len(cell["lengths"])}


def test_what_holds_comes_first_and_nothing_that_was_not_run_is_listed(published: str):
    text = published
    found = Reader(text)
    assert found.all("h3")[0].startswith("Holds (")
    assert "Coupling at every depth beats the deeper NoPE, random-start APE and RoPE" in text
    assert "not run" not in text.replace("Findings about sweeps that were not run", "")
    assert "Residue rings in packed rows" not in text, "its sweep is not on the page"
    headline = next(text for text in found.all("p") if "median exact match above 95 %" in text)
    assert "up to length 200, the longest tested" in headline
    assert "(17× in length, 1.9× in tokens of the longest training row)" in headline
    assert found.all("h1") == ["Length generalization of Transformers: ablations"]


def test_figures_are_shortened_and_look_as_they_do():
    data = b'<svg><path d="M 1.234 5\nL 2.55 -6.78\nz\n" style="fill-opacity: 0.066"/></svg>'
    short = '<svg role="img"><path d="M 1.2 5 2.5 -6.7 z " style="fill-opacity: 0.066"/></svg>'
    assert inline_svg(data, "name") == short


def test_failed_runs_are_counted_and_listed(page: Path):
    text = page.read_text(encoding="utf-8")
    rows = {row[0].partition("\n")[0]: row for row in table_rows(text)}
    assert (rows["RoPE, 3 layers"][1], rows["RoPE, 3 layers"][7]) == ("2/3", "1\n1 error")
    assert (rows["APE, 3 layers"][1], rows["APE, 3 layers"][7]) == ("3/3", "1\n1 diverged")
    assert (rows["coupling, 2 layers"][1], rows["coupling, 2 layers"][7]) == ("2/3", "1\n1 missing")
    assert rows["NoPE, 3 layers"][7] == "0"
    assert "17 of 20 trials done (1 diverged); 2 error, 1 missing, 20 at laptop scale." in text
    assert "16 of 18 trials done (1 diverged); 1 error, 1 missing" in text


def test_the_page_is_sound_alone_and_obeys_no_text_of_a_row(page: Path):
    text = page.read_text(encoding="utf-8")
    found = Reader(text)
    assert len(set(found.ids)) == len(found.ids)
    inside = [link[1:] for link in found.links if link.startswith("#") and link != "#"]
    assert set(inside) <= set(found.ids)
    assert {link[0] for link in found.links} == {"#"}
    assert not found.sources
    assert not re.findall(r"@import|url\((?!#)|<link|<iframe|<img", text)
    assert set(re.findall(r"https?://[^\s\"'<)]+", text)) == {"https://github.com/leeoniya/uPlot"}
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    assert re.findall(r"sha256-([^&]*)&#39;", text.partition("</head>")[0]) == hashes
    assert "content=\"default-src 'none'; img-src data:; style-src" in text  # maps have bars
    assert text.count("<script") == text.count("</script>") == len(scripts) + 1 == 4
    assert HOSTILE in found.all("button")
    assert HOSTILE in json.dumps(read_data(text)).replace('\\"', '"')
    assert {"04"} <= set(found.all("code"))
    assert found.all("mark") == [">"], "where the wrong answer begins to be wrong"


def test_sweeps_without_the_checkpoint_are_left_out_by_name(tmp_path: Path):
    store = build_store(tmp_path)
    add_sweep(store, "other")
    text, left_out = make_page(store, store.view_names(), "oracle", "here")
    (said,) = left_out
    assert said.startswith("other (laptop): checkpoint 'oracle' was not evaluated")
    assert "ORACLE" in text


def test_a_sweep_of_which_nothing_finished_is_there(tmp_path: Path):
    store, configs = Store(tmp_path), [make_config({}, seed) for seed in range(2)]
    write_trial(store, configs[0], "error", error="ValueError: no")
    store.write_view(view_rows({"alone": configs}, "other"))
    text, _ = make_page(store, store.view_names(), "last", "here")
    (row,) = table_rows(text)
    assert row[:3] == ["alone\nother, laptop", "0/2", "–"]
    assert row[7] == "2\n1 error, 1 missing"
    assert "No trained cell reaches any length yet." in text


PICK = "[...document.querySelectorAll('.pick')].find(b => b.textContent === '{}').click()"
WAIT = "new Promise(done => setTimeout(done, 200))"
SHOWN = "[...document.querySelectorAll('#table tbody tr')].filter(r => !r.hidden).map(r => r.id)"
HEADS = "[...document.querySelectorAll('#table thead button')]"


@pytest.fixture
def chromium(tmp_path: Path) -> Iterator[Page]:
    browser = Page(tmp_path / "profile")
    yield browser
    browser.close()


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_in_a_browser_cells_are_filtered_overlaid_and_shared_by_address(page: Path, chromium: Page):
    for width in (1280, 390):
        chromium.open(page, width)
        chromium.run("document.getElementById('c6').click()")  # hostile
        chromium.run("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert chromium.run("document.documentElement.scrollWidth") <= width
        assert chromium.too_wide(width) == []
        assert HOSTILE in chromium.run("document.getElementById('trials').textContent")
        assert chromium.run("window.pwned === undefined && !document.querySelector('img')")
        assert chromium.run("document.querySelectorAll('#headline canvas').length") == 1
    chromium.open(page, 1280)
    chromium.run("location.hash = ''")
    choose = "form.layers.value = '3'; form.sweep.value = 'depth_ablation'; "
    chromium.run(f"{choose} form.words.value = 'ape'; form.dispatchEvent(new Event('input'))")
    assert chromium.run(SHOWN) == ["c4"]
    chromium.run(PICK.format("NoPE, 3 layers"))
    chromium.run("document.querySelector('#c4').click()")  # a run diverged
    runs = "document.getElementById('chart').chart.series.filter(s => s.class === 'run')"
    assert chromium.run(f"{runs}.length") == 6 + 1  # and the line at 95 %
    assert "1 diverged (dashed, counts as 0 %)" in chromium.run("aside.textContent")
    why = chromium.run("document.querySelector('.copy').title")
    assert re.fullmatch(rf"python -m sweeps why \w+ --results {page.parents[1]}", why)
    chromium.run(f"{HEADS}.find(b => b.textContent.startsWith('L95')).click()")
    asked = chromium.run("location.hash")
    chromium.go("about:blank")
    chromium.open(page, 1280)
    assert len(chromium.run(SHOWN)) == 7
    chromium.run(f"location.hash = {asked!r}")
    chromium.call("Runtime.evaluate", expression=WAIT, awaitPromise=True)
    assert chromium.run(SHOWN) == ["c4"]
    assert chromium.run("state.cells.map(c => c.cell)") == ["NoPE, 3 layers", "APE, 3 layers"]
    assert chromium.run("sortOf()") == ["L95", "ascending"]
    chromium.run("form.querySelector('[type=reset]').click()")
    chromium.call("Runtime.evaluate", expression=WAIT, awaitPromise=True)
    assert chromium.run(SHOWN) == [f"c{number}" for number in range(7)]
    assert chromium.problems == []
