"""Constructed models as trials: exact up to the theorem's bound, with ids, rows and one report."""

import pytest

from pcore.checkpoint import load_model
from pcore.config import override, trial_id
from pcore.training import train
from sweeps.__main__ import main
from sweeps.baseline import addition, constructed
from sweeps.engine.spec import Cell, Sweep
from sweeps.engine.store.store import Store
from sweeps.engine.trial.attempt import Settings, run_attempt
from tests.support.rows.example_store import view_rows

BASE = override(addition("smoke"), {"eval.num_examples": 30})


def config_of(num_bits, **changes):
    return override(BASE, constructed(num_bits) | changes)


def right_by_length(config):
    (report,) = train(config)
    assert report.finished
    return {r.length: r.counts.num_correct / r.counts.num_examples for r in report.results}


def test_addition_is_exact_up_to_the_bound_and_not_beyond():
    assert set(right_by_length(config_of(4)).values()) == {1.0}  # up to 14 digits
    assert right_by_length(config_of(2)) == {1: 1, 2: 1, 3: 0, 4: 0, 5: 0, 6: 0}


def test_multiplication_is_exact_as_a_trial():
    changes = {"task.name": "multiplication", "position.max_position": 16}
    assert set(right_by_length(config_of(4, **changes)).values()) == {1.0}


def test_every_checkpoint_policy_has_the_same_counts():
    (report,) = train(config_of(3, **{"eval.checkpoints": ("last", "best", "oracle")}))
    counts = [[r.counts for r in report.results if r.checkpoint == p] for p in report.checkpoints]
    assert counts[0] == counts[1] == counts[2]


def test_a_constructed_trial_leaves_ordinary_rows(tmp_path, capfd):
    config = config_of(4)
    outcome = run_attempt(config, Settings(results=str(tmp_path), diagnose=10))
    assert (outcome.status, outcome.summary) == (
        "ok",
        "exact match over all lengths: train 100.0 %, near 100.0 %",
    )
    store = Store(tmp_path)
    rows = store.load([trial_id(config)]).to_pylist()
    assert rows[0]["model.kind"] == "constructed"
    assert rows[0]["train_tokens"] == rows[0]["train_flops"] == 0
    assert rows[0]["num_parameters"] > 1000
    tested = [row for row in rows if row["range"] == "test"]
    assert [row["num_correct"] for row in tested] == [30, 30]
    assert run_attempt(config, Settings(results=str(tmp_path))).status == "done"
    store.write_view(view_rows({"theory": [config]}, "tiny", "smoke"))
    assert main(["measure", "--results", str(tmp_path)]) == 0
    assert "0 trained models" in capfd.readouterr().out
    with pytest.raises(
        ValueError, match="is a constructed model, which only its own trial evaluates"
    ):
        load_model(tmp_path / f"checkpoints/{trial_id(config)}/last.pt")


def test_seeds_do_not_multiply_a_constructed_cell():
    cells = [Cell(label="theory", config=config_of(4)), Cell(label="trained", config=BASE)]
    sweep = Sweep(name="x", title="T", claim="", cells=lambda scale: cells, seeds={"smoke": "3"})
    labels = [trial.cell.label for trial in sweep.trials("smoke")]
    assert labels == ["theory", "trained", "trained", "trained"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model.num_bits": 1}, r"model\.num_bits=1 of a constructed model is not in 2-14"),
        ({"optim.num_steps": 10}, r"optim\.num_steps=10: a constructed model needs 0"),
        ({"position.ids": "sequential"}, r"position\.ids=sequential: .* needs coupled"),
        ({"eval.attention_factor": 2.0}, r"eval\.attention_factor=2\.0: .* needs 1\.0"),
        ({"task.zero_pad": False}, "no theorem builds a model for addition with these options"),
        ({"task.name": "copy"}, "no theorem builds a model for copy"),
        ({"position.max_position": 4}, r"position\.max_position=4 is below"),
    ],
    ids=["bits", "steps", "ids", "factor", "format", "task", "reach"],
)
def test_what_it_cannot_do_is_refused_before_any_compute(changes, message):
    with pytest.raises(ValueError, match=message):
        next(train(config_of(4, **changes)))
