"""Why models fail and what their heads look at, from rows to frames, figures and a verdict."""

import dataclasses

import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.text import Annotation

from analysis.figures.choose import draw_figures
from analysis.figures.mechanism import plot_failures, plot_patterns
from analysis.load import RUN, load_sweep, no_mechanism
from analysis.statistics.mechanism import cause_strengths, pattern_masses
from sweeps.engine.store.beside import MECHANISM, MECHANISMS
from sweeps.engine.store.store import Store
from tests.support.rows.example_store import example

COUPLED, NOPE = "coupling, 1 layer", "NoPE, 3 layers"


def with_rows(results, rows):
    """The results with mechanism rows (run number, columns) of the runs of each cell."""
    found = []
    for cell, number, columns in rows:
        run = results.trials[results.trials["cell"] == cell].iloc[number]
        found.append({**run[RUN], **columns})
    frame = pd.DataFrame(found).reindex(columns=[*no_mechanism().columns, "trial_id"])
    return dataclasses.replace(results, mechanism=frame.loc[:, ~frame.columns.duplicated()])


def head(pattern, mass, number=0, most=0.8, level="significance", length=8):
    names = {"kind": "head", "layer": 0, "head": number, "level": level, "pattern": pattern}
    return names | {"length": length, "mass_beyond_bos": mass, "most_beyond_bos": most}


def failures(length, count):
    kinds = {"num_missed_stop": 0, "num_early_stop": count, "num_wrong_symbol": 0}
    return {"kind": "failures", "length": length, **kinds}


def cause(length, name, strength):
    return {"kind": "cause", "length": length, "cause": name, "strength": strength}


def test_a_pattern_counts_in_the_head_that_shows_it_best():
    results = example(complete=True)
    rows = [head("next", 0.4, 0), head("next", 0.2, 1), head("same", 0.1, 0), head("same", 0.8, 1)]
    rows.append(head("next", 0.8, 0, length=20))  # a longer length does not count
    masses = pattern_masses(with_rows(results, [(COUPLED, 0, row) for row in rows]))
    assert len(masses) == 1
    run = masses.iloc[0]
    assert (run["length"], run["cell"]) == (8, COUPLED)
    assert [run["next"], run["same"], run["pattern"]] == pytest.approx([0.5, 1.0, 0.5])


def test_levels_of_ids_are_averaged():
    rows = [head("next", 0.8), head("next", 0.4, level="operand"), head("same", 0.8)]
    masses = pattern_masses(with_rows(example(), [(COUPLED, 0, row) for row in rows]))
    assert masses.iloc[0]["next"] == pytest.approx(0.75)


def test_strengths_are_weighted_by_failures_and_unnamed_causes_count_as_0():
    rows = [failures(12, 30), failures(14, 90), failures(16, 0)]
    rows += [cause(12, "position ID", 0.8), cause(14, "early stop", 1.0), cause(14, "start", 0.4)]
    rows += [cause(12, "position ID (width)", 0.6)]  # of two levels the stronger one
    found = cause_strengths(with_rows(example(), [(COUPLED, 0, row) for row in rows]))
    assert list(found["cell"]) == [COUPLED]
    assert found["position ID"].iloc[0] == pytest.approx(0.8 * 30 / 120)
    assert found["start of counting"].iloc[0] == pytest.approx(0.4 * 90 / 120)
    assert "early stop" not in found  # a kind of failure: the bars show it


def test_strengths_are_medians_over_runs():
    rows = [(COUPLED, run, failures(12, 10)) for run in range(3)]
    rows += [(COUPLED, run, cause(12, "place", x)) for run, x in enumerate((0.2, 0.9, 0.4))]
    found = cause_strengths(with_rows(example(complete=True), rows))
    assert found["place in answer"].iloc[0] == pytest.approx(0.4)


def test_without_analysed_models_there_is_nothing_but_the_bars():
    results = example()
    assert pattern_masses(results).empty
    assert cause_strengths(results).empty
    names = [drawing.name for drawing in draw_figures(results)]
    assert "failures" in names
    assert "patterns" not in names
    figure = plot_failures(results)
    assert len(figure.axes) == 1
    with pytest.raises(ValueError, match="no run with coupled IDs was analysed"):
        plot_patterns(results)


def test_bars_are_the_failed_share_of_test_examples_by_kind():
    results = example(complete=True)
    rows = results.evaluation
    rows = rows[(rows["checkpoint"] == "last") & (rows["range"] == "test")]
    rows = rows[rows["status"] == "ok"]
    axes = plot_failures(results).axes[0]
    cells = [label.get_text() for label in axes.get_yticklabels()]
    for bars in axes.containers:
        kind = {"wrong symbol": "num_wrong_symbol", "stops too early": "num_early_stop"}
        column = kind.get(bars.get_label(), "num_missed_stop")
        for cell, bar in zip(cells, bars, strict=True):
            own = rows[rows["cell"] == cell]
            share = own[column].sum() / own["num_examples"].sum()
            assert bar.get_width() == pytest.approx(100 * share)


def test_causes_stand_beside_the_bars_the_strongest_first():
    rows = [(COUPLED, 0, failures(12, 10)), (COUPLED, 0, cause(12, "place", 0.25))]
    rows += [(COUPLED, 0, cause(12, name, x)) for name, x in (("start", 0.5), ("position ID", 0.3))]
    rows += [(COUPLED, 0, cause(12, "significance", 0.2))]  # the fourth
    rows += [(NOPE, 0, failures(12, 10)), (NOPE, 0, cause(12, "place", 0.004))]
    rows += [("APE, 3 layers", 0, failures(12, 0))]
    (axes,) = plot_failures(with_rows(example(), rows)).axes
    cells = [label.get_text() for label in axes.get_yticklabels()]
    beside = {cells[int(text.xy[1])]: text.get_text() for text in notes_of(axes)[1:]}
    assert list(beside) == cells
    assert beside[COUPLED] == "start of counting 50, position ID 30, place in answer 25"
    assert beside[NOPE] == "none found"
    assert beside["APE, 3 layers"] == "no failures"
    assert beside["coupling, 2 layers"] == "not analysed"


def test_where_no_cause_was_found_there_are_only_bars():
    rows = [(NOPE, 0, failures(12, 10)), (NOPE, 0, cause(12, "place", 0.004))]
    (axes,) = plot_failures(with_rows(example(), rows)).axes
    assert not notes_of(axes)


def notes_of(axes: Axes) -> list[Annotation]:
    return [text for text in axes.texts if isinstance(text, Annotation)]


def test_a_mark_per_run_shows_mass_and_exact_match_at_the_longest_length():
    results = example(complete=True)
    rows = [(COUPLED, run, head(p, 0.4)) for run in range(3) for p in ("next", "same")]
    figure = plot_patterns(with_rows(results, rows))
    axes = figure.axes[0]
    (line,) = axes.get_lines()
    assert list(line.get_xdata()) == pytest.approx([50.0] * 3)
    evaluation = results.evaluation
    own = evaluation[(evaluation["cell"] == COUPLED) & (evaluation["length"] == 20)]
    assert sorted(line.get_ydata()) == pytest.approx(sorted(100 * own["exact_match"]))
    assert axes.get_ylabel() == "exact match at 20 (%)"


def test_rows_of_the_store_come_with_their_run(tmp_path):
    from tests.support.rows.example_store import build_store

    build_store(tmp_path)
    store = Store(tmp_path)
    name = load_sweep(tmp_path, "depth_ablation", "laptop").trials["trial_id"].iloc[0]
    MECHANISMS.write(store.folder, name, [head("next", 0.4), head("same", 0.4)])
    results = load_sweep(tmp_path, "depth_ablation", "laptop")
    assert len(results.mechanism) == 2
    assert set(results.mechanism.columns) == {*RUN, *MECHANISM}
    assert len(pattern_masses(results)) == 1
