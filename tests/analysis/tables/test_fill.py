"""Marked blocks of Markdown files hold what the rows say, and nothing else changes."""

from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.fill import PUBLISHED, fill
from analysis.load import load_sweep
from tests.support.rows.example_store import build_store

TEXT = """# A page

Of <!-- pcore value depth_ablation laptop {root} "coupling, 1 layer" 12 runs -->0<!-- /pcore --> run
the worst has
<!-- pcore value depth_ablation laptop {root} coupling* 12 worst -->0<!-- /pcore --> %.
<!-- pcore ranges depth_ablation laptop {root} 12,14,30 -->
an old number: 12.3
<!-- /pcore -->
between
<!-- pcore figure depth_ablation laptop {root} lengths pictures/depth -->
<!-- /pcore -->
behind
"""


@pytest.fixture
def page(tmp_path) -> Path:
    build_store(tmp_path / "results")
    page = tmp_path / "page.md"
    page.write_text(TEXT.format(root=tmp_path / "results"))
    return page


def test_tables_and_figures_are_made_anew_and_a_second_time_alike(page, capsys):
    assert main(["fill", str(page)]) == 0
    text = page.read_text()
    assert "|\n<!-- /pcore -->\nbetween\n" in text
    assert "an old number" not in text
    assert text.startswith("# A page\n")
    assert text.endswith("<!-- /pcore -->\nbehind\n")
    assert "](pictures/depth.png)" in text
    assert fill(page, draw=False) == text
    first = (page.parent / "pictures" / "depth.png").read_bytes()
    assert first.startswith(b"\x89PNG")
    assert main(["fill", str(page)]) == 0
    assert page.read_text() == text
    assert (page.parent / "pictures" / "depth.png").read_bytes() == first
    assert capsys.readouterr().out.split("\n")[1].endswith("page.md: unchanged")


def test_a_pair_of_lengths_is_one_square_of_a_grid_of_two_lengths(tmp_path):
    page = tmp_path / "page.md"
    cell = "scratchpad, coupling"
    page.write_text("<!-- pcore ranges scratchpad_addition 5x4,5 -->\n<!-- /pcore -->")
    row = next(line for line in fill(page, draw=False).splitlines() if f"| {cell} |" in line)
    rows = load_sweep(PUBLISHED[1], "scratchpad_addition", PUBLISHED[0]).evaluation
    of = rows[(rows["cell"] == cell) & (rows["length"] == 5)]
    pair = of.loc[of["second_length"] == 4, "exact_match"]
    worst = of.groupby("trial_id")["exact_match"].min()
    ends = [
        f"{100 * n:.1f}".removesuffix(".0")
        for shares in (pair, worst)
        for n in (shares.min(), shares.max())
    ]
    assert row.split("|")[2:4] == [f" {low}–{high} " for low, high in (ends[:2], ends[2:])]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("lengths pictures", "lenghts pictures", "has no figure 'lenghts'; there: lengths"),
        ("ranges depth_ablation", "ranges depht_ablation", "did you mean 'depth_ablation'"),
        ("pcore ranges", "pcore range", "no kind of block 'range'; there are figure, ranges"),
        ("coupling* 12 worst", "coupling* 12 least", "'least' is none of worst, median"),
        ("12 runs", "13 runs", "no runs of 'coupling, 1 layer' at 13"),
        ("<!-- /pcore -->\nbehind", "behind", "no <!-- /pcore --> after <!-- pcore figure"),
    ],
)
def test_a_block_that_cannot_be_filled_is_named(page, capsys, old, new, message):
    page.write_text(page.read_text().replace(old, new))
    before = page.read_text()
    assert main(["fill", str(page)]) == 2
    assert message in capsys.readouterr().err
    assert page.read_text() == before


@pytest.mark.parametrize("place", ["../outside", "linked/outside", "/tmp/outside"])
def test_a_figure_outside_the_folder_of_the_page_is_refused(page, capsys, tmp_path, place):
    (page.parent / "linked").symlink_to(tmp_path.parent)
    text = page.read_text().replace("pictures/depth", place)
    page.write_text(text)
    assert main(["fill", str(page)]) == 2
    assert f"the figure {place} would be outside of {page.parent}" in capsys.readouterr().err
    assert page.read_text() == text
