"""The page to browse: numbers of the tables, all text escaped, nothing done twice; in a browser."""

import base64
import hashlib
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from analysis.__main__ import main
from analysis.load import load_sweep
from analysis.report.browse import write
from analysis.report.browse.links import Links, find_links
from analysis.report.browse.write import write_page
from analysis.report.section import section_id
from analysis.statistics import runs as statistics
from analysis.tables.sweep_tables import ablation_table
from sweeps.engine.store.store import Store
from tests.analysis.report.test_report import Reader, needs_browser
from tests.support.browser import Page
from tests.support.rows.example_store import (
    build_store,
    make_config,
    make_evaluation,
    view_rows,
    write_trial,
)

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "results" / "published" / "laptop"
NOWHERE = Links(results="results", report="", sections=())
HOSTILE = "</script><script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'>"


def add_sweep(store: Store, name: str, label: str = "own", d_ff: int = 77, **trial: Any) -> None:
    """A sweep of one cell with two runs, one of them failed."""
    configs = [make_config({"model.d_ff": d_ff}, seed) for seed in range(2)]
    write_trial(store, configs[0], "ok", make_evaluation(15.0, 1.0, 0), **trial)
    write_trial(store, configs[1], "error", error=f"ValueError: {label}")
    store.write_view(view_rows({label: configs}, name))


def read_data(page: Path) -> dict[str, Any]:
    found = write.DATA.search(page.read_text(encoding="utf-8"))
    assert found is not None
    return json.loads(found[1])


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a store with an incomplete sweep and one with hostile texts."""
    results = tmp_path_factory.mktemp("browse")
    store = build_store(results)
    add_sweep(store, "hostile", HOSTILE, git_commit=HOSTILE)
    assert main(["page", "--results", str(results)]) == 0
    return results / "reports" / "page.html"


def table_rows(page: Path) -> list[list[str]]:
    """The texts of the table of cells, small print behind a line break."""
    body = page.read_text(encoding="utf-8").partition('id="table"')[2].partition("<tbody>")[2]
    rows = re.findall(r"<tr.*?</tr>", body.partition("</tbody>")[0], re.DOTALL)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    plain = [[re.sub("<small>", "\n", cell) for cell in row] for row in cells]
    return [[re.sub("<[^>]*>", "", cell) for cell in row] for row in plain]


def test_the_numbers_are_those_of_the_table(tmp_path: Path):
    store, out = Store(PUBLISHED), tmp_path / "page.html"
    write_page(store, [("depth_ablation", "laptop")], "last", NOWHERE, out)
    results = load_sweep(PUBLISHED, "depth_ablation", "laptop")
    table = ablation_table(results)
    names = [head.text for head in table.header]
    assert {"EM@18", "EM@24", "EM@200"} <= set(names)
    shown = table_rows(out)
    assert len(shown) == len(table.rows)
    for row, cells in zip(table.rows, shown, strict=True):
        value = dict(zip(names, row, strict=True))
        expected = [f"{value[name].text}\n{value[name].detail}" for name in ("L95", "train")]
        assert cells[0] == f"{value['cell'].text}\ndepth_ablation, laptop"
        assert [cells[2], cells[6]] == expected
        assert cells[1] == value["runs"].text
        assert cells[3] == f"{value['EM@18'].text}\nat 18 {value['EM@18'].detail}"
        assert cells[4] == f"{value['EM@24'].text}\nat 24 {value['EM@24'].detail}"
        assert cells[5] == f"{value['EM@200'].text}\nat 200 {value['EM@200'].detail}"


def test_the_curves_are_those_of_the_statistics(page: Path):
    results = load_sweep(page.parents[1], "depth_ablation", "laptop")
    medians = statistics.cell_curves(results.evaluation).set_index(["cell", "length"])["median"]
    (view,) = next(b["views"] for b in read_data(page)["blocks"] if b["sweep"] == "depth_ablation")
    assert [cell["cell"] for cell in view["cells"]] == results.cells
    for cell in view["cells"]:
        expected = [100 * medians[cell["cell"], length] for length in cell["lengths"]]
        assert cell["median"] == pytest.approx(expected, abs=1e-4)
        for trial in cell["trials"]:
            ran = trial["status"] in ("ok", "diverged")
            assert len(trial["curve"]) == ran * len(cell["lengths"])
            assert trial["status"] != "diverged" or set(trial["curve"]) == {0.0}


def test_failed_runs_are_counted_and_listed(page: Path):
    rows = {row[0].partition("\n")[0]: row for row in table_rows(page)}
    assert (rows["RoPE, 3 layers"][1], rows["RoPE, 3 layers"][7]) == ("2/3", "1\n1 error")
    assert (rows["APE, 3 layers"][1], rows["APE, 3 layers"][7]) == ("3/3", "1\n1 diverged")
    assert (rows["coupling, 2 layers"][1], rows["coupling, 2 layers"][7]) == ("2/3", "1\n1 missing")
    assert rows["NoPE, 3 layers"][7] == "0"
    text = page.read_text(encoding="utf-8")
    assert "20 trials (20 at laptop scale), 17 of them counted; 2 error, 1 missing" in text


def test_text_from_rows_is_escaped(page: Path):
    text = page.read_text(encoding="utf-8")
    found = Reader(text)
    assert text.count("<script") == text.count("</script>") == 5
    assert HOSTILE in found.all("button")
    assert "<img" not in text
    data = write.DATA.search(text)
    assert data is not None
    assert "<" not in data[1]
    assert HOSTILE in json.dumps(json.loads(data[1])).replace('\\"', '"')


def test_only_the_scripts_of_the_page_may_run_and_none_is_fetched(page: Path):
    text = page.read_text(encoding="utf-8")
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert re.findall(r"sha256-([^&]*)&#x27;", policy[1]) == hashes
    assert "default-src &#x27;none&#x27;" in policy[1]
    assert not Reader(text).sources
    assert not re.findall(r"@import|url\((?!#)|<link|<iframe", text)
    addresses = set(re.findall(r"https?://[^\s\"'<)]+", text))
    assert addresses == {"https://github.com/leeoniya/uPlot"}  # its own comment
    assert len(text) < 2_000_000


def test_only_what_has_new_rows_is_rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store, out = Store(tmp_path), tmp_path / "page.html"
    add_sweep(store, "one", d_ff=78)
    add_sweep(store, "other")

    def again() -> write.Written:
        fresh = Store(tmp_path)
        return write_page(fresh, fresh.view_names(), "last", NOWHERE, out)

    assert again().made == ("one", "other")
    first = out.read_bytes()
    monkeypatch.setattr(write, "_make", None)  # nothing may be made
    assert again() == write.Written(made=(), left_out=(), changed=False)
    monkeypatch.undo()
    write_trial(store, make_config({"model.d_ff": 77}, 1), "ok", make_evaluation(15.0, 1.0, 1))
    written = again()
    assert (written.made, written.changed) == (("other",), True)
    assert out.read_bytes() != first
    other = tmp_path / "again.html"
    write_page(Store(tmp_path), store.view_names(), "last", NOWHERE, other)
    assert other.read_bytes() == out.read_bytes()


def test_a_file_that_is_no_page_of_ours_is_replaced(tmp_path: Path):
    store, out = Store(tmp_path), tmp_path / "page.html"
    add_sweep(store, "other")
    for text in ("", "<html>", '<script type="application/json" id="data">{"blocks": 3}</script>'):
        out.write_text(text)
        assert write_page(store, store.view_names(), "last", NOWHERE, out).changed
        assert ">other, laptop<" in out.read_text()
    whole = out.read_text()
    out.write_text(whole[:-10])  # its writer was killed
    assert write_page(store, store.view_names(), "last", NOWHERE, out).changed
    assert out.read_text() == whole


def test_sweeps_without_the_checkpoint_are_left_out_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    add_sweep(build_store(tmp_path), "other")
    command = ["page", "--results", str(tmp_path)]
    assert main([*command, "--checkpoint", "oracle"]) == 0
    said = capsys.readouterr()
    assert said.err.startswith("left out: other (laptop): checkpoint 'oracle' was not evaluated")
    assert "rebuilt: depth_ablation" in said.out
    assert "ORACLE" in (tmp_path / "reports" / "page.html").read_text()
    assert main([*command, "--checkpoint", "nearest"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_an_empty_store_has_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["page", "--results", str(tmp_path)]) == 2
    assert "no sweep has been run into" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_page_that_cannot_be_written_is_refused_before_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    add_sweep(Store(tmp_path / "r"), "other")
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "file").touch()
    monkeypatch.setattr(write, "_make", None)
    for out, reason in (("folder.html", "is a folder"), ("file/page", "nothing can be written")):
        assert main(["page", "--results", str(tmp_path / "r"), "--out", str(tmp_path / out)]) == 2
        said = capsys.readouterr().err
        assert reason in said
        assert said.count("\n") == 1


def test_a_sweep_of_which_nothing_finished_is_there(tmp_path: Path):
    store, configs = Store(tmp_path), [make_config({}, seed) for seed in range(2)]
    write_trial(store, configs[0], "error", error="ValueError: no")
    store.write_view(view_rows({"alone": configs}, "other"))
    out = tmp_path / "page.html"
    write_page(store, store.view_names(), "last", NOWHERE, out)
    (row,) = table_rows(out)
    assert row[:3] == ["alone\nother, laptop", "0/2", "–"]
    assert row[7] == "2\n1 error, 1 missing"
    assert "No trained cell reaches any length yet." in Reader(out.read_text()).all("p")


def test_nothing_is_written_beside_rows_that_git_tracks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    add_sweep(Store(tmp_path / "published" / "laptop"), "other")
    for words in (["init", "-q"], ["add", "published"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    assert main(["page", "--results", "published/laptop"]) == 0
    page = tmp_path / "results" / "reports" / "published-laptop" / "page.html"
    assert read_data(page)["results"] == "published/laptop"
    assert not (tmp_path / "published" / "laptop" / "reports").exists()


def test_the_page_leads_to_the_sections_that_the_report_has(tmp_path: Path):
    out, reports = tmp_path / "a" / "page.html", tmp_path / "b c"
    assert find_links("results", [reports], out) == NOWHERE
    reports.mkdir()
    name = section_id("depth_ablation", "laptop")
    (reports / "report.html").write_text(f'<section id="{name}"></section>')
    links = find_links("results", [tmp_path / "a", reports], out)
    assert links == Links(results="results", report="../b%20c/report.html", sections=(name,))


PICK = "[...document.querySelectorAll('.pick')].find(b => b.textContent === '{}').click()"
WAIT = "new Promise(done => setTimeout(done, 200))"
SHOWN = "[...document.querySelectorAll('#table tbody tr')].filter(r => !r.hidden).map(r => r.id)"


class TestInABrowser:
    pytestmark = needs_browser

    @pytest.mark.parametrize("width", [390, 1280])
    def test_nothing_overflows_and_the_console_is_silent(
        self, page: Path, chromium: Page, width: int
    ):
        chromium.open(page, width)
        chromium.run(PICK.format("coupling, 1 layer"))
        chromium.run("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert chromium.run("document.documentElement.scrollWidth") <= width
        box = "document.querySelector('#table .scroll')"
        assert chromium.run(f"{box}.scrollWidth > {box}.clientWidth") == (width == 390)
        assert chromium.too_wide(width) == []
        assert chromium.problems == []

    def test_clicked_cells_are_overlaid_and_show_their_trials(self, page: Path, chromium: Page):
        chromium.open(page, 1280)
        assert chromium.run("document.querySelectorAll('#headline canvas').length") == 1
        assert chromium.run("document.querySelectorAll('#chart canvas').length") == 0
        chromium.run(PICK.format("coupling, 1 layer"))
        chromium.run("document.querySelector('#c4').click()")  # the row: APE, a run diverged
        medians = "document.getElementById('chart').chart.series.map(s => s.label)"
        assert {"coupling, 1 layer", "APE, 3 layers"} <= set(chromium.run(medians))
        runs = "document.getElementById('chart').chart.series.filter(s => s.class === 'run')"
        assert chromium.run(f"{runs}.length") == 6 + 1  # and the line at 95 %
        assert chromium.run(f"{runs}.filter(s => s.dash && s.alpha < 1).length") == 1
        caption = chromium.run("document.querySelector('aside .caption').textContent")
        assert "n = 3 of 3 planned" in caption
        assert "1 diverged (dashed, counts as 0 %)" in caption
        assert "Checkpoint: last = after the final step" in caption
        trials = chromium.run("document.getElementById('trials').textContent")
        ids = [t["id"] for c in (0, 4) for t in cells(page)[c]["trials"]]
        assert all(name in trials for name in ids)
        assert "python sweeps/depth_ablation.py --scale laptop" in trials
        title = chromium.run("document.querySelector('.copy').title")
        assert title == f"python -m sweeps why {ids[0]} --results {page.parents[1]}"
        chromium.run("document.querySelector('#c4').click()")
        assert "APE, 3 layers" not in chromium.run(medians)
        assert chromium.problems == []

    def test_what_is_shown_is_in_the_address(self, page: Path, chromium: Page):
        chromium.open(page, 1280)
        assert len(chromium.run(SHOWN)) == 7
        choose = "form.layers.value = '3'; form.sweep.value = 'depth_ablation'; "
        chromium.run(choose + "form.dispatchEvent(new Event('input'))")
        chromium.run("form.words.value = 'ape'; form.dispatchEvent(new Event('input'))")
        assert chromium.run(SHOWN) == ["c4"]
        chromium.run(PICK.format("NoPE, 3 layers"))
        heads = "[...document.querySelectorAll('#table thead button')]"
        chromium.run(f"{heads}.find(b => b.textContent.startsWith('L95')).click()")
        asked = chromium.run("location.hash")
        assert "layers=3" in asked
        assert "words=ape" in asked
        assert "sort=L95%3Aascending" in asked
        chromium.call("Page.navigate", url="about:blank")
        chromium.open(page, 1280)
        assert len(chromium.run(SHOWN)) == 7
        chromium.run(f"location.hash = {asked!r}")
        chromium.call("Runtime.evaluate", expression=WAIT, awaitPromise=True)
        assert chromium.run(SHOWN) == ["c4"]
        assert chromium.run("state.cells.map(c => c.cell)") == ["NoPE, 3 layers"]
        assert chromium.run("sortOf()") == ["L95", "ascending"]
        assert chromium.run("document.getElementById('count').textContent") == "1 of 7 cells"
        assert chromium.problems == []

    def test_hostile_texts_stay_texts(self, page: Path, chromium: Page):
        chromium.open(page, 1280)
        chromium.run("document.getElementById('c6').click()")
        shown = chromium.run("document.getElementById('trials').textContent")
        assert HOSTILE in shown
        assert chromium.run("window.pwned === undefined && !document.querySelector('img')")
        assert chromium.run("document.querySelector('#chart .u-legend').textContent").count("<img")
        assert chromium.problems == []


def cells(page: Path) -> list[dict[str, Any]]:
    """All cells in the order of the table."""
    blocks = read_data(page)["blocks"]
    return [cell for block in blocks for view in block["views"] for cell in view["cells"]]
