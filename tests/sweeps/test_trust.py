"""Data is not code: what rows, views, weights and winners of searches name is not imported."""

import importlib
import sys

import pytest

import analysis.__main__ as analysis
import sweeps.__main__ as sweeps
from pcore.checkpoint import pack_model
from pcore.cli import main as pcore
from pcore.config import override, trial_id
from pcore.model import make_model
from sweeps.baseline import addition
from sweeps.engine.store.store import Store
from tests.support.rows.example_store import view_rows

MODULE = """
import pathlib
from pcore.encodings import NoPE
from pcore.tasks.addition import Addition
pathlib.Path(__file__).with_name("imported").touch()
class Mine(NoPE):
    "NoPE under a name of its own."
class Sums(Addition):
    "Addition under a name of its own."
"""
ROW = {"checkpoint": "last", "range": "test", "length": 5, "num_examples": 10, "num_correct": 7}
ROW |= {"num_tokens": 50, "num_correct_tokens": 40, "test_set": "set00005", "loss_sum": 1.0}
ROW |= {"num_missed_stop": 1, "num_early_stop": 1, "num_wrong_symbol": 1}
SMALL = {"optim.num_steps": 2, "eval.num_examples": 4}


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A trial of own code, in a folder with that code, none of which this process has imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    (tmp_path / "stranger.py").write_text(MODULE)
    importlib.invalidate_caches()
    own = {"position.encoding": "stranger:Mine", "task.name": "stranger:Sums"}
    config = override(addition("smoke"), SMALL | own)
    store = Store(tmp_path / "results")
    store.write(config, "ok", {"code_hash": "a1:x"}, [], [ROW])
    store.write_view(view_rows({"theirs": [config]}, "depth_ablation", "smoke"))
    weights = make_model(config).state_dict()
    packed = pack_model(config, weights)
    store.folder.write(f"checkpoints/{trial_id(config)}/last.pt", packed)
    yield store
    sys.modules.pop("stranger", None)


@pytest.fixture
def unseen(store, tmp_path):
    """The store, after its code was forgotten; True if it has been imported since."""
    sys.modules.pop("stranger")
    (tmp_path / "imported").unlink()
    return lambda: (tmp_path / "imported").exists() or "stranger" in sys.modules


def weights_file(store: Store) -> str:
    (entry,) = store.folder.list("checkpoints")
    return store.folder.path(entry.name)


SAID = {
    "measure": "names own code, task 'stranger:Sums'",
    "replicate": "names own code, task 'stranger:Sums'",
    "table": "theirs",
    "why": "own code, which is not imported here: task.name=stranger:Sums, position.encoding=",
}


@pytest.mark.parametrize(
    ("main", "words"),
    [
        (sweeps.main, ["plan", "depth_ablation", "--scale", "smoke"]),
        (sweeps.main, ["status"]),
        (sweeps.main, ["status", "depth_ablation", "--scale", "smoke"]),
        (sweeps.main, ["why", "{trial}"]),
        (sweeps.main, ["gc"]),
        (sweeps.main, ["measure"]),
        (sweeps.main, ["replicate", "depth_ablation", "--scale", "smoke"]),
        (analysis.main, ["table", "depth_ablation", "--scale", "smoke"]),
        (analysis.main, ["report"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_no_command_imports_what_a_row_names(store, unseen, capsys, main, words):
    (trial,) = store.visible()
    code = main([*(word.format(trial=trial) for word in words), "--results", store.root])
    out, err = capsys.readouterr()
    assert not unseen()
    assert "Traceback" not in out + err
    assert code == {"measure": 1, "replicate": 2}.get(words[0], 0)
    assert SAID.get(words[0], "") in out + err


def test_code_that_is_trusted_runs(store, unseen, capsys):
    assert sweeps.main(["measure", "--trust-code", "--results", store.root]) == 0
    assert "1 measured now" in capsys.readouterr().out
    assert unseen()
    again = ["replicate", "depth_ablation", "--scale", "smoke", "--results", store.root]
    assert sweeps.main([*again, "--trust-code"]) == 1
    assert "1 of 1 not comparable: other test sets" in capsys.readouterr().out


@pytest.mark.parametrize(("main", "name"), [(pcore, "explain"), (analysis.main, "attention")])
def test_weights_import_what_is_trusted_only(store, unseen, capsys, main, name):
    words = [name, weights_file(store), "--length", "2", "--examples", "4"]
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "give --trust-code if you trust it" in err
    assert not unseen()
    assert main([*words, "--trust-code"]) == 0
    assert unseen()


def test_what_rows_say_of_themselves_commands_no_terminal(tmp_path, capsys):
    store, config = Store(tmp_path), override(addition("smoke"), SMALL)
    evil = "\x1b]0;owned\x07\x1b[2J"
    store.write(config, "error", {"host": evil, "code_hash": evil, "error": evil}, [], [])
    assert sweeps.main(["why", trial_id(config), "--results", store.root]) == 0
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err
    assert out.count("\\u001b]0;owned\\u0007") == 3
