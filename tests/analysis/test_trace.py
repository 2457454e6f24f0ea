"""Every number can be traced: table -> runs -> shard -> configuration -> trial id -> commit."""

import io
import json
import re
import shutil
import statistics
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from analysis.__main__ import main as analyse
from pcore.config import trial_id, unflatten
from sweeps.depth_ablation import SWEEP
from sweeps.engine.launch.cli import main as launch
from sweeps.engine.store.store import Store
from sweeps.engine.trial.provenance import ROOT, hash_sources

SCALE = "smoke"


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    """Two replicates of every cell of the depth ablation, really trained, and its files."""
    results = tmp_path_factory.mktemp("traced")
    flags = ["--scale", SCALE, "--seeds", "2", "--executor", "inline", "--no-mlflow"]
    assert launch(SWEEP, [*flags, "--results", str(results)]) == 0
    return Store(results)


def read(store: Store, name: str) -> pd.DataFrame:
    text = (Path(store.root) / "reports" / f"{SWEEP.name}-{SCALE}" / name).read_text()
    return pd.read_csv(io.StringIO(text), comment="#", dtype={"trial_id": str})


def test_every_number_of_the_table_comes_from_runs_that_the_store_holds(store):
    table, runs = read(store, "table.csv"), read(store, "runs.csv")
    lengths = sorted({int(m[1]) for c in table if (m := re.fullmatch(r"em_(\d+)_median", c))})
    assert lengths
    for _, row in table.iterrows():
        own = runs[(runs["cell"] == row["cell"]) & (runs["checkpoint"] == "last")]
        assert row["n"] == own["trial_id"].nunique() == 2
        for length in lengths:
            right = [
                count_right(store, name, length)
                for name in own.loc[own["length"] == length, "trial_id"]
            ]
            assert row[f"em_{length}_median"] == pytest.approx(statistics.median(right))


def count_right(store: Store, name: str, length: int) -> float:
    """From the shard alone: the share of right examples of the last checkpoint."""
    rows = store.load([name], "evaluation").to_pylist()
    (row,) = (r for r in rows if r["length"] == length and r["checkpoint"] == "last")
    bits = "".join(f"{byte:08b}" for byte in row["outcomes"]) if row["outcomes"] else None
    if bits is not None:  # the single answers add up to the count
        assert bits[: row["num_examples"]].count("1") == row["num_correct"]
    assert sum(row["first_wrong_at"]) == row["num_examples"] - row["num_correct"]
    return row["num_correct"] / row["num_examples"]


def test_every_run_leads_to_its_configuration_its_sweep_and_its_commit(store):
    planned = {trial.id: trial for trial in SWEEP.trials(SCALE, "2")}
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    runs = read(store, "runs.csv").drop_duplicates(["cell", "trial_id"])
    assert len(runs) == len(planned)
    for _, run in runs.iterrows():
        (row,) = store.load([run["trial_id"]], "trial").to_pylist()
        config = unflatten(json.loads(row["config_json"]))
        assert trial_id(config) == run["trial_id"]
        assert planned[run["trial_id"]].cell.label == run["cell"]
        assert planned[run["trial_id"]].config == config
        assert (config.seed, config.data_seed) == (run["seed"], run["data_seed"])
        assert row["code_hash"] == hash_sources()
        if head.returncode == 0:
            assert row["git_commit"] == head.stdout.strip()


def test_a_number_without_its_shard_is_not_shown(store, tmp_path, capsys):
    copy = tmp_path / "copy"
    shutil.copytree(store.root, copy)
    (victim,) = list(Store(copy).visible().values())[:1]
    (copy / victim.name).unlink()
    shutil.rmtree(copy / "packs", ignore_errors=True)
    assert analyse(["table", SWEEP.name, "--scale", SCALE, "--results", str(copy)]) == 0
    assert "1/2" in capsys.readouterr().out
