"""Every number of a table is that of the single answers that the store holds."""

import re
import shutil
import statistics
from pathlib import Path

import numpy as np
import pytest

from analysis.__main__ import main
from analysis.load import load_sweep
from analysis.tables.sweep_tables import ablation_table
from sweeps.engine.store.store import Store
from tests.support.rows.example_store import build_store

PUBLISHED = Path(__file__).parents[2] / "results" / "published" / "laptop"


def test_every_number_of_the_table_comes_from_runs_that_the_store_holds():
    """The single answers of each shard, counted, are the medians that are printed."""
    store, results = Store(PUBLISHED), load_sweep(PUBLISHED, "depth_ablation", "laptop")
    for row in ablation_table(results).numbers.to_dict("records"):
        names = list(results.view.loc[results.view["cell"] == row["cell"], "trial_id"])
        assert row["n"] == len(names) == 4
        lengths = [int(m[1]) for name in row if (m := re.fullmatch(r"em_(\d+)_median", name))]
        assert lengths == [18, 24, 200]
        shares = {length: list[float]() for length in lengths}
        for shard in store.load(names, "evaluation").to_pylist():
            if shard["length"] in lengths and shard["checkpoint"] == "last":
                bits = np.unpackbits(np.frombuffer(shard["outcomes"], dtype=np.uint8))
                right = int(bits[: shard["num_examples"]].sum())
                assert sum(shard["first_wrong_at"]) == shard["num_examples"] - right
                shares[shard["length"]].append(right / shard["num_examples"])
        for length, found in shares.items():
            assert row[f"em_{length}_median"] == pytest.approx(statistics.median(found))


def test_a_number_without_its_shard_is_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    store = build_store(tmp_path, complete=True)
    (Path(store.root) / next(iter(store.visible().values())).name).unlink()
    shutil.rmtree(tmp_path / "packs", ignore_errors=True)
    assert main(["table", "depth_ablation", "--results", str(tmp_path)]) == 0
    assert "2/3" in capsys.readouterr().out
