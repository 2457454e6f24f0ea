"""The picture of attention shows the averaged weights, labelled, above the construction's."""

import dataclasses

import numpy as np
import pytest
from matplotlib.collections import QuadMesh

from analysis.__main__ import main
from analysis.figures.attention import _choose, plot_attention
from pcore.checkpoint import save_model
from pcore.config import override
from pcore.diagnosis.attention import average_attention
from pcore.model import make_model


def panels(figure):
    """(title, squares, axes) of every heat map, in their order."""
    found = []
    for axes in figure.axes:
        meshes = [m for m in axes.collections if isinstance(m, QuadMesh)]
        if meshes and axes.get_title(loc="left"):
            found.append((axes.get_title(loc="left"), meshes[0].get_array(), axes))
    return found


@pytest.fixture
def one_layer(tiny_config):
    return override(tiny_config, {"model.num_layers": 1})


def test_panels_hold_the_weights_of_heads_and_of_the_construction(one_layer):
    found = average_attention(make_model(one_layer), one_layer, 3, 50)
    drawn = panels(plot_attention(found))
    assert [title.split(":")[0] for title, _, _ in drawn[:2]] == ["head 1", "head 2"]
    words = {f"construction: {which} sig. + BOS" for which in ("next", "same")}
    assert {title for title, _, _ in drawn[2:]} == words
    for number, (_, squares, axes) in enumerate(drawn[:2]):
        expected = found.weights[0, number, 8:].numpy()
        assert squares.shape == (5, 13)
        assert np.ma.getmaskarray(squares).sum() == 4 + 3 + 2 + 1  # what is not yet written
        assert squares.compressed() == pytest.approx(expected[~np.ma.getmaskarray(squares)])
        names = [text.get_text() for text in axes.get_xticklabels()]
        assert names == [
            r"\$", "$a_{3}$", "$a_{2}$", "$a_{1}$", "+", "$b_{3}$", "$b_{2}$", "$b_{1}$", "=",
            "$c_{1}$", "$c_{2}$", "$c_{3}$", "$c_{4}$",
        ]  # fmt: skip
        assert [text.get_text() for text in axes.get_yticklabels()] == names[8:]


def test_each_pattern_stands_below_the_head_that_is_like_it(one_layer):
    found = average_attention(make_model(one_layer), one_layer, 3, 20)
    for order in ((0, 1), (1, 0)):
        weights = found.weights.clone()
        weights[0, :, 8:] = found.predicted[0][list(order)]
        heads = []
        for head, number in zip(found.heads, order, strict=True):
            masses = [0.9 if k == number else 0.1 for k in (0, 1)]
            likenesses = [
                dataclasses.replace(like, mass_beyond_bos=mass)
                for like, mass in zip(head.likenesses, masses, strict=True)
            ]
            heads.append(dataclasses.replace(head, likenesses=tuple(likenesses)))
        drawn = panels(
            plot_attention(dataclasses.replace(found, weights=weights, heads=tuple(heads)))
        )
        for above, below in ((0, 2), (1, 3)):
            assert np.ma.allclose(drawn[above][1], drawn[below][1])


@pytest.mark.parametrize(
    ("changes", "said", "title"),
    [
        (
            {"task.name": "multiplication"},
            "a, b: operands, c: product; 1: ones digit",
            " sig. + BOS",
        ),
        ({"task.name": "copy"}, "a: query, b: response; 1: first symbol; $: BOS", " ID + BOS"),
        ({"position.encoding": "none"}, "the construction predicts nothing", "head"),
    ],
)
def test_letters_places_and_panels_are_those_of_the_task(one_layer, changes, said, title):
    config = override(one_layer, changes)
    figure = plot_attention(average_attention(make_model(config), config, 3, 5))
    assert said in figure.get_supxlabel().replace("\n", " ")
    assert all(title in found for found, _, _ in panels(figure))


def test_labels_never_touch_and_symbols_come_first():
    names = ("$", *(f"a{k}" for k in range(40, 0, -1)), "+", *(f"b{k}" for k in range(40, 0, -1)))
    kept = _choose(names, 4)
    assert min(np.diff(kept)) >= 4
    assert {"$", "+"} <= {names[i] for i in kept}
    assert all(int(names[i][1:]) % 5 == 0 for i in kept if len(names[i]) > 1)
    assert _choose(names, 1) == list(range(len(names)))


def test_the_command_draws_a_checkpoint_and_refuses_what_is_none(one_layer, tmp_path, capsys):
    file = tmp_path / "m.pt"
    save_model(file, one_layer, make_model(one_layer).state_dict())
    assert main(["attention", str(file), "--examples", "20"]) == 0
    for kind in ("png", "pdf", "svg"):
        drawn = tmp_path / f"m-attention-3.{kind}"
        assert drawn.stat().st_size > 5000
        assert drawn.name in capsys.readouterr().out or kind != "png"
    assert main(["attention", str(file), "--length", "19"]) == 2
    assert "max_position=20 is below 21" in capsys.readouterr().err
