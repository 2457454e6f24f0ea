"""`--set`, `--axis`, `--only`, `--add`: other cells without editing, under a name of their own."""

import json
import subprocess
import sys
from collections.abc import Sequence

import pytest

from pcore.config import override, trial_id
from sweeps.__main__ import main as sweeps_command
from sweeps.commands.catalogue import find_sweep
from sweeps.engine.changes import (
    Change,
    Changes,
    change_sweeps,
    describe_replaced,
    parse_added,
    parse_axis,
    parse_set,
)
from sweeps.engine.spec import Sweep, axis, grid
from sweeps.engine.store.store import Store
from tests.support.sweeps.processes import ROOT, environment
from tests.support.sweeps.tiny import CONFIG, make_sweep, run

RATE = "optim.learning_rate"
Texts = Sequence[str]


def changed(
    sweep: Sweep,
    *,
    sets: Texts = (),
    axes: Texts = (),
    only: Texts = (),
    added: Texts = (),
    name: str | None = None,
) -> Sweep:
    changes = Changes(
        sets=[*map(parse_set, sets)],
        axes=[*map(parse_axis, axes)],
        only=only,
        added=[*map(parse_added, added)],
        name=name,
    )
    (result,) = change_sweeps([sweep], changes)
    return result


def test_a_set_changes_every_cell_and_is_said_once_in_the_title():
    sweep = changed(make_sweep(), sets=[f"{RATE}=1e-2", "model.d_ff=16"])
    cells = sweep.cells("smoke")
    assert [cell.label for cell in cells] == ["one", "two"]
    assert {(c.config.optim.learning_rate, c.config.model.d_ff) for c in cells} == {(0.01, 16)}
    assert [cell.config.model.num_layers for cell in cells] == [1, 2]
    assert sweep.title == "A tiny sweep; d_ff=16, learning_rate=0.01"


def test_a_label_says_what_the_script_varies_and_a_set_makes_one():
    """Else "coupling, 1 layer" would have two."""
    script = find_sweep("depth_ablation")
    sweep = changed(script, only=["coupling, 1 layer"], sets=["model.num_layers=2"])
    assert [c.label for c in sweep.cells("laptop")] == ["coupling, 1 layer, num_layers=2"]
    sweep = changed(script, sets=[f"{RATE}=1e-3", "model.d_ff=64"])  # rates are of recipes
    assert [c.label for c in sweep.cells("smoke")] == [c.label for c in script.cells("smoke")]
    wide = [c.label for c in sweep.cells("laptop")]  # there the script has two widths
    assert wide == [f"{c.label}, d_ff=64" for c in script.cells("laptop")]


def test_axes_cross_every_cell_the_last_fastest_and_are_coordinates():
    sweep = changed(make_sweep(), axes=[f"{RATE}=1e-3,2e-3", "model.norm=rms,layer"])
    cells = sweep.cells("smoke")
    assert len(cells) == 8
    assert cells[1].label == "one, learning_rate=0.001, norm=layer"
    assert cells[1].axes == {"arm": "one", "learning_rate": 0.001, "norm": "layer"}


def test_a_title_does_not_name_the_task_that_was_replaced():
    script = find_sweep("encoding_ablation")
    assert script.title == "Addition: position encodings at equal depth"
    sweep = changed(script, sets=["task.name=sorting"])
    assert sweep.title == "Position encodings at equal depth; name=sorting"
    sweep = changed(script, sets=["model.d_ff=64"])
    assert sweep.title == f"{script.title}; d_ff=64"


def test_values_with_commas_are_separated_by_semicolons():
    sweep = changed(make_sweep(one={}), axes=["eval.test_lengths=5;5,6"])
    assert [c.config.eval.test_lengths for c in sweep.cells("smoke")] == [(5,), (5, 6)]


def test_two_fields_of_one_name_are_told_apart_by_their_groups():
    sweep = changed(make_sweep(one={}), sets=["data.max_length=2"], axes=["model.num_layers=1,2"])
    assert sweep.cells("smoke")[0].label == "one, num_layers=1"
    of_its_own = grid(CONFIG, num_layers=axis("model.d_ff", 16, 32))
    sweep = Sweep(name="s", title="", claim="", cells=lambda _: of_its_own, seeds={})
    (_, cell, *_) = changed(sweep, axes=["model.num_layers=1,2"]).cells("smoke")
    assert cell.axes == {"num_layers": 16, "model.num_layers": 2}


def test_only_keeps_the_cells_of_its_labels_in_their_order():
    script = find_sweep("depth_ablation")
    labels = [cell.label for cell in script.cells("smoke")]
    sweep = changed(script, only=["NoPE*", labels[0]])
    kept = [label for label in labels if label.startswith("NoPE") or label == labels[0]]
    assert [cell.label for cell in sweep.cells("smoke")] == kept
    assert 1 < len(kept) < len(labels)
    assert sweep.title.endswith(f"; only NoPE* and {labels[0]!r}"), "it has a comma"
    grown = changed(script, only=[labels[0]], axes=[f"{RATE}=1e-3,2e-3"])
    assert [c.label for c in grown.cells("smoke")] == [
        f"{labels[0]}, learning_rate={rate}" for rate in (0.001, 0.002)
    ]


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
    assert sweep.title.endswith("; only coupling and NoPE, with mine")
    other = changed(script, added=[own.replace("mine", "yours")])
    assert [c.label for c in other.cells("laptop")] == [*cells, "yours"]


@pytest.mark.parametrize("pattern", ["mine", "mi*"])
def test_only_may_name_what_add_makes(pattern):
    sweep = changed(make_sweep(), only=[pattern], added=["mine=one+model.norm=layer"])
    assert [c.label for c in sweep.cells("smoke")] == ["mine"]
    sweep = changed(make_sweep(), only=[pattern, "t*"], added=["mine=one+model.norm=layer"])
    assert [c.label for c in sweep.cells("smoke")] == ["two", "mine"]


def test_titles_name_the_task_of_the_script_unless_all_cells_have_another():
    script = find_sweep("encoding_ablation")
    copies = ["copy=coupling+task.name=copy", "copy, NoPE=NoPE+task.name=copy"]
    title = changed(script, only=["copy*"], added=copies).title
    assert title == "Position encodings at equal depth; only copy*, with copy and 'copy, NoPE'"
    named = changed(script, only=["copy*"], added=copies, name="Copies", sets=["model.d_ff=64"])
    assert named.title == "Position encodings at equal depth; d_ff=64, Copies"
    for only in ((), ["copy*", "NoPE"]):
        assert changed(script, only=only, added=copies).title.startswith("Addition: ")


def test_sets_and_axes_change_added_cells_too():
    sweep = changed(make_sweep(), added=["mine=one+model.norm=layer"], sets=["model.d_ff=16"])
    assert [c.label for c in sweep.cells("smoke")][-1] == "mine"
    assert {c.config.model.d_ff for c in sweep.cells("smoke")} == {16}


def test_what_a_change_replaces_is_said(tmp_path, capsys):
    assert run(make_sweep(), tmp_path, "--set", "model.d_ff=16", "--plan") == 0
    assert f"replaces model.d_ff={CONFIG.model.d_ff}\n" in capsys.readouterr().out
    hints = changed(
        find_sweep("encoding_ablation"),
        only=["coupling", "index hints"],
        sets=["optim.batch_size=100"],
    )
    assert describe_replaced(hints.cells("paper")) == "replaces optim.batch_size=1000 or 400"
    assert describe_replaced(find_sweep("encoding_ablation").cells("paper")) == ""


def test_trials_that_equal_a_baseline_are_not_run_again(tmp_path, capfd):
    assert run(make_sweep(), tmp_path) == 0
    before = Store(tmp_path).load_view("tiny", "smoke")
    baseline = CONFIG.optim.learning_rate
    flags = ["--axis", f"{RATE}={baseline},0.002", "--name", "rates"]
    assert run(make_sweep(), tmp_path, *flags, "--plan") == 0
    assert "8 trials, 4 finished, 4 to run" in capfd.readouterr().out
    assert run(make_sweep(), tmp_path, *flags) == 0
    store = Store(tmp_path)
    assert len(store.shards()) == 8
    assert store.load_view("tiny", "smoke") == before
    assert store.view_names() == [("rates", "smoke"), ("tiny", "smoke")]
    rows = store.load_view("rates", "smoke").to_pylist()
    assert json.loads(rows[-1]["axes"]) == {"arm": "two", "learning_rate": 0.002}
    assert "table rates" in capfd.readouterr().out


def test_without_changes_a_sweep_is_itself():
    sweep = make_sweep()
    assert change_sweeps([sweep], Changes()) == [sweep]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--set", "optim.learningrate=1"], "Did you mean 'optim.learning_rate'?"),
        (["--set", f"{RATE}=fast"], f"{RATE}='fast' is not a valid float"),
        (["--axis", "model.norm=rms,batch"], "model.norm='batch' is not one of: rms, layer"),
        (
            ["--set", "model.num_layers=2"],
            "configuration: its own cells differ in model.num_layers;",
        ),
        (["--set", "seed=3"], "--seeds"),
        ([f"--{RATE}", "1e-2"], f"a field is changed with --set {RATE}=VALUE"),
        (["--set", f"{RATE}=1", "--axis", f"{RATE}=2,3"], "changed twice"),
        (
            ["--axis", "position.max_position=12,4"],
            "leave it out with --except 'one, max_position=4', and 1 more",
        ),
        (["--except", "three"], "--except 'three': tiny has no such cell."),
        (
            ["--set", "model.dropout=0.1"],
            "unknown field 'model.dropout'. pcore has none like it: `python -m pcore train --help`",
        ),
        (["--only", "one, two"], "tiny has no such cell. Repeat the flag for each label."),
        (["--only", "ONE"], "--only 'ONE': tiny has no such cell. Did you mean 'one'?"),
        (["--only", "on"], "--only 'on': tiny has no such cell. Did you mean 'one'?"),
        (["--add", "x=on+model.d_ff=8"], "--add 'on': tiny has no such cell. Did you mean 'one'?"),
        (["--add", "two=one+model.d_ff=8"], "--add 'two': tiny has a cell of this label"),
        (["--add", "x=one+model.dff=8"], "Did you mean 'model.d_ff'?"),
        (["--add", "x=one+model.num_layers=2"], "cells 'two' and 'x' are the same configuration"),
    ],
)
def test_what_cannot_work_is_refused_in_a_sentence(tmp_path, capsys, flags, sentence):
    assert run(make_sweep(), tmp_path, *flags, "--name", "mine") == 2
    assert sentence in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_changed_sweep_needs_a_name_to_run_and_none_to_be_planned(tmp_path, capsys):
    assert run(make_sweep(), tmp_path, "--only", "one") == 2
    assert "a changed sweep needs a name" in capsys.readouterr().err
    assert run(make_sweep(), tmp_path, "--only", "one", "--plan") == 0
    assert "tiny, changed [smoke]: A tiny sweep; only one" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_a_bad_combination_is_left_out_of_a_grid(tmp_path, capsys):
    flags = ["--plan", "--seeds", "1", "--axis", "position.max_position=12,4"]
    assert run(make_sweep(), tmp_path, *flags, "--except", "*=4") == 0
    printed = capsys.readouterr().out
    assert "max_position=12" in printed
    assert "2 trials, 0 finished, 2 to run" in printed


@pytest.mark.parametrize(
    "flags",
    [
        ["--set", RATE],
        ["--set", "=1"],
        ["--axis", f"{RATE}=1"],
        ["--axis", f"{RATE}=1,1"],
        ["--add", "mine"],
        ["--add", "mine=one"],
    ],
)
def test_what_is_no_change_is_a_mistake_of_the_command_line(tmp_path, capsys, flags):
    assert run(make_sweep(), tmp_path, *flags) == 2
    assert f"argument {flags[0]}" in capsys.readouterr().err


def test_the_commands_take_changes(tmp_path, capsys):
    flags = ["--scale", "smoke", "--seeds", "1", "--results", str(tmp_path)]
    head = "depth_ablation, changed [smoke]"
    for name in ("plan", "status"):
        assert sweeps_command([name, "depth_ablation", *flags, "--set", f"{RATE}=1e-2"]) == 0
        assert capsys.readouterr().out.startswith(head)


def test_a_change_is_of_the_identity_of_its_configuration():
    (cell, _) = changed(make_sweep(), sets=[f"{RATE}={CONFIG.optim.learning_rate}"]).cells("smoke")
    assert cell.id == trial_id(CONFIG)
    assert Change(field=RATE, values=("1",)).leaf == "learning_rate"


def test_a_label_of_another_scale_is_found_there(capsys):
    sweep = changed(find_sweep("depth_ablation"), only=["NoPE, 3 layers"])
    assert sweep.cells("laptop")
    with pytest.raises(ValueError, match=r"has no such cell\. There is one at scale laptop\."):
        sweep.cells("smoke")


def test_own_code_is_found_in_the_working_directory(tmp_path):
    source = "from pcore.encodings import Encoding\n\n\nclass Nothing(Encoding):\n    pass\n"
    (tmp_path / "away.py").write_text(source)
    script = ROOT / "sweeps" / "depth_ablation.py"
    flags = ["--scale", "smoke", "--only", "coupling, 1 layer", "--plan"]
    done = subprocess.run(
        [sys.executable, script, *flags, "--set", "position.encoding=away:Nothing"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "coupling, 1 layer, encoding=away:Nothing" in done.stdout
