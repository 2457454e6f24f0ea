"""Every number of a table is that of the single answers that the store holds."""

import re
import statistics
from pathlib import Path

import numpy as np
import pytest

from analysis.load import load_sweep
from analysis.tables.sweep_tables import ablation_table
from sweeps.engine.store.store import Store

PUBLISHED = Path(__file__).parents[3] / "results" / "published" / "laptop"


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
