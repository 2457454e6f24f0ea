"""Figures by their structure: which lines, which values, which marks."""

import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis import figures, statistics, style
from analysis.load import load_sweep, select_checkpoint
from sweeps.engine.store import Store
from tests.test_analysis_load import (
    CELLS,
    build_store,
    example,
    make_config,
    view_rows,
    write_trial,
)


def lines_of(figure: Figure) -> dict[str, Line2D]:
    """The median lines by cell."""
    lines = figure.axes[0].get_lines()
    return {str(line.get_label()): line for line in lines if str(line.get_label())[0] != "_"}


def test_lengths_shows_the_medians_of_every_cell():
    results = example()
    figure = figures.plot_lengths(results)
    lines = lines_of(figure)
    assert list(lines) == list(CELLS)
    curves = statistics.cell_curves(select_checkpoint(results, "last"))
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
    looks = [style.look_of(i) for i in range(8)]
    for values in zip(*((look.color, look.marker, look.line) for look in looks), strict=True):
        assert len(set(values)) == 8


def test_bands_span_worst_to_best_of_three_runs():
    results = example(complete=True)
    (band,) = [
        c
        for c in figures.plot_lengths(results).axes[0].collections
        if c.get_label() == "_band coupling, 1 layer"
    ]
    curves = statistics.cell_curves(select_checkpoint(results, "last"))
    curve = curves[(curves["cell"] == "coupling, 1 layer") & (curves["length"] == 16)].iloc[0]
    points = band.get_paths()[0].vertices
    heights = points[points[:, 0] == 16, 1]
    assert {heights.min(), heights.max()} == {100 * curve["worst"], 100 * curve["best"]}


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
    for kind in ("png", "pdf"):
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
    write_trial(store, config, "ok")
    results = load_sweep(tmp_path, "depth_ablation", "laptop")
    assert np.isfinite(lines_of(figures.plot_losses(results))["a"].get_ydata()).all()
    style.save(figures.plot_losses(results), tmp_path / "one")
