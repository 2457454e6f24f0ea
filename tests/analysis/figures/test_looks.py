"""Looks: one colour per method in every sweep, the number along which cells differ, the panels."""

import itertools
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from analysis.figures import style
from analysis.figures.choose import choose_figures
from analysis.figures.curves import plot_lengths
from analysis.figures.looks import cell_looks, find_facets, have_order, method_color
from analysis.figures.maps import plot_grid
from analysis.load import load_sweep
from analysis.statistics import runs as statistics
from pcore.config import override
from pcore.encodings import ENCODINGS
from sweeps.baseline import addition
from sweeps.engine.spec import Cell, arms, axis, grid
from tests.analysis.figures.test_figures import PUBLISHED, lines_of
from tests.support.rows.example_store import CELLS, example
from tests.support.rows.example_store import build_sweep as build_runs

METHODS = arms({"coupling": {}, "NoPE": {"position.encoding": "none"}})
NORMS = arms({"RMSNorm": {}, "LayerNorm": {"model.norm": "layer"}})
LAYERS, HEADS = axis("model.num_layers", 1, 2, 3), axis("model.num_heads", 2, 4)
BASE = addition("laptop")
build_sweep = partial(build_runs, num_seeds=1)


def test_a_method_has_one_colour_in_every_sweep():
    looks = cell_looks(example())
    colors = {cell: look.color for cell, look in looks.items()}
    assert colors["NoPE, 3 layers"].upper() == style.METHOD_COLORS["NoPE"]
    assert colors["APE, 3 layers"] == style.METHOD_COLORS["learned sequential"]
    two = cell_looks(load_sweep(PUBLISHED, "operand_lengths", "laptop"))
    assert two["NoPE"].color == colors["NoPE, 3 layers"]
    assert two["coupling"].color == style.METHOD_COLORS["learned coupled"]
    assert len(set(style.METHOD_COLORS.values())) == len(style.METHOD_COLORS) - 1  # candidates
    assert set(ENCODINGS) - {"none"} <= {name.partition(" ")[0] for name in style.METHOD_COLORS}
    own = {"position.encoding": "my_encodings:Mine", "position.ids": "coupled"}
    color = method_color(own)
    assert color == method_color(own | {"position.ids": "sequential", "model.num_layers": 2})
    assert color in set(style.OTHER_COLORS) - set(style.METHOD_COLORS.values())
    for values in zip(*((s.color, s.marker, s.line) for s in looks.values()), strict=True):
        assert len(set(values)) == len(CELLS), "also in grey"


def test_cells_of_one_method_have_colours_that_differ_light_to_dark_if_in_an_order(tmp_path: Path):
    deep = Cell(label="deep", config=override(BASE, {"model.num_layers": 6}))  # and two norms
    words = build_sweep(tmp_path, [deep, *grid(BASE, norm=NORMS)])
    found = [load_sweep(PUBLISHED, "heads_ablation", "laptop"), words]
    assert [have_order(results) for results in found] == [True, False]
    for colors in ([look.color for look in cell_looks(results).values()] for results in found):
        pairs = itertools.combinations(map(np.array, map(to_rgb, colors)), 2)
        assert min(np.linalg.norm(a - b) for a, b in pairs) > 0.24
    assert [look.color for look in cell_looks(words).values()] == list(style.OTHER_COLORS[:3])
    shades = {c: look.color for c, look in cell_looks(example()).items() if c.startswith("coup")}
    heads = {c: look.color for c, look in cell_looks(found[0]).items()}
    for colors in (shades, heads):
        light = [float(np.dot(to_rgb(c), [0.299, 0.587, 0.114])) for c in colors.values()]
        assert light == sorted(set(light), reverse=True)


# Panels -------------------------------------------------------------------------------------------


def test_three_axes_are_a_panel_per_value_of_the_first_and_as_many_maps(tmp_path: Path):
    results = build_sweep(tmp_path, grid(BASE, method=METHODS, layers=LAYERS, heads=HEADS))
    facets = find_facets(results)
    assert facets is not None
    assert facets.names == ("method", "layers", "heads")
    assert facets.values == (("coupling", "NoPE"), (1, 2, 3), (2, 4))
    figure, medians = plot_lengths(results), statistics.cell_curves(results.evaluation)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["coupling", "NoPE"]
    for axes, method in zip(figure.axes, facets.values[0], strict=True):
        places = itertools.product(*facets.values[1:])
        for line, place in zip(lines_of(axes).values(), places, strict=True):
            assert line.get_label() == f"layers {place[0]}, heads {place[1]}"
            curve = medians[medians["cell"] == facets.cells[method, *place]]
            assert line.get_ydata() == pytest.approx(100 * curve["median"])
    figure = plot_grid(results, facets)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["coupling", "NoPE"]
    (mesh,) = figure.axes[1].collections
    at = medians.set_index(["cell", "length"])["median"]
    last = 100 * at["NoPE, num_layers=3, num_heads=4", 20]
    assert np.asarray(mesh.get_array())[0, 1] == pytest.approx(last), "numbers grow upwards"
    assert "not tested" not in figure.get_supxlabel()
    fewer = replace(results, evaluation=results.evaluation.query("cell != @results.cells[3]"))
    assert "not tested" in " ".join(plot_grid(fewer, facets).get_supxlabel().split())


def test_two_axes_are_one_map_and_a_cell_without_a_place_is_in_every_panel(tmp_path: Path):
    reference = Cell(label="reference", config=override(BASE, {"model.num_layers": 6}))
    results = build_sweep(tmp_path, [reference, *grid(BASE, method=METHODS, norm=NORMS)])
    figures = {figure.name: figure for figure in choose_figures(results)}
    assert "a panel per method" in figures["lengths"].caption
    for axes in figures["lengths"].draw().axes:
        assert list(lines_of(axes)) == ["reference", "RMSNorm", "LayerNorm"]
        colors = [line.get_color() for line in lines_of(axes).values()][1:]
        assert colors == list(style.OTHER_COLORS[:2]), "norms have no order"
    for axes in plot_lengths(build_sweep(tmp_path / "b", grid(BASE, n=NORMS, m=METHODS))).axes:
        colors = [style.METHOD_COLORS[name] for name in ("learned coupled", "NoPE")]
        kept = [line.get_color() for line in lines_of(axes).values()]
        assert kept == colors, "methods keep theirs"
    shaded = build_sweep(tmp_path / "c", grid(BASE, n=NORMS, m=METHODS, heads=HEADS))
    for axes in plot_lengths(shaded).axes:
        shades = [line.get_color().upper() for line in lines_of(axes).values()]
        assert [shades[0], shades[3]] == colors, "each in two shades, of black the lighter first"
        assert len(set(shades)) == 4
    (axes,) = figures["grid"].draw().axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["coupling", "NoPE"]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["RMSNorm", "LayerNorm"]


@pytest.mark.parametrize(
    "cells",
    [
        grid(BASE, layers=LAYERS, heads=axis("model.num_heads", 2)),
        grid(BASE, layers=LAYERS) + grid(BASE, heads=axis("model.num_heads", 2)),
        [replace(cell, axes={}) for cell in grid(BASE, layers=LAYERS, heads=HEADS)],
    ],
    ids=["one value", "two grids", "an older view"],
)
def test_other_sweeps_have_no_facets(tmp_path: Path, cells: list[Cell]):
    assert find_facets(build_sweep(tmp_path, cells)) is None
