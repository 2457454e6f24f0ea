"""Which figures are drawn: those in which there is something to see."""

import dataclasses

import pandas as pd
import pytest

from analysis.figures.choose import draw_figures
from analysis.figures.mechanism import plot_failures, plot_patterns
from analysis.load import RUN, Results, no_mechanism
from tests.support.rows import analysis_examples as examples
from tests.support.rows.example_store import example


def drawn(results: Results) -> list[str]:
    return [drawing.name for drawing in draw_figures(results)]


def with_heads(results: Results, cells: dict[str, float]) -> Results:
    """One analysed run per cell, whose heads show both patterns to this share of the most."""
    rows = []
    for cell, mass in cells.items():
        run = results.trials[results.trials["cell"] == cell].iloc[0]
        names = {"kind": "head", "layer": 0, "head": 0, "level": "significance", "length": 8}
        masses = {"mass_beyond_bos": 0.8 * mass, "most_beyond_bos": 0.8}
        rows += [{**run[RUN], **names, **masses, "pattern": name} for name in ("next", "same")]
    columns = list(dict.fromkeys([*no_mechanism().columns, "trial_id"]))
    return dataclasses.replace(results, mechanism=pd.DataFrame(rows).reindex(columns=columns))


def with_failures(results: Results, shares: dict[str, float]) -> Results:
    """The results with these shares of wrong symbols in every row of a cell, and no other failure.

    The other cells do not fail.
    """
    rows = results.evaluation.copy()
    wrong = rows["cell"].map(shares).fillna(0.0) * 1000
    rows = rows.assign(num_examples=1000, num_wrong_symbol=wrong.round().astype(int))
    rows = rows.assign(num_early_stop=0, num_missed_stop=0)
    return dataclasses.replace(results, evaluation=rows)


def test_losses_are_drawn_if_a_run_reported_twice(tmp_path):
    results = examples.heads(tmp_path)
    assert (results.reports.groupby("trial_id").size() == 1).all()
    assert "losses" not in drawn(results)
    second = results.reports.iloc[[0]].assign(step=100)
    more = dataclasses.replace(results, reports=pd.concat([results.reports, second]))
    assert "losses" in drawn(more)


def test_failures_are_drawn_if_a_cell_fails_in_one_of_a_hundred():
    results = example(complete=True)
    cell = results.cells[2]
    assert "failures" not in drawn(with_failures(results, {cell: 0.009}))
    assert "failures" in drawn(with_failures(results, {cell: 0.01}))


def test_bars_too_short_to_be_seen_are_written_out():
    results = example(complete=True)
    shares = dict(zip(results.cells, (0.5, 0.019, 0.0, 0.03, 0.001, 0.0001), strict=True))
    rows = with_failures(results, shares)
    rows = dataclasses.replace(
        rows,
        evaluation=rows.evaluation.assign(
            num_examples=10_000, num_wrong_symbol=rows.evaluation["cell"].map(shares) * 10_000
        ),
    )
    (axes,) = plot_failures(rows).axes
    written = {results.cells[int(t.get_position()[1])]: t.get_text().strip() for t in axes.texts}
    seconds = [results.cells[i] for i in (1, 2, 4, 5)]
    assert written == dict(zip(seconds, ("1.9", "0", "0.1", "<0.1"), strict=True))


def test_the_head_of_the_causes_is_seen():
    results = example()
    run = results.trials[results.trials["cell"] == "coupling, 1 layer"].iloc[0]
    counts = {"num_missed_stop": 0, "num_early_stop": 0, "num_wrong_symbol": 10}
    rows = [
        {**run[RUN], "kind": "failures", "length": 12, **counts},
        {**run[RUN], "kind": "cause", "length": 12, "cause": "place", "strength": 0.5},
    ]
    columns = list(dict.fromkeys([*no_mechanism().columns, "trial_id"]))
    frame = pd.DataFrame(rows).reindex(columns=columns)
    figure = plot_failures(dataclasses.replace(results, mechanism=frame))
    figure.draw_without_rendering()
    (axes,) = figure.axes
    texts = {text.get_text(): text for text in axes.texts}
    head, first = texts["causes (strength in %)"], texts["place in answer 50"]
    assert head._check_xy()  # else it is not drawn
    assert head.get_window_extent().y0 >= first.get_window_extent().y1
    assert head.get_window_extent().y1 <= figure.legends[0].get_window_extent().y0


def test_patterns_are_drawn_if_two_cells_were_analysed():
    results = example(complete=True)
    one = {"coupling, 1 layer": 0.9}
    assert "patterns" not in drawn(with_heads(results, one))
    assert "patterns" in drawn(with_heads(results, one | {"coupling, 2 layers": 0.7}))


@pytest.mark.parametrize(("least", "begin"), [(0.97, 80), (0.85, 80), (0.79, 60), (0.05, 0)])
def test_the_axis_of_patterns_begins_where_marks_do(least, begin):
    masses = {"coupling, 1 layer": 1.0, "coupling, 2 layers": least}
    (axes,) = plot_patterns(with_heads(example(complete=True), masses)).axes
    left, right = axes.get_xlim()
    margin = 0.03 * (100 - begin)
    assert (left, right) == pytest.approx((begin - margin, 100 + margin))
