"""Figures by their data, and by what every one of them promises whoever looks at it."""

import dataclasses
import itertools
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from analysis.figures import bars, captions, curves, maps, style
from analysis.figures.choose import SweepFigure, choose_figures
from analysis.load import Results, load_sweep
from analysis.statistics import runs as statistics
from sweeps.engine.spec import Cell
from tests.analysis.statistics.test_mechanism import head, with_rows
from tests.support.rows.example_store import CELLS, build_sweep, example, make_config

PUBLISHED = Path(__file__).parents[3] / "results" / "published" / "laptop"
HOSTILE = ("$d_{ff}^$=64", "\x1b[31m<b>&amp;</b>", "多层 %s {0} \\frac{a}")


def lines_of(axes: Axes) -> dict[str, Line2D]:
    """The median lines by label."""
    return {str(n): line for line in axes.get_lines() if (n := line.get_label())[0] != "_"}  # pyright: ignore[reportIndexIssue]


def cells_named(*labels: str) -> list[Cell]:
    configs = [make_config({"model.d_ff": 8 * (i + 1)}, 0) for i in range(len(labels))]
    return [Cell(label=n, config=c) for n, c in zip(labels, configs, strict=True)]


def names_of(figures: Iterator[SweepFigure]) -> list[str]:
    return [drawn.name for drawn in figures]


def print_of(figure: Figure) -> str:
    return " ".join(figure.get_supxlabel().split())


def with_heads(results: Results, masses: dict[str, float], num_runs: int = 2) -> Results:
    """Analysed runs whose heads show one pattern to this share of the most, the other to half."""
    rows = [
        (cell, run, head(pattern, 0.8 * share))
        for cell, mass in masses.items()
        for run in range(num_runs)
        for pattern, share in (("next", mass), ("same", mass / 2))
    ]
    return with_rows(results, rows)


def with_failures(results: Results, shares: dict[str, float]) -> Results:
    """The results with these shares of wrong symbols in every row of a cell; nothing else fails."""
    rows = results.evaluation
    wrong = (1000 * rows["cell"].map(shares).fillna(0.0)).round().astype(int)
    rows = rows.assign(num_examples=1000, num_wrong_symbol=wrong, num_early_stop=0)
    return dataclasses.replace(results, evaluation=rows.assign(num_missed_stop=0))


@pytest.mark.parametrize("num_seeds", [3, 6])
def test_lines_are_the_medians_and_bands_the_intervals_of_the_tables(num_seeds: int):
    results = example(complete=True, num_seeds=num_seeds)
    figure = curves.plot_lengths(results)
    lines = lines_of(figure.axes[0])
    stats = statistics.cell_curves(results.evaluation)
    assert list(lines) == list(CELLS)
    bands = figure.axes[0].collections
    for (cell, line), band in zip(lines.items(), bands, strict=True):
        of = stats[stats["cell"] == cell]
        assert line.get_xdata() == pytest.approx(of["length"])
        assert line.get_ydata() == pytest.approx(100 * of["median"])
        points = band.get_paths()[0].vertices
        for x, low, high in zip(of["length"], of["low"], of["high"], strict=True):
            heights = points[points[:, 0] == x, 1]
            assert [heights.min(), heights.max()] == pytest.approx([100 * low, 100 * high])
    kind = "worst to best run" if num_seeds == 3 else "interval of the median"
    assert f"band: {kind}; n = {num_seeds} runs per cell" in print_of(figure).replace("\xa0", " ")
    assert len({line.get_transform().transform((9, 50))[1] for line in lines.values()}) == len(
        CELLS
    )


def test_the_axis_begins_at_nothing_unless_all_runs_are_far_above_it():
    results = example(complete=True)
    assert curves.plot_lengths(results).axes[0].get_ylim()[0] < 0
    high = results.evaluation.assign(exact_match=results.evaluation["exact_match"] / 20 + 0.94)
    axes = curves.plot_lengths(dataclasses.replace(results, evaluation=high)).axes[0]
    assert [axes.get_yticks()[0], axes.get_yticks()[-1]] == [90, 100]
    assert 89 < axes.get_ylim()[0] < 90


def test_factors_are_said_in_lengths_and_in_tokens_of_a_training_row():
    results = load_sweep(PUBLISHED, "thousand_digits", "laptop")
    said = "3,000 is 250× the longest trained length, 7.2× in tokens of the longest training row"
    figure = curves.plot_lengths(results)
    assert said in print_of(figure)
    (axes,) = figure.axes
    for line in lines_of(axes).values():  # one alone is where its values are
        assert line.get_transform().transform((9, 50)) == pytest.approx(
            axes.transData.transform((9, 50))
        )
    assert captions.describe_factor(example()) == ""


@pytest.mark.parametrize("trained", [8, 2])  # a linear axis, a logarithmic one
@pytest.mark.parametrize("lengths", [(12,), (11, 19), (3, 4), (20, 1, 7)])
def test_any_lengths_get_labels_between_the_first_and_the_last(trained, lengths):
    results = example(complete=True)
    trials = results.trials.assign(**{"data.max_length": trained})
    _, (axes,) = style.new_panels(2.0, 1, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        curves.scale_lengths(axes, dataclasses.replace(results, trials=trials), iter(lengths))
    assert axes.get_xscale() == ("log" if trained == 2 and len(lengths) == 3 else "linear")
    left, right = axes.get_xlim()
    assert left < min(lengths) <= max(lengths) < right
    ticks = [tick for tick in axes.get_xticks() if left <= tick <= right]
    assert len(ticks) >= min(2, len(lengths))
    assert all(tick % 1 == 0 for tick in ticks)


def test_losses_mark_where_a_run_diverged_and_are_drawn_if_a_run_reported_twice():
    figure = curves.plot_losses(example())
    assert list(lines_of(figure.axes[0])) == list(CELLS)
    (end,) = [line for line in figure.axes[0].get_lines() if line.get_label() == "_end"]
    assert end.get_xdata()[0] == 350
    assert "losses" in names_of(choose_figures(example()))
    once = example().reports.drop_duplicates("trial_id")
    assert "losses" not in names_of(choose_figures(dataclasses.replace(example(), reports=once)))


def test_bars_are_drawn_where_several_runs_show_something(tmp_path: Path):
    """A cell that fails in one of a hundred; the patterns of two cells."""
    alone = build_sweep(tmp_path, cells_named("a", "b"), num_seeds=1)
    masses = {"coupling, 1 layer": 0.9, "coupling, 2 layers": 0.6}
    for results, name, is_drawn in (
        (with_failures(example(), {"NoPE, 3 layers": 0.009}), "failures", False),
        (with_failures(example(), {"NoPE, 3 layers": 0.01}), "failures", True),
        (with_failures(alone, {"a": 0.9}), "failures", False),
        (with_heads(example(), masses), "patterns", True),
        (with_heads(example(), masses, num_runs=1), "patterns", False),
        (with_heads(example(), {"coupling, 1 layer": 0.9}), "patterns", False),
    ):
        assert (name in names_of(choose_figures(results))) == is_drawn
    axes = bars.plot_failures(with_failures(example(), {"NoPE, 3 layers": 0.3})).axes[0]
    assert sorted(bar.get_width() for bar in axes.patches)[-1] == pytest.approx(30)
    assert [text.get_text().strip() for text in axes.texts] == ["0"] * (len(CELLS) - 1)
    axes = bars.plot_patterns(with_heads(example(), masses)).axes[0]
    widths = sorted(bar.get_width() for bar in axes.patches if bar.get_width())
    assert widths == pytest.approx([30, 45, 60, 90])


def shown_texts(figure: Figure) -> Iterator[Text]:
    """All texts, without those of ticks beyond the ends of an axis."""
    outside = set[Text]()
    for axis in [axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)]:
        low, high = sorted(axis.get_view_interval())
        ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
        beyond = [tick for tick in ticks if not low <= tick.get_loc() <= high]
        outside |= {text for tick in beyond for text in (tick.label1, tick.label2)}
    yield from (text for text in figure.findobj(Text) if text not in outside)


def all_figures() -> Iterator[tuple[Results, str, Figure]]:
    """Every kind of figure, with its name: the first two of each."""
    failing = with_failures(example(), {"NoPE, 3 layers": 0.3})
    failing = with_heads(failing, dict.fromkeys(list(CELLS)[:2], 0.5))
    made, count = [dataclasses.replace(failing, scale="smoke")], Counter[str]()
    sweeps = ("scratchpad_addition", "packing_ablation", "rope_ablation")
    made += [load_sweep(PUBLISHED, sweep, "laptop") for sweep in sweeps]
    for results in made:
        for one in choose_figures(results):
            count[one.name] += 1
            if count[one.name] <= 2:
                yield results, one.name, one.draw()


def test_every_figure_says_where_it_is_from_and_no_text_lies_on_another_or_outside():
    seen, before = set[str](), dict(matplotlib.rcParams)
    for results, name, figure in all_figures():
        seen.add(name)
        tasks = ", ".join(results.trials["task.name"].dropna().unique())
        said = f"{tasks}, sweep {results.sweep}, {results.scale} scale; "
        assert print_of(figure).startswith(said)
        smoke = [text.get_text() for text in figure.texts].count(captions.SMOKE)
        assert smoke == (results.scale == "smoke")
        style.render(figure, ())  # laid out, for no file
        page = figure.bbox.padded(1)
        texts = [t for t in shown_texts(figure) if t.get_visible() and t.get_text().strip()]
        boxes = [(text.get_window_extent(), text) for text in texts]
        for box, text in boxes:
            assert page.contains(box.x0, box.y0), (name, text)
            assert page.contains(box.x1, box.y1), (name, text)
        boxes = [(box.padded(-1), text) for box, text in boxes]
        for (a, first), (b, second) in itertools.combinations(boxes, 2):
            turned = first.get_rotation() % 90 or second.get_rotation() % 90
            assert turned or not a.overlaps(b), (name, first, second)
    assert seen == {"lengths", "map", "cells", "grid", "failures", "patterns", "losses"}
    assert dict(matplotlib.rcParams) == before, "nothing global changes"
    assert not sys.modules["matplotlib.pyplot"].get_fignums()


@pytest.mark.filterwarnings("ignore:Glyph")
def test_labels_of_any_signs_are_drawn_as_they_are(tmp_path: Path):
    results = build_sweep(tmp_path, cells_named(*HOSTILE))
    results = with_heads(with_failures(results, dict.fromkeys(HOSTILE, 0.5)), {HOSTILE[0]: 0.5})
    figures = [chosen.draw() for chosen in choose_figures(results)]
    figures += [maps.plot_cells(results)]
    for figure in figures:
        file = style.render(figure, ("svg",))["svg"]
        assert style.render(figure, ("svg",))["svg"] == file, "the same bytes"
        root = ElementTree.fromstring(file)
        assert {"$d_{ff}^$=64"} <= set(root.itertext()) or figure is figures[1]
