"""What a picture says about itself, wherever it is pasted: task, sweep, scale, and its legend."""

import pytest

from analysis.figures import style

SHORT = [f"cell {i}" for i in range(12)]
LONG = [f"coupling, {i} layers, one problem per row" for i in range(12)]
MIXED = [LONG[1], *SHORT[:3], LONG[2], *SHORT[3:]]


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
