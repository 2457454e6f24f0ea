"""`--set`, `--axis`, `--only`, `--add`, `--except`: other cells without editing, under a name of
their own. What cannot work is refused in tests/snapshots/refusals/sweeps.txt.
"""

import json

import pytest

from analysis.load import load_sweep
from pcore.config import override, trial_id
from sweeps.__main__ import main as sweeps_command
from sweeps.commands.catalogue import find_sweep
from sweeps.commands.merge import merge_stores
from sweeps.engine.changes import (
    Changes,
    change_sweeps,
    parse_added,
    parse_axis,
    parse_set,
)
from sweeps.engine.spec import Sweep
from sweeps.engine.store.store import Store
from tests.support.sweeps.tiny import CONFIG, make_sweep, run

RATE = "optim.learning_rate"
SET = ("--set", "model.d_ff=16")


def changed(sweep: Sweep, name: str | None = None, **texts: list[str]) -> Sweep:
    """texts: of the flags sets, axes, only, added, without."""
    parsers = {"sets": parse_set, "axes": parse_axis, "added": parse_added}
    given = {key: [parsers.get(key, str)(text) for text in texts[key]] for key in texts}
    (result,) = change_sweeps([sweep], Changes(name=name, **given))
    return result


def labels(sweep: Sweep, scale: str = "smoke") -> list[str]:
    return [cell.label for cell in sweep.cells(scale)]


def command(name: str, results, *words: str) -> int:
    return sweeps_command([name, *words, "--results", str(results)])


def test_a_set_changes_every_cell_and_labels_say_so():
    sweep = changed(make_sweep(), sets=[f"{RATE}=1e-2", "model.d_ff=16"])
    cells = sweep.cells("smoke")
    assert labels(sweep) == [f"{c}, learning_rate=0.01, d_ff=16" for c in ("one", "two")]
    assert {(c.config.optim.learning_rate, c.config.model.d_ff) for c in cells} == {(0.01, 16)}
    assert [cell.config.model.num_layers for cell in cells] == [1, 2]
    (cell, _) = changed(make_sweep(), sets=[f"{RATE}={CONFIG.optim.learning_rate}"]).cells("smoke")
    assert cell.id == trial_id(CONFIG), "a change is of the identity of its configuration"
    assert change_sweeps([make_sweep()], Changes())[0].command == ""


def test_only_and_except_choose_by_label_or_pattern_and_may_name_what_add_makes():
    mine = ["mine=one+model.norm=layer"]
    assert labels(changed(make_sweep(), only=["t*"])) == ["two"]
    assert labels(changed(make_sweep(), without=["t*"])) == ["one"]
    assert labels(changed(make_sweep(), only=["mi*"], added=mine)) == ["mine"]
    assert labels(changed(make_sweep(), only=["mi*", "two"], added=mine)) == ["two", "mine"]
    wide = changed(make_sweep(), added=mine, sets=["model.d_ff=16"])
    assert labels(wide)[-1] == "mine, d_ff=16"
    assert {c.config.model.d_ff for c in wide.cells("smoke")} == {16}
    without = changed(make_sweep(), axes=["position.max_position=12,4"], without=["*=4"])
    assert len(without.trials("smoke", "1")) == 2, "a bad combination is left out of a grid"
    there = changed(find_sweep("depth_ablation"), only=["NoPE, 3 layers"])
    assert there.cells("laptop")
    with pytest.raises(ValueError, match=r"has no such cell\. There is one at scale laptop\."):
        there.cells("smoke")


def test_an_added_cell_is_like_the_one_it_names_and_keeps_its_recipe():
    script = find_sweep("encoding_ablation")
    cells = {cell.label: cell for cell in script.cells("laptop")}
    own = "mine=coupling+position.encoding=rotary+position.start=random"
    sweep = changed(script, only=["coupling", "NoPE"], added=[own])
    coupling, nope, mine = sweep.cells("laptop")
    assert (coupling, nope) == (cells["coupling"], cells["NoPE"])  # found in the store
    expected = {"position.encoding": "rotary", "position.start": "random"}
    assert mine.config == override(cells["coupling"].config, expected)
    assert (mine.label, mine.axes) == ("mine", {"method": "mine"})


def test_a_changed_sweep_needs_a_name_to_run_and_none_to_be_shown(tmp_path, capsys):
    assert run(make_sweep(), tmp_path, "--only", "one") == 2
    assert "a changed sweep needs a name" in capsys.readouterr().err
    assert run(make_sweep(), tmp_path, "--only", "one", "--plan") == 0
    assert "tiny, changed [smoke]: A tiny sweep; changed" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
    for name in ("plan", "status"):
        flags = ["--scale", "smoke", "--seeds", "1", "--set", f"{RATE}=1e-2"]
        assert command(name, tmp_path, "depth_ablation", *flags) == 0
        assert capsys.readouterr().out.startswith("depth_ablation, changed [smoke]")


def test_a_sweep_with_a_name_is_found_under_it_with_its_command(tmp_path, capfd):
    flags = [*SET, "--axis", "eval.test_lengths=5;5,6", "--only", "o*"]
    flags += ["--add", "mine=one+model.d_model=16", "--except", "mine*", "--name", "wide"]
    for seeds in ("1", "1", "2"):  # the same command runs again and takes more seeds
        assert run(make_sweep(), tmp_path, *flags, "--seeds", seeds) == 0
    assert "analysis table wide --scale smoke" in capfd.readouterr().out
    assert len(Store(tmp_path).shards()) == 4
    where = ["--scale", "smoke"]
    for name in ("status", "trials"):
        assert command(name, tmp_path, "wide", *where) == 0
        printed = capfd.readouterr().out
        assert printed.startswith("wide [smoke]: A tiny sweep; wide\n")
        assert "  one, d_ff=16, test_lengths=5,6  " in printed
    assert command("why", tmp_path, "wide/one, d_ff=16, test_lengths=5/seed 0") == 0
    assert "wide [smoke]/one, d_ff=16, test_lengths=5/seed 0" in capfd.readouterr().out
    results = load_sweep(tmp_path, "wide", "smoke")
    assert len(results.view) == 4
    axes = Store(tmp_path).load_view("wide", "smoke")["axes"].to_pylist()
    assert json.loads(axes[-1]) == {"arm": "one", "test_lengths": "5,6"}
    again = (
        "python -m sweeps run tiny --set model.d_ff=16 --axis 'eval.test_lengths=5;5,6' "
        "--only 'o*' --add mine=one+model.d_model=16 --except 'mine*' --name wide --scale smoke"
    )
    assert results.command == again
    for words in (["run", *where], ["plan", *where], ["status", *where, "--seeds", "2"]):
        assert command(words[0], tmp_path, "wide", *words[1:]) == 2
        told = f"'wide' is a changed sweep; repeat the command that made it: {again}\n"
        assert told in capfd.readouterr().err
    assert command("status", tmp_path, "wide") == 2
    assert f"{tmp_path} has 'wide' at --scale smoke only" in capfd.readouterr().err


@pytest.mark.parametrize("flag", ["--plan", "--no-report"])
def test_the_name_of_another_sweep_in_the_store_is_refused_before_any_trial(
    tmp_path, capsys, monkeypatch, flag
):
    assert run(make_sweep(one={}), tmp_path, *SET, "--name", "wide", "--seeds", "1") == 0
    before = _rows(tmp_path)
    monkeypatch.setattr("sweeps.engine.launch.launch.make_plan", pytest.fail)
    capsys.readouterr()
    other = ["--set", "model.d_ff=32", "--name", "wide"]
    assert run(make_sweep(one={}), tmp_path, *other, flag) == 2
    assert (
        f"{tmp_path} has another sweep 'wide' [smoke], made by: python -m sweeps run tiny "
        "--set model.d_ff=16 --name wide --scale smoke; choose another name"
    ) in capsys.readouterr().err
    assert _rows(tmp_path) == before


def _rows(folder) -> list[dict]:
    return Store(folder).load_view("wide", "smoke").to_pylist()


def test_views_of_one_name_and_other_cells_are_not_joined(tmp_path, capsys):
    one, other = tmp_path / "one", tmp_path / "other"
    for folder, width in ((one, 16), (other, 32)):
        flags = ["--set", f"model.d_ff={width}", "--name", "wide", "--seeds", "1"]
        assert run(make_sweep(one={}), folder, *flags) == 0
    before = _rows(other)
    assert merge_stores(str(one), str(other)) == 1
    assert "wide-smoke: INTO has another sweep of this name; no table" in capsys.readouterr().out
    assert _rows(other) == before
    assert run(make_sweep(one={}), tmp_path / "more", *SET, "--name", "wide", "--seeds", "1@7") == 0
    assert merge_stores(str(tmp_path / "more"), str(one)) == 0
    assert "views: 1 grew" in capsys.readouterr().out
    assert len(_rows(one)) == 2
