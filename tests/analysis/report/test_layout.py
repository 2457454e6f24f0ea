"""The layout of the page in a browser, mostly of published rows: what is in sight together."""

from pathlib import Path

import pytest

from analysis.load import load_sweep
from analysis.report.browse.write import write_page
from sweeps.engine.store.store import Store
from tests.analysis.report.test_browse import NOWHERE, PUBLISHED, SHOWN, WAIT, cells
from tests.analysis.report.test_report import Reader, needs_browser
from tests.support.browser import Page

pytestmark = needs_browser


def places(chromium: Page, selector: str) -> tuple[float, float]:
    """Upper and lower end of an element in the window, in pixels."""
    box = f"document.querySelector('{selector}').getBoundingClientRect()"
    top, bottom = chromium.run(f"(b => [b.top, b.bottom])({box})")
    return top, bottom


def test_all_columns_of_published_rows_are_in_sight(tmp_path: Path, chromium: Page):
    """Also the widest: none is behind a scroll bar, with and without something chosen."""
    store, out = Store(PUBLISHED), tmp_path / "page.html"
    write_page(store, store.view_names(), "last", NOWHERE, out)
    chromium.open(out, 1280)
    right = "table.tHead.rows[0].lastElementChild.getBoundingClientRect().right"
    for _ in range(2):
        assert chromium.run(f"{right} <= table.parentElement.getBoundingClientRect().right")
        assert chromium.run("table.parentElement.clientWidth") > 1200
        chromium.run("document.querySelector('#c0').click()")


@pytest.mark.parametrize(("width", "height"), [(390, 844), (1280, 720), (1920, 1080)])
def test_a_clicked_row_and_its_curves_are_in_sight_together(
    tmp_path: Path, chromium: Page, width: int, height: int
):
    store, out = Store(PUBLISHED), tmp_path / "page.html"
    write_page(store, [("packing_ablation", "laptop")], "last", NOWHERE, out)
    chromium.open(out, width, height)
    chromium.run("document.documentElement.style.scrollBehavior = 'auto'")
    assert chromium.run("document.querySelector('aside').clientHeight") == 0
    box = "document.querySelector('#table .scroll')"
    chromium.run(f"{box}.scrollTop = 1e6")
    for row in ("c18", "c14"):
        chromium.run(f"document.querySelector('#{row} .pick').click()")
        chromium.call("Runtime.evaluate", expression=WAIT, awaitPromise=True)
        top, bottom = places(chromium, f"#{row}")
        assert top >= max(0, places(chromium, "#table thead")[1] - 1)
        assert bottom <= places(chromium, "#table .scroll")[1] + 1
        top, bottom = places(chromium, "#chart canvas")
        assert top >= places(chromium, "#table .scroll")[1]
        assert bottom <= height
    if width > 1000:  # the trials are beside the curves
        assert places(chromium, "#trials table")[1] <= height
    chromium.run("document.getElementById('clear').click()")
    assert chromium.run("document.querySelector('aside').clientHeight") == 0
    assert chromium.run("document.querySelectorAll('.chosen').length") == 0
    assert "cell=" not in chromium.run("location.hash")
    assert chromium.problems == []


def test_the_length_of_most_rows_stands_in_the_head(tmp_path: Path, chromium: Page):
    store, out = Store(PUBLISHED), tmp_path / "page.html"
    names = ("depth_ablation", "packed_train_length", "attention_probe")
    write_page(store, [(name, "laptop") for name in names], "last", NOWHERE, out)
    chromium.open(out, 1280)

    def shown(sweep: str) -> tuple[str, set[str]]:
        """The head of the first of these columns, and the lengths in its rows."""
        change = f"form.sweep.value = '{sweep}'; form.dispatchEvent(new Event('input'))"
        chromium.run(change)
        head = chromium.run("table.tHead.rows[0].cells[3].querySelector('small').textContent")
        rows = "[...table.tBodies[0].rows].filter(r => !r.hidden)"
        lengths = f"{rows}.map(r => r.cells[3].querySelector('.at:not([hidden])'))"
        found = chromium.run(f"{lengths}.filter(Boolean).map(e => e.textContent.trim())")
        return head, set(found)

    assert shown("depth_ablation") == ("at 18", set())
    assert shown("packed_train_length") == ("at 24", set())
    counts = [len(load_sweep(PUBLISHED, name, "laptop").cells) for name in names]
    assert counts[0] < counts[1] + counts[2]
    assert shown("") == ("at length", {"at 18", "at 24", "at 8"})
    chromium.run("form.words.value = 'addition'")  # leaves those of two sweeps
    assert shown("") == ("at 18 if not said", {"at 8"})


def test_reset_puts_the_rows_back_in_order(tmp_path: Path, chromium: Page):
    out = tmp_path / "page.html"
    write_page(Store(PUBLISHED), [("depth_ablation", "laptop")], "last", NOWHERE, out)
    chromium.open(out, 1280)
    before = chromium.run(SHOWN)
    chromium.run("sortTable(table, 2)")
    assert chromium.run(SHOWN) != before
    chromium.run("form.querySelector('[type=reset]').click()")
    chromium.call("Runtime.evaluate", expression=WAIT, awaitPromise=True)
    assert chromium.run(SHOWN) == before
    assert chromium.run("sortOf()") is None
    assert "sort" not in chromium.run("location.hash")


@pytest.mark.parametrize("sweep", ["ten_thousand_digits", "encoding_ablation"])
def test_the_headline_cell_stands_out_of_its_chart(tmp_path: Path, chromium: Page, sweep: str):
    """No other line is in its colour; cells of other methods keep theirs, without runs."""
    out = tmp_path / "page.html"
    write_page(Store(PUBLISHED), [(sweep, "laptop")], "last", NOWHERE, out)
    chromium.open(out, 1280)
    shown = "document.getElementById('headline').chart.series.slice(3)"
    drawn = chromium.run(f"{shown}.map(s => [s.label ?? '', s.stroke(), s.width, s.alpha])")
    medians = [line for line in drawn if line[3] is None or line[3] == 1]
    *others, (name, own, width, _) = medians
    by_name = {cell["cell"]: cell for cell in cells(out)}
    lead = by_name[name]
    assert any(text.startswith(name) for text in Reader(out.read_text()).all("p"))
    assert own == lead["method_color"]
    assert len(others) == min(6, len(by_name)) - 1
    assert max(line[2] for line in others) < width / 2
    grey = chromium.run("color('grey')")
    for label, stroke, *_ in others:
        same = by_name[label]["method_color"] == own
        assert stroke == (grey if same else by_name[label]["color"])
    assert [line[1] for line in drawn[: -len(medians)]] == [own] * lead["n"]
    looks = chromium.run(f"{shown}.map(s => s.stroke() + (s.dash ?? ''))")[-len(medians) :]
    assert len(set(looks)) == len(looks)
    caption = chromium.run("document.querySelector('#headline + .caption').textContent")
    assert f"Thick: {name}, median over runs, n = " in caption
    assert chromium.problems == []
