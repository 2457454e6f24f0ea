"""Figures by their structure: which lines, which values, which marks."""

import dataclasses
import itertools
import sys
import warnings
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.figures import axis as axis_figures
from analysis.figures import heat_maps, style
from analysis.figures import lengths as figures
from analysis.figures.choose import draw_figures
from analysis.figures.looks import cell_looks, find_axis, method_color, number
from analysis.load import Results, load_sweep
from analysis.statistics import runs as statistics
from analysis.tables.sweep_tables import ablation_table
from pcore.encodings import ENCODINGS
from sweeps.engine.store.store import Store
from tests.support.rows import analysis_examples as examples
from tests.support.rows.example_store import (
    CELLS,
    build_store,
    example,
    make_config,
    make_evaluation,
    view_rows,
    write_trial,
)

METHODS = {color.upper() for color in style.METHOD_COLORS.values()}
NORMS = ("rms", "layer")


def lines_of(figure: Figure) -> dict[str, Line2D]:
    """The median lines by cell."""
    lines = figure.axes[0].get_lines()
    return {str(line.get_label()): line for line in lines if str(line.get_label())[0] != "_"}


def test_lengths_shows_the_medians_of_every_cell():
    results = example()
    figure = figures.plot_lengths(results)
    lines = lines_of(figure)
    assert list(lines) == list(CELLS)
    curves = statistics.cell_curves(results.evaluation)
    for cell, line in lines.items():
        curve = curves[curves["cell"] == cell]
        assert line.get_xdata() == pytest.approx(curve["length"])
        assert line.get_ydata() == pytest.approx(100 * curve["median"])
    axes = figure.axes[0]
    assert axes.get_ylabel() == "exact match (%)"
    assert [text.get_text() for text in axes.texts] == ["trained", "near", "1.5×", "2×"]


def test_the_legend_reads_row_by_row():
    figure = figures.plot_lengths(example())
    (legend,) = figure.legends
    figure.draw_without_rendering()
    places = {t.get_text(): t.get_window_extent() for t in legend.get_texts()}
    by_eye = sorted(places, key=lambda name: (-round(places[name].y0), places[name].x0))
    assert by_eye == list(CELLS)


def test_every_cell_looks_different_even_in_grey():
    styles = cell_looks(example()).values()
    for values in zip(*((s.color, s.marker, s.line) for s in styles), strict=True):
        assert len(set(values)) == len(CELLS)


def test_cells_of_one_method_have_colours_that_differ(tmp_path: Path):
    def nearest(results: Results) -> float:
        """The smallest distance of two colours, from 0 to 1.7."""
        colors = [np.array(to_rgb(look.color)) for look in cell_looks(results).values()]
        return min(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(colors, 2))

    assert nearest(examples.heads(tmp_path)) > 0.24  # differ in a number
    arms = {name: ({"model.norm": name}, 12.0) for name in ("rms", "layer")}
    arms["deep"] = ({"model.num_layers": 3}, 12.0)  # together: in no single number
    words = examples.build_sweep(tmp_path, "norms", arms)
    assert nearest(words) > 0.24
    colors = [look.color for look in cell_looks(words).values()]
    assert colors == list(style.OTHER_COLORS[:3])  # words have no order
    assert not {color.upper() for color in style.OTHER_COLORS} & METHODS


def test_more_cells_of_one_method_than_colours_are_shades(tmp_path: Path):
    arms = {f"{d}{n}": ({"model.d_ff": d, "model.norm": n}, 9.0) for n in NORMS for d in range(5)}
    styles = cell_looks(examples.build_sweep(tmp_path, "many", arms, num_seeds=1))
    assert len(styles) == 10 > len(style.OTHER_COLORS)
    assert len({look.color for look in styles.values()}) == 10


def test_a_method_has_one_colour_in_every_sweep(tmp_path: Path):
    colors = {cell: look.color for cell, look in cell_looks(example()).items()}
    assert colors["NoPE, 3 layers"].upper() == style.METHOD_COLORS["NoPE"]
    assert colors["APE, 3 layers"] == style.METHOD_COLORS["learned sequential"]
    two = cell_looks(examples.two_lengths(tmp_path))
    assert two["NoPE"].color == colors["NoPE, 3 layers"]
    assert two["coupling"].color == style.METHOD_COLORS["learned coupled"]
    assert len(set(style.METHOD_COLORS.values())) == len(style.METHOD_COLORS) - 1  # candidates


def test_every_encoding_has_a_colour():
    assert set(ENCODINGS) - {"none"} <= {name.partition(" ")[0] for name in style.METHOD_COLORS}


def test_shades_and_palettes_go_from_light_to_dark(tmp_path: Path):
    def darkness(colors):
        return [-float(np.dot(to_rgb(color), [0.299, 0.587, 0.114])) for color in colors]

    styles = cell_looks(example())
    shades = darkness(styles[cell].color for cell in CELLS if cell.startswith("coupling"))
    assert shades == sorted(set(shades))
    heads = darkness(look.color for look in cell_looks(examples.heads(tmp_path)).values())
    assert heads == sorted(set(heads))


def test_three_runs_are_thin_lines_without_a_band():
    results = example(complete=True)
    axes = figures.plot_lengths(results).axes[0]
    assert not [c for c in axes.collections if "_band" in str(c.get_label())]
    thin = [line for line in axes.get_lines() if line.get_label() == "_run"]
    assert len(thin) == 3 * len(CELLS)
    rows = statistics.run_curves(results.evaluation)
    rows = rows[rows["cell"] == "coupling, 1 layer"]
    first = rows[rows["trial_id"] == rows["trial_id"].iloc[0]]
    assert thin[0].get_ydata() == pytest.approx(100 * first["exact_match"])


def test_eight_runs_are_dots_with_the_interval_as_a_band():
    results = example(complete=True, num_seeds=8)
    axes = figures.plot_lengths(results).axes[0]
    (band,) = [c for c in axes.collections if c.get_label() == "_band coupling, 1 layer"]
    curves = statistics.cell_curves(results.evaluation)
    curve = curves[(curves["cell"] == "coupling, 1 layer") & (curves["length"] == 16)].iloc[0]
    points = band.get_paths()[0].vertices
    heights = points[points[:, 0] == 16, 1]
    assert {heights.min(), heights.max()} == {100 * curve["low"], 100 * curve["high"]}
    assert not [line for line in axes.get_lines() if line.get_label() == "_run"]
    assert len([line for line in axes.get_lines() if line.get_label() == "_runs"]) == len(CELLS)


def test_of_many_runs_the_first_ones_are_drawn_and_the_figure_says_so(monkeypatch):
    monkeypatch.setattr("analysis.figures.shared.marks.MOST_DRAWN", 2)
    results = example(complete=True)
    for draw in (figures.plot_lengths, figures.plot_losses):
        figure = draw(results)
        assert "of which 2 are drawn" in caption_of(figure)
        thin = [line for line in figure.axes[0].get_lines() if line.get_label() == "_run"]
        assert len(thin) == 2 * len(CELLS)


def test_the_length_axis_is_logarithmic_far_beyond_the_trained_lengths():
    results = example(complete=True)
    assert figures.plot_lengths(results).axes[0].get_xscale() == "linear"
    trials = results.trials.assign(**{"data.max_length": 2})
    axes = figures.plot_lengths(dataclasses.replace(results, trials=trials)).axes[0]
    assert axes.get_xscale() == "log"
    assert [text.get_text() for text in axes.texts] == ["trained", "near", "1.5×", "2×"]


@pytest.mark.parametrize(("trained", "scale"), [(8, "linear"), (2, "log")])
def test_the_length_axis_is_that_of_the_tested_lengths(trained: int, scale: str):
    results = example(complete=True)
    trials = results.trials.assign(**{"data.max_length": trained})
    axes = figures.plot_lengths(dataclasses.replace(results, trials=trials)).axes[0]
    assert axes.get_xscale() == scale
    left, right = axes.get_xlim()
    tested = results.evaluation["length"]
    low, high = tested.min(), tested.max()
    assert (low, high) == (1, 20)
    assert 0.5 < left < low
    assert high < right < 1.1 * high
    axes.get_figure().draw_without_rendering()
    shown = [float(tick.get_text()) for tick in axes.get_xticklabels()]
    assert shown == list(axes.get_xticks())  # none without a label
    assert low <= min(shown) < max(shown) <= high
    assert [low, 2, 5, 10, high] == shown or scale == "linear"
    spans = [patch.get_extents().transformed(axes.transData.inverted()) for patch in axes.patches]
    assert min(span.x0 for span in spans) >= left - 1e-9  # the trained range does not stick out
    assert max(span.x1 for span in spans) <= right + 1e-9


def test_many_powers_of_ten_are_the_only_labels_and_do_not_touch():
    results = example(complete=True)
    rows, trials = results.evaluation.copy(), results.trials.assign(**{"data.max_length": 8})
    rows.loc[rows["length"] == 20, "length"] = 10_000
    axes = figures.plot_lengths(dataclasses.replace(results, evaluation=rows, trials=trials)).axes[
        0
    ]
    axes.get_figure().draw_without_rendering()
    labels = [tick for tick in axes.get_xticklabels() if tick.get_text()]
    assert [tick.get_text() for tick in labels] == ["1", "10", "100", "1000", "10000"]
    boxes = [tick.get_window_extent() for tick in labels]
    assert all(a.x1 < b.x0 for a, b in itertools.pairwise(boxes))
    assert 5000 in axes.get_xticks(minor=True)


@pytest.mark.parametrize("trained", [8, 2])  # a linear axis, a logarithmic one
@pytest.mark.parametrize("lengths", [(12,), (11, 19), (3, 4), (20, 1, 7)])
def test_any_lengths_get_labels_between_the_first_and_the_last(trained, lengths):
    results = example(complete=True)
    trials = results.trials.assign(**{"data.max_length": trained})
    _, axes = style.new_figure(2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figures.scale_lengths(axes, dataclasses.replace(results, trials=trials), iter(lengths))
    left, right = axes.get_xlim()
    assert left < min(lengths) <= max(lengths) < right
    shown = list(axes.get_xticks())
    assert min(lengths) <= shown[0] <= shown[-1] <= max(lengths)
    assert len(shown) >= min(2, len(lengths))


def test_trained_lengths_marked_per_cell_are_explained(tmp_path: Path):
    results = example(complete=True)
    assert "dotted" not in caption_of(figures.plot_lengths(results))
    trials = results.trials.copy()
    trials.loc[trials["cell"] == "APE, 3 layers", "data.max_length"] = 6
    figure = figures.plot_lengths(dataclasses.replace(results, trials=trials))
    assert "dotted: longest trained length of each cell" in caption_of(figure)


def test_losses_mark_where_a_run_diverged():
    results = example()
    figure = figures.plot_losses(results)
    assert list(lines_of(figure)) == list(CELLS)
    assert figure.axes[0].get_yscale() == "log"
    (end,) = [line for line in figure.axes[0].get_lines() if line.get_label() == "_end"]
    assert end.get_xdata()[0] == 350


def test_same_frame_same_bytes(tmp_path: Path):
    for name in ("a", "b"):
        style.save(figures.plot_lengths(example()), tmp_path / name)
    for kind in style.KINDS:
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()


def test_nothing_global_changes(tmp_path: Path):
    before = dict(matplotlib.rcParams)
    style.save(figures.plot_losses(example()), tmp_path / "losses")
    assert dict(matplotlib.rcParams) == before
    assert (
        "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()
    )


def test_trained_lengths_that_differ_are_marked_per_cell(tmp_path: Path):
    store = build_store(tmp_path, complete=True, num_seeds=1)
    results = load_sweep(store.root, "depth_ablation", "laptop")
    trials = results.trials.copy()
    trials.loc[trials["cell"] == "APE, 3 layers", "data.max_length"] = 6
    changed = figures.plot_lengths(
        type(results)(**{n: getattr(results, n) for n in results.__slots__} | {"trials": trials})
    )
    marks = [line for line in changed.axes[0].get_lines() if line.get_label() == "_trained"]
    assert sorted(int(line.get_xdata()[0]) for line in marks) == [6, 8, 8, 8, 8, 8]
    assert not [c for c in changed.axes[0].collections if "_band" in str(c.get_label())]


def test_a_single_report_and_no_report_can_be_drawn(tmp_path: Path):
    store, config = Store(tmp_path), make_config({}, 0)
    store.write_view(view_rows({"a": [config]}))
    figure = figures.plot_losses(load_sweep(tmp_path, "depth_ablation", "laptop"))
    assert not lines_of(figure)
    write_trial(store, config, "ok", make_evaluation(9.0, 1.0, 0))
    results = load_sweep(tmp_path, "depth_ablation", "laptop")
    assert np.isfinite(lines_of(figures.plot_losses(results))["a"].get_ydata()).all()
    style.save(figures.plot_losses(results), tmp_path / "one")


def texts_in(figure: Figure) -> list[str]:
    """What is printed inside the panels."""
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def map_of(axes: Axes) -> np.ndarray:
    """The values of a heat map."""
    (mesh,) = (c for c in axes.collections if isinstance(c, QuadMesh))
    return np.ma.filled(np.ma.asarray(mesh.get_array()), np.nan)


def caption_of(figure: Figure) -> str:
    """The small print, without line breaks."""
    assert figure._supxlabel is not None
    return " ".join(figure._supxlabel.get_text().split())


def test_one_number_that_varies_is_an_axis(tmp_path: Path):
    axis = find_axis(examples.heads(tmp_path))
    assert axis.name == "model.num_heads"
    assert list(axis.values.values()) == [1, 2, 4, 8]
    assert (axis.label, axis.is_log, axis.tied) == ("heads", True, ())
    assert find_axis(examples.layers_by_heads(tmp_path)) is None


def test_cells_that_differ_in_words_have_no_axis():
    assert find_axis(example()) is None
    with pytest.raises(ValueError, match="do not differ in one number"):
        axis_figures.plot_axis(example())


def test_numbers_that_change_together_are_one_axis(tmp_path: Path):
    arms = {
        f"width {width}": ({"model.d_model": width, "model.d_ff": 4 * width}, 12.0)
        for width in (64, 128, 256)
    }
    axis = find_axis(examples.build_sweep(tmp_path, "width", arms, num_seeds=1))
    assert (axis.name, axis.tied) == ("model.d_model", ("model.d_ff",))
    assert not axis.is_log


def test_endless_data_comes_after_all_numbers(tmp_path: Path):
    sizes = (10_000, 100_000, None)
    arms = {str(size): ({"data.num_examples": size}, 12.0) for size in sizes}
    axis = find_axis(examples.build_sweep(tmp_path, "sizes", arms, num_seeds=1))
    assert list(axis.ticks.values()) == ["10k", "100k", "endless"]
    assert axis.position(list(axis.values.values())[-1]) == 1_000_000


def test_numbers_are_printed_short_and_exact():
    assert [number(x) for x in (1, 1003, 1000, 50_000, 2_000_000, 3e-5, 0.5)] == (
        ["1", "1003", "1k", "50k", "2M", "3e-5", "0.5"]
    )


def test_the_axis_shows_the_numbers_of_the_table(tmp_path: Path):
    results = examples.heads(tmp_path)
    figure = axis_figures.plot_axis(results)
    table = ablation_table(results).numbers
    lines = lines_of(figure)
    assert list(lines) == ["length 12 (1.5x)", "length 16 (2x)", "length 20 (2.5x)"]
    for (label, line), length in zip(lines.items(), (12, 16, 20), strict=True):
        assert list(line.get_xdata()) == [1, 2, 4, 8], label
        assert line.get_ydata() == pytest.approx(100 * table[f"em_{length}_median"])
    right = {str(line.get_label()): line for line in figure.axes[1].get_lines()}
    assert list(right["L95"].get_ydata()) == table["l95"].tolist()
    assert all(tick == round(tick) for tick in figure.axes[1].get_yticks())
    assert list(right["_bound"].get_xdata()) == [8]  # solves the largest length tested
    assert set(right["_trained"].get_ydata()) == {8}
    assert figure.axes[0].get_xscale() == "log"
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["1", "2", "4", "8"]
    assert "n = 3 runs per cell; checkpoint: last" in caption_of(figure)


def test_a_heat_map_per_cell_shows_both_lengths_and_what_was_trained(tmp_path: Path):
    results = examples.two_lengths(tmp_path)
    figure = heat_maps.plot_heat_map(results)
    panels = figure.axes[:-1]  # the last is the colour bar
    assert [axes.get_title(loc="left") for axes in panels] == ["coupling", "NoPE"]
    assert (panels[0].get_xlabel(), panels[0].get_ylabel()) == ("digits", "operands")
    values = map_of(panels[1])
    rows = results.evaluation
    here = rows[(rows["cell"] == "NoPE") & (rows["length"] == 4) & (rows["second_length"] == 5)]
    assert values[3, 3] == pytest.approx(100 * here["exact_match"].median())
    (outline,) = [line for line in panels[0].get_lines() if line.get_label() == "_trained"]
    x, y = (np.asarray(data, dtype=float) for data in outline.get_data())
    assert (np.nanmin(x), np.nanmax(x)) == (-0.5, 7.5)  # lengths 1 to 8
    assert (np.nanmin(y), np.nanmax(y)) == (-0.5, 1.5)  # second lengths 2 and 3
    assert len(panels[0].texts) == values.size
    with pytest.raises(ValueError, match="several second lengths"):
        heat_maps.plot_heat_map(example())


def test_many_cells_are_a_map_by_length_the_best_on_top(tmp_path: Path):
    arms = {f"d_ff={d_ff}": ({"model.d_ff": d_ff}, 8.0 + d_ff % 7) for d_ff in range(100, 110)}
    results = examples.build_sweep(tmp_path, "widths", arms)
    names = [drawing.name for drawing in draw_figures(results)]
    assert names[:2] == ["lengths", "cells"]
    (axes,) = heat_maps.plot_cells(results).axes
    values, table = map_of(axes), ablation_table(results).numbers.set_index("cell")
    cells = [label.get_text() for label in axes.get_yticklabels()]
    assert sorted(cells) == sorted(arms)
    assert values[:, 0] == pytest.approx(100 * table.loc[cells, "train_median"])
    lengths = [label.get_text() for label in axes.get_xticklabels()]
    assert lengths == ["train", "9*", "10*", "12", "14", "16", "20"]  # *: near
    for length in (12, 16, 20):
        shown = values[:, lengths.index(f"{length}")]
        assert shown == pytest.approx(100 * table.loc[cells, f"em_{length}_median"])
    assert (np.diff(values[:, 1:].mean(axis=1)) >= 0).all()  # the first row is the lowest
    assert len(axes.texts) == values.size
    few = dataclasses.replace(results, view=results.view[results.view["cell"] < "d_ff=108"])
    assert "cells" not in [drawing.name for drawing in draw_figures(few)]


def test_where_numbers_do_not_fit_the_near_range_goes_first(tmp_path: Path):
    def map_with(label: str) -> tuple[list[str], int, int]:
        """Labels of the lengths, numbers, and Axes, if cells have names that long."""
        arms = {f"{d}{label}": ({"model.d_ff": d}, 14.0) for d in range(100, 109)}
        results = examples.build_sweep(tmp_path / str(len(label)), "widths", arms, num_seeds=1)
        figure = heat_maps.plot_cells(results)
        ticks = [tick.get_text() for tick in figure.axes[0].get_xticklabels()]
        return ticks, len(figure.axes[0].texts), len(figure.axes)

    ticks, numbers, num_axes = map_with("x" * 68)
    assert (ticks, numbers, num_axes) == (["train", "12", "14", "16", "20"], 9 * 5, 1)
    ticks, numbers, num_axes = map_with("x" * 80)
    assert (ticks, numbers, num_axes) == (["train", "14", "20"], 0, 2)  # with a colour bar


def test_the_map_stays_readable_in_grey():
    colors = matplotlib.colormaps[style.MAP](np.linspace(0, 1, 50))[:, :3]
    grey = colors @ [0.299, 0.587, 0.114]
    assert (np.diff(grey) > 0).all()
    assert [heat_maps.whole_percent(x) for x in (1.0, 0.999, 0.5, 0.001, 0.0)] == (
        ["100", "99", "50", "<1", "0"]
    )


def test_the_small_print_says_why_99_is_not_100(tmp_path: Path):
    def printed(at_most: float) -> str:
        """The small print of a map whose numbers are this, or 0.3."""
        results = examples.two_lengths(tmp_path / str(at_most))
        rows = results.evaluation.copy()
        rows["exact_match"] = np.where(rows["cell"] == "NoPE", 0.3, at_most)
        rows["num_correct"] = (rows["exact_match"] * rows["num_examples"]).round().astype(int)
        changed = dataclasses.replace(results, evaluation=rows)
        return caption_of(heat_maps.plot_heat_map(changed))

    note = "99: up to 99.99, so that 100 is every answer right"
    assert note in printed(0.998)
    assert note not in printed(0.99)  # is 99
    assert note not in printed(1.0)
    one = pd.DataFrame({12: [0.2, np.nan], 14: [0.996, 1.0]})
    assert heat_maps.explain_percents(one) == f"; {note}"


def test_small_print_is_never_wider_than_the_figure(tmp_path: Path):
    for drawing in draw_figures(examples.heads(tmp_path)):
        figure = drawing.figure
        with style.apply():
            figure.draw_without_rendering()
        box = figure._supxlabel.get_window_extent()
        assert box.x0 >= 0, drawing.name
        assert box.x1 <= figure.bbox.x1, drawing.name


def test_labels_above_the_plot_do_not_overlap():
    results = example()
    is_near = results.evaluation["length"].between(9, 14)
    near = results.evaluation["range"].mask(is_near, "near")
    figure = figures.plot_lengths(
        dataclasses.replace(results, evaluation=results.evaluation.assign(range=near))
    )
    assert texts_in(figure) == ["trained", "near", "2×"]  # 1.5x stands where "near" does
    assert len([x for x in figure.axes[0].get_lines() if x.get_label() == "_multiple"]) == 2


def test_a_single_report_has_a_marker(tmp_path: Path):
    figure = figures.plot_losses(examples.heads(tmp_path))
    assert all(line.get_markevery() is None for line in lines_of(figure).values())


def test_an_own_encoding_has_a_color_of_its_own_the_same_in_every_sweep():
    own = {"position.encoding": "my_encodings:Mine", "position.ids": "coupled"}
    color = method_color(own)
    assert color == method_color(own | {"position.ids": "sequential", "model.num_layers": 2})
    assert color in style.OTHER_COLORS
    others = {method_color({"position.encoding": f"my_encodings:E{i}"}) for i in range(20)}
    assert len(others) > 1
