"""What a picture says about itself, wherever it is pasted: task, sweep, scale, and its legend."""

import dataclasses

import pytest
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.figures.choose import draw_figures
from analysis.figures.lengths import plot_lengths
from analysis.figures.shared.labels import SMOKE, describe_source, length_label
from tests.support.rows import analysis_examples as examples
from tests.support.rows.example_store import example

SHORT = [f"cell {i}" for i in range(12)]
LONG = [f"coupling, {i} layers, one problem per row" for i in range(12)]
MIXED = [LONG[1], *SHORT[:3], LONG[2], *SHORT[3:]]


def small_print(figure: Figure) -> str:
    return " ".join(figure.get_supxlabel().split())


def with_tasks(results, *tasks: str):
    """The results as if their trials were of these tasks, in turn."""
    names = [tasks[i % len(tasks)] for i in range(len(results.trials))]
    return dataclasses.replace(results, trials=results.trials.assign(**{"task.name": names}))


@pytest.mark.parametrize("make", [examples.heads, examples.two_lengths])
def test_every_figure_names_task_sweep_and_scale(tmp_path, make):
    results = make(tmp_path)
    (task,) = results.trials["task.name"].unique()
    drawings = list(draw_figures(results))
    assert drawings
    for drawing in drawings:
        expected = f"{task}, sweep {results.sweep}, laptop scale; "
        assert small_print(drawing.figure).startswith(expected), drawing.name


def test_every_figure_of_smoke_scale_says_that_nothing_is_learned(tmp_path):
    laptop = examples.heads(tmp_path)
    smoke = dataclasses.replace(laptop, scale="smoke")
    for results, number in ((laptop, 0), (smoke, 1)):
        for drawing in draw_figures(results):
            found = [text.get_text() for text in drawing.figure.texts]
            assert found.count(SMOKE) == number, drawing.name


def test_few_tasks_are_named_and_many_are_counted():
    results = example()
    three = with_tasks(results, "copy", "addition", "parity")
    assert describe_source(three).startswith("copy, addition, parity, sweep ")
    four = with_tasks(results, "copy", "addition", "parity", "sorting")
    assert describe_source(four).startswith("4 tasks, sweep ")


def test_the_axis_says_what_length_counts_where_all_tasks_count_the_same():
    results = example()
    assert plot_lengths(results).axes[0].get_xlabel() == "length (digits)"
    assert length_label(with_tasks(results, "addition", "multiplication")) == "length (digits)"
    assert length_label(with_tasks(results, "addition", "minesweeper")) == "length"
    assert length_label(with_tasks(results, "copy")) == "length"
    assert length_label(with_tasks(results, "my_tasks:Mine")) == "length"


@pytest.mark.parametrize("number", [1, 4, 5, 8, 9, 12])
@pytest.mark.parametrize("names", [SHORT, LONG, MIXED], ids=["short", "long", "mixed"])
def test_a_legend_has_the_fewest_rows_that_fit_the_width(monkeypatch, names, number):
    def draw(labels: list[str]) -> tuple[int, float, float]:
        """Columns of the legend, and where it ends, in shares of the figure."""
        with style.apply():
            figure, axes = style.new_figure(2.0, labels)
            style.add_legend(figure, [axes.plot([0], [0], label=name)[0] for name in labels])
            figure.set_dpi(style.DPI)
            figure.draw_without_rendering()
        box = figure.legends[0].get_window_extent()
        return figure.legends[0]._ncols, box.x0 / figure.bbox.x1, box.x1 / figure.bbox.x1

    labels = names[:number]
    columns, left, right = draw(labels)
    assert 0 <= left < right <= 1
    rows = -(-number // columns)
    if names is not MIXED:  # of which fewer columns can be wider
        assert columns == min(n for n in range(1, 13) if -(-number // n) == rows)  # rows are full
    more = min((n for n in range(1, 7) if -(-number // n) < rows), default=None)
    if more is not None:
        monkeypatch.setattr(style, "legend_columns", lambda labels: more)
        assert draw(labels)[2] > 0.95


def test_methods_of_a_usual_sweep_are_four_rows_not_fourteen():
    names = ["coupling", "coupling, 1 layer", "NoPE", "RoPE", "ALiBi", "FIRE", "T5 bias"] * 2
    assert style.legend_columns(names) >= 4


def test_a_legend_of_many_cells_is_lower_than_the_plot():
    names = [f"rings, packed, natural logarithm {i}" for i in range(19)]
    with style.apply():
        figure, axes = style.new_figure(2.2, names)
        style.add_legend(figure, [axes.plot([0], [0], label=name)[0] for name in names])
    figure.draw_without_rendering()
    assert figure.legends[0].get_window_extent().height < axes.get_window_extent().height


def test_lines_of_small_print_are_about_as_long_as_each_other():
    figure, _ = style.new_figure(2.0)
    words = " ".join(["word"] * 26)  # 129 letters: a line and one word
    style.add_caption(figure, words)
    first, second = figure.get_supxlabel().splitlines()
    assert abs(len(first) - len(second)) <= len("word ")
    style.add_caption(figure, "word " * 20)
    assert "\n" not in figure.get_supxlabel()
