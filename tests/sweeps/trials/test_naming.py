"""Names of changed sweeps, and commands that know them."""

import shlex

import pytest

from analysis.load import load_sweep
from sweeps.__main__ import main as sweeps_command
from sweeps.commands.merge import merge_stores
from sweeps.engine.changes import Changes, change_sweeps, parse_added, parse_axis, parse_set
from sweeps.engine.spec import Sweep
from sweeps.engine.store.store import Store
from tests.support.sweeps.tiny import make_sweep, run

SET = ["--set", "model.d_ff=16"]
LONG = (
    "mine=coupling, 1 layer+position.encoding=own.module:Encoding+model.d_ff=96+model.num_heads=8"
)


def named(sweep: Sweep, *added: str, name: str | None = None) -> Sweep:
    changes = Changes(added=[*map(parse_added, added)], name=name)
    (result,) = change_sweeps([sweep], changes)
    return result


def command(name: str, results, *words: str) -> int:
    return sweeps_command([name, *words, "--results", str(results)])


def test_the_command_of_a_changed_sweep_makes_it_again(tmp_path):
    words = ["--set", "optim.learning_rate=1e-2", "--axis", "eval.test_lengths=5;5,6"]
    words += ["--only", "coupling*", "--add", "mine=coupling, 1 layer+model.d_ff=16"]
    changes = Changes(
        sets=[parse_set(words[1])],
        axes=[parse_axis(words[3])],
        only=[words[5]],
        added=[parse_added(words[7])],
        name="wide",
    )
    (sweep,) = change_sweeps([make_sweep()], changes)
    words[1] = "optim.learning_rate=0.01"
    assert shlex.split(sweep.command) == [
        *("python", "-m", "sweeps", "run", "tiny", *words, "--name", "wide")
    ]
    assert change_sweeps([make_sweep()], Changes())[0].command == ""


def test_a_sweep_with_a_name_is_found_under_it(tmp_path, capfd):
    assert run(make_sweep(), tmp_path, *SET, "--name", "wide", "--seeds", "1") == 0
    assert "analysis table wide --scale smoke" in capfd.readouterr().out
    where = ["--scale", "smoke"]
    for name in ("status", "trials"):
        assert command(name, tmp_path, "wide", *where) == 0
        printed = capfd.readouterr().out
        assert printed.startswith("wide [smoke]: A tiny sweep; d_ff=16\n")
        assert "  one  " in printed
    assert command("why", tmp_path, "wide/one/seed 0") == 0
    assert "wide [smoke]/one/seed 0, data seed 0" in capfd.readouterr().out
    results = load_sweep(tmp_path, "wide", "smoke")
    again = "python -m sweeps run tiny --set model.d_ff=16 --name wide"
    assert results.command == f"{again} --scale smoke"
    for words in (["run", *where], ["plan", *where], ["status", *where, "--seeds", "2"]):
        assert command(words[0], tmp_path, "wide", *words[1:]) == 2
        told = (
            f"'wide' is a changed sweep; repeat the command that made it: {again} --scale smoke\n"
        )
        assert told in capfd.readouterr().err
    assert command("status", tmp_path, "wide") == 2
    assert f"{tmp_path} has 'wide' at --scale smoke only" in capfd.readouterr().err


def test_the_same_command_runs_again_and_takes_more_seeds(tmp_path):
    flags = [*SET, "--name", "wide"]
    for seeds in ("1", "1", "2"):
        assert run(make_sweep(), tmp_path, *flags, "--seeds", seeds) == 0
    assert len(Store(tmp_path).shards()) == 4
    assert len(load_sweep(tmp_path, "wide", "smoke").view) == 4


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ([*SET, "--name", "a b"], "argument --name: 'a b' is not a name of letters, digits, - and"),
        ([*SET, "--name", "../up"], "'../up' is not a name"),
        ([*SET, "--name", "x~y"], "'x~y' is not a name"),
        ([*SET, "--name", "n" * 73], "at most 72"),
        ([*SET, "--name", ""], "'' is not a name"),
        ([*SET, "--name", "depth_ablation"], "'depth_ablation' is a sweep or search of pcore"),
        ([*SET, "--name", "lr_search"], "'lr_search' is a sweep or search of pcore"),
        (["--name", "wide"], "--name is for what --set, --axis, --only or --add change"),
    ],
)
def test_a_name_that_cannot_be_is_refused(tmp_path, capsys, flags, sentence):
    assert run(make_sweep(), tmp_path, *flags) == 2
    assert sentence in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_name_is_for_one_sweep(tmp_path, capsys):
    words = ["depth_ablation", "heads_ablation", "--scale", "smoke", *SET, "--name", "wide"]
    assert command("run", tmp_path, *words) == 2
    assert "--name wide names one changed sweep, not 2" in capsys.readouterr().err


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
    Store(tmp_path).write_view([row | {"sweep": "own", "command": None} for row in _rows(tmp_path)])
    assert run(make_sweep(one={}), tmp_path, *other[:3], "own", flag) == 2
    assert "made by: a script; choose another name" in capsys.readouterr().err


def _rows(folder) -> list[dict]:
    return Store(folder).load_view("wide", "smoke").to_pylist()


def test_views_of_one_name_and_other_cells_are_not_joined(tmp_path, capsys):
    one, other = tmp_path / "one", tmp_path / "other"
    for folder, width in ((one, 16), (other, 32)):
        flags = ["--set", f"model.d_ff={width}", "--name", "wide", "--seeds", "1"]
        assert run(make_sweep(one={}), folder, *flags) == 0
    before = _rows(other)
    assert merge_stores(str(one), str(other)) == 0
    assert "wide-smoke: INTO has another sweep of this name" in capsys.readouterr().out
    assert _rows(other) == before
    flags = ["--set", "model.d_ff=16", "--name", "wide", "--seeds", "1@7"]
    assert run(make_sweep(one={}), tmp_path / "more", *flags) == 0
    assert merge_stores(str(tmp_path / "more"), str(one)) == 0
    assert "views: 1 grew" in capsys.readouterr().out
    assert len(_rows(one)) == 2
