"""Sweeps of several axes: a panel per value of the first, heat maps over the others."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

from analysis.figures.choose import draw_figures
from analysis.figures.curves import plot_lengths
from analysis.figures.facets import find_facets
from analysis.figures.maps import plot_grid
from analysis.figures.style import METHOD_COLORS, OTHER_COLORS
from analysis.load import Results, load_sweep
from analysis.rows import read_rows
from analysis.statistics import runs as statistics
from pcore.config import override
from sweeps.baseline import addition
from sweeps.engine.spec import Cell, arms, axis, grid
from sweeps.engine.store.store import Store
from tests.support.rows.example_store import make_evaluation, view_rows, write_trial

METHODS = arms({"coupling": {}, "NoPE": {"position.encoding": "none"}})
LAYERS, HEADS = axis("model.num_layers", 1, 2, 3), axis("model.num_heads", 2, 4)
BASE = addition("laptop")


def store_cells(folder, cells: list[Cell]) -> None:
    """Rows of two seeds per cell; the reach grows from cell to cell."""
    store = Store(folder)
    configs = {
        cell.label: [replace(cell.config, seed=seed, data_seed=seed) for seed in range(2)]
        for cell in cells
    }
    for place, runs in enumerate(configs.values()):
        for config in runs:
            write_trial(store, config, "ok", make_evaluation(9 + place, 1.5, config.seed))
    axes = {cell.label: json.dumps(dict(cell.axes)) for cell in cells}
    rows = view_rows(configs, sweep="grid")
    store.write_view([row | {"axes": axes[row["cell"]]} for row in rows])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("grid")
    store_cells(root, grid(BASE, method=METHODS, layers=LAYERS, heads=HEADS))
    return root


@pytest.fixture(scope="module")
def results(folder) -> Results:
    return load_sweep(folder, "grid", "laptop")


def lines_of(axes) -> list:
    return [line for line in axes.get_lines() if str(line.get_label())[0] != "_"]


def test_every_cell_has_its_line_in_the_panel_of_its_first_axis(results):
    facets = find_facets(results)
    assert facets is not None
    assert facets.names == ("method", "layers", "heads")
    assert facets.values == (("coupling", "NoPE"), (1, 2, 3), (2, 4))
    figure, medians = plot_lengths(results), statistics.cell_curves(results.evaluation)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["coupling", "NoPE"]
    for axes, method in zip(figure.axes, facets.values[0], strict=True):
        places = itertools.product(*facets.values[1:])
        for line, place in zip(lines_of(axes), places, strict=True):
            assert line.get_label() == f"layers {place[0]}, heads {place[1]}"
            curve = medians[medians["cell"] == facets.cells[method, *place]]
            assert line.get_ydata() == pytest.approx(100 * curve["median"])
        low, high = axes.get_xlim()
        assert 0.5 < low < 1 <= min(axes.get_xticks()) < max(axes.get_xticks()) <= 20 < high < 21


def test_a_map_per_value_of_the_first_of_three_axes(results):
    figure = plot_grid(results)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["coupling", "NoPE"]
    (mesh,) = figure.axes[1].collections
    medians = statistics.cell_curves(results.evaluation).set_index(["cell", "length"])["median"]
    last = 100 * medians["NoPE, num_layers=3, num_heads=4", 20]
    assert np.asarray(mesh.get_array())[0, 1] == pytest.approx(last), "numbers grow upwards"
    assert "not tested" not in figure.get_supxlabel()
    fewer = replace(results, evaluation=results.evaluation.query("cell != @results.cells[3]"))
    assert "not tested" in " ".join(plot_grid(fewer).get_supxlabel().split())


def test_two_axes_are_one_map_and_the_sweep_gets_both_figures(tmp_path):
    store_cells(tmp_path, grid(BASE, method=METHODS, layers=LAYERS))
    results = load_sweep(tmp_path, "grid", "laptop")
    figures = {figure.name: figure for figure in draw_figures(results)}
    assert "a panel per method" in figures["lengths"].caption
    (axes,) = figures["grid"].figure.axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["coupling", "NoPE"]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "2", "3"]


def test_a_first_cell_without_a_place_is_drawn_in_every_panel(tmp_path):
    norms = arms({"RMSNorm": {}, "LayerNorm": {"model.norm": "layer"}})
    deep = override(BASE, {"model.num_layers": 6})
    reference = Cell(label="reference", config=deep)
    store_cells(tmp_path, [reference, *grid(BASE, method=METHODS, norm=norms)])
    results = load_sweep(tmp_path, "grid", "laptop")
    figure = plot_lengths(results)
    for axes in figure.axes:
        assert [line.get_label() for line in lines_of(axes)] == [
            *("reference", "RMSNorm", "LayerNorm")
        ]
        colors = [line.get_color() for line in lines_of(axes)[1:]]
        assert colors == list(OTHER_COLORS[:2]), "norms have no order"
    (grid_axes,) = plot_grid(results).axes
    assert len(grid_axes.get_yticklabels()) == len(grid_axes.get_xticklabels()) == 2


def test_methods_on_the_second_axis_have_the_colours_of_methods(tmp_path):
    norms = arms({"RMSNorm": {}, "LayerNorm": {"model.norm": "layer"}})
    store_cells(tmp_path, grid(BASE, norm=norms, method=METHODS))
    for axes in plot_lengths(load_sweep(tmp_path, "grid", "laptop")).axes:
        expected = [METHOD_COLORS["learned coupled"], METHOD_COLORS["NoPE"]]
        assert [line.get_color() for line in lines_of(axes)] == expected


@pytest.mark.parametrize(
    "cells",
    [
        grid(BASE, layers=LAYERS),
        grid(BASE, layers=LAYERS, heads=axis("model.num_heads", 2)),
        grid(BASE, layers=LAYERS) + grid(BASE, heads=axis("model.num_heads", 2)),
        [replace(cell, axes={}) for cell in grid(BASE, layers=LAYERS, heads=HEADS)],
    ],
    ids=["one axis", "one value", "two grids", "an older view"],
)
def test_other_sweeps_have_no_facets(tmp_path, cells):
    store_cells(tmp_path, cells)
    assert find_facets(load_sweep(tmp_path, "grid", "laptop")) is None


def test_rows_in_hand_have_axes_configuration_and_counts(folder, results):
    rows = read_rows(folder)
    assert len(rows) == len(results.evaluation)
    assert list(rows.columns[:6]) == [
        *("sweep", "scale", "cell"),
        *("axis.method", "axis.layers", "axis.heads"),
    ]
    assert (rows["axis.layers"] == rows["model.num_layers"]).all()
    assert rows["exact_match"].equals(rows["num_correct"] / rows["num_examples"])
    assert len(rows.drop_duplicates(["trial_id", "length"])) == len(rows)
    assert len(read_rows(folder, ["grid"], "laptop", checkpoint=None)) == len(rows)
    with pytest.raises(ValueError, match=r"no such sweep; there: grid \[laptop\]"):
        read_rows(folder, "gird")
    with pytest.raises(ValueError, match=rf"there: none; did you mean {folder.parent}/\w+\?"):
        read_rows(folder.parent)
    with pytest.raises(ValueError, match="there: none; there is no such folder"):
        read_rows(folder / "nowhere")


def test_rows_of_several_scales_are_not_pooled_unasked(tmp_path):
    store_cells(tmp_path, grid(BASE, layers=LAYERS))
    store = Store(tmp_path)
    view = store.load_view("grid", "laptop").to_pylist()
    store.write_view([row | {"scale": "smoke"} for row in view])
    with pytest.raises(ValueError, match="has rows at laptop and smoke scale: choose scale="):
        read_rows(tmp_path, "grid")
    both = read_rows(tmp_path, "grid", "all")
    assert set(both["scale"]) == {"laptop", "smoke"}
    assert len(both) == 2 * len(read_rows(tmp_path, "grid", "smoke")) > 0
