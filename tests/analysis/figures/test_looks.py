"""Looks: one colour per method in every sweep, and the number along which cells differ."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from analysis.figures import style
from analysis.figures.curves import plot_axis
from analysis.figures.looks import cell_looks, find_axis, method_color, number
from analysis.load import Results
from pcore.encodings import ENCODINGS
from tests.support.rows import analysis_examples as examples
from tests.support.rows.example_store import CELLS, example

METHODS = {color.upper() for color in style.METHOD_COLORS.values()}


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


def test_one_number_that_varies_is_an_axis(tmp_path: Path):
    axis = find_axis(examples.heads(tmp_path))
    assert axis.name == "model.num_heads"
    assert list(axis.values.values()) == [1, 2, 4, 8]
    assert (axis.label, axis.is_log, axis.tied) == ("heads", True, ())
    assert find_axis(examples.layers_by_heads(tmp_path)) is None


def test_cells_that_differ_in_words_have_no_axis():
    assert find_axis(example()) is None
    with pytest.raises(ValueError, match="do not differ in one number"):
        plot_axis(example())


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


def test_an_own_encoding_has_a_color_of_its_own_the_same_in_every_sweep():
    own = {"position.encoding": "my_encodings:Mine", "position.ids": "coupled"}
    color = method_color(own)
    assert color == method_color(own | {"position.ids": "sequential", "model.num_layers": 2})
    assert color in style.OTHER_COLORS
    others = {method_color({"position.encoding": f"my_encodings:E{i}"}) for i in range(20)}
    assert len(others) > 1


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
