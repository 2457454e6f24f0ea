"""The store: whole files only, one schema, one ok row set per trial, nothing lost and nothing
twice.
"""

import json

import pyarrow.parquet as pq
import pytest

from pcore.config import flatten, override, trial_id
from sweeps.baseline import addition
from sweeps.engine.store.schema import schema
from sweeps.engine.store.store import Store

CONFIG = addition("smoke")
COUNTS = {"checkpoint": "last", "range": "test", "length": 5, "num_examples": 10, "num_correct": 7}


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "results")
    store.prepare()
    return store


def test_a_trial_comes_back_as_it_was_written(store):
    store.write(CONFIG, "ok", {"wall_seconds": 1.5}, [{"step": 10, "loss": 0.5}], [COUNTS])
    table = store.load()
    assert table.schema.equals(schema())
    rows = {row["record"]: row for row in table.to_pylist()}
    assert set(rows) == {"trial", "report", "evaluation"}
    assert rows["trial"]["wall_seconds"] == 1.5
    assert json.loads(rows["trial"]["config_json"]) == flatten(CONFIG)
    assert rows["report"]["loss"] == 0.5
    assert rows["evaluation"]["num_correct"] == 7
    for row in rows.values():
        assert row["trial_id"] == trial_id(CONFIG)
        assert row["model.num_layers"] == CONFIG.model.num_layers
        assert row["eval.test_lengths"] == "5,6"


def test_a_shard_with_fewer_columns_is_read_with_the_explicit_schema(store):
    """A column added later is null in old rows, whichever file is read first."""
    file = store.folder.local / store.write(CONFIG, "ok", {}, [], [COUNTS])
    old = pq.read_table(file).drop_columns(["num_missed_stop", "grad_norm"])
    pq.write_table(old.replace_schema_metadata(None), file)
    store.write(override(CONFIG, {"seed": 1}), "ok", {}, [], [COUNTS | {"num_missed_stop": 3}])
    rows = store.load(record="evaluation").to_pylist()
    assert sorted(row["num_missed_stop"] or 0 for row in rows) == [0, 3]


def test_columns_and_trials_can_be_chosen(store):
    other = override(CONFIG, {"seed": 1})
    for config in (CONFIG, other):
        store.write(config, "ok", {}, [], [COUNTS])
    table = store.load([trial_id(other)], record="evaluation", columns=["trial_id", "num_correct"])
    assert table.to_pylist() == [{"trial_id": trial_id(other), "num_correct": 7}]
    assert store.load([], columns=["trial_id"]).num_rows == 0
