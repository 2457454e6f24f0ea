"""Sweeps as views: axes, labels, seeds, and cells that are refused; seeds that are no seeds are in
tests/snapshots/refusals.
"""

import sys
from dataclasses import replace

import pytest

from pcore.config import override
from pcore.mixing import Attention
from sweeps.baseline import addition
from sweeps.commands.catalogue import find_sweep
from sweeps.engine.launch.launch import run_sweeps
from sweeps.engine.options import LaunchOptions
from sweeps.engine.spec import (
    Cell,
    Sweep,
    axis,
    check_cells,
    grid,
    zipped,
)
from sweeps.engine.trial.attempt import Settings
from tests.support.sweeps.tiny import run

BASE = addition("smoke")
LAYERS, HEADS = axis("model.num_layers", 1, 2), axis("model.num_heads", 2, 4)


def test_zipped_pairs_points_and_refuses_unequal_axes():
    cells = zipped(BASE, layers=LAYERS, heads=HEADS)
    pairs = [(c.config.model.num_layers, c.config.model.num_heads) for c in cells]
    assert pairs == [(1, 2), (2, 4)]
    with pytest.raises(ValueError, match="layers 2, heads 3"):
        zipped(BASE, layers=LAYERS, heads=axis("model.num_heads", 1, 2, 4))


def test_two_cells_of_one_label_are_refused():
    two = override(BASE, {"model.num_layers": 2})
    with pytest.raises(ValueError, match="two cells are called"):
        check_cells([Cell(label="a", config=BASE), Cell(label="a", config=two)])


def made(**values) -> Cell:
    """A cell whose script replaces settings of the model itself."""
    return Cell(label="a", config=replace(BASE, model=replace(BASE.model, **values)))


def test_values_that_a_script_replaces_itself_are_coerced_too():
    same = grid(BASE, layers=axis("model.num_layers", 2))[0]
    assert made(num_layers="2").id == made(num_layers=2.0).id == same.id


CELL = Cell(label="a", config=BASE)
GOOD = {"name": "mine", "title": "T", "claim": "C", "cells": lambda scale: [CELL]}
GOOD |= {"seeds": {"smoke": "1"}}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": "../../evil"}, "name='../../evil' of a sweep is not"),
        ({"title": ""}, "mine: its title is not a line of text but ''"),
        ({"claim": 5}, "mine: its claim is not a line of text but 5"),
        ({"seeds": None}, "mine: seeds=None holds no text like"),
        (
            {"cells": lambda scale: [None]},
            "mine at scale smoke: cells gives None, which is no Cell",
        ),
        ({"cells": lambda scale: sys.exit(3)}, "mine at scale smoke: it calls sys.exit(3)"),
        ({"cells": lambda scale: [Cell(label=5, config=BASE)]}, "a label is not a line of text"),
        (
            {"cells": lambda scale: [Cell(label="a", config={})]},
            "config of cell 'a' is no TrialCon",
        ),
        ({"cells": lambda scale: [made(norm="batch")]}, "'a': model.norm='batch' is not one of"),
    ],
)
def test_what_is_no_sweep_is_refused_in_a_sentence(tmp_path, capsys, changes, sentence):
    assert run(Sweep(**GOOD | changes), tmp_path) == 2
    printed = capsys.readouterr().err
    assert sentence in printed
    assert printed.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_class_of_the_script_itself_is_refused():
    own = type("Mine", (type(BASE.task),), {"__module__": "__main__"})
    with pytest.raises(ValueError, match="__main__:Mine is defined in a script: import it"):
        Cell(label="a", config=replace(BASE, task=own()))


def test_a_script_may_define_dataclasses_whose_annotations_are_text(tmp_path):
    script = tmp_path / "texts_of_mine.py"
    lines = ["from __future__ import annotations", "from dataclasses import dataclass"]
    lines += ["from sweeps.depth_ablation import SWEEP", "@dataclass", "class Mine:", "    n: int"]
    script.write_text("\n".join(lines))
    assert find_sweep(str(script)).name == "depth_ablation"


def test_two_sweeps_of_one_name_are_refused(tmp_path):
    options = LaunchOptions(results=str(tmp_path), scale="smoke")
    two = [Sweep(title=title, cells=lambda scale: [CELL], seeds={}) for title in "ab"]
    with pytest.raises(ValueError, match="two sweeps are called 'test_spec': rename the script"):
        run_sweeps(two, options)


class SeesTheFuture(Attention):
    def forward(self, scores, visible, queries):
        return scores.softmax(dim=3)


def test_an_attention_that_sees_the_future_is_refused_before_anything_is_written(tmp_path):
    config = override(BASE, {"model.attention": f"{__name__}:SeesTheFuture"})
    cells = [CELL, Cell(label="mine", config=config)]
    sweep = Sweep(title="two", cells=lambda scale: cells, seeds={"smoke": "1"})
    options = LaunchOptions(results=str(tmp_path / "r"), scale="smoke")
    with pytest.raises(ValueError, match="SeesTheFuture': its numbers would be false: causality"):
        run_sweeps([sweep], options)
    assert not (tmp_path / "r").exists()


def test_steps_are_compiled_on_a_gpu_with_a_compiler(monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    for found in (False, True):
        monkeypatch.setattr("shutil.which", lambda name, found=found: name if found else None)
        assert Settings(results="r", device="cuda").compiled is found
        assert not Settings(results="r").compiled
