"""How well published cells are predicted from the others: `pytest -m benchmark -s` on this file."""

import json
import statistics
from collections import defaultdict

import pytest

from pcore.config import unflatten
from sweeps.engine.price import typical_seconds, typical_trial_seconds
from sweeps.engine.store.store import Store

pytestmark = pytest.mark.benchmark
COLUMNS = ("cell_id", "host", "status", "train_seconds", "eval_seconds", "train_flops")
MORE = ("first_step", "optim.num_steps", "config_json")


def test_published_cells_are_predicted_from_the_others(capsys):
    """Each at the median speed of the other cells of its host; more than half within 30 %."""
    table = Store("results/published/laptop").load(record="trial", columns=[*COLUMNS, *MORE])
    hosts: dict[str, dict[str, list[dict]]] = defaultdict(lambda: defaultdict(list))
    for row in table.to_pylist():
        if row["status"] == "ok" and row["train_flops"] and not row["first_step"]:
            hosts[row["host"]][row["cell_id"]].append(row)
    ratios = []
    for cells in hosts.values():
        slower = {
            cell: [
                row["train_seconds"] / typical_seconds(row["optim.num_steps"], row["train_flops"])
                for row in rows
            ]
            for cell, rows in cells.items()
        }
        for cell, rows in cells.items():
            others = [one for other, found in slower.items() if other != cell for one in found]
            config = unflatten(json.loads(rows[0]["config_json"]))
            took = statistics.median(row["train_seconds"] + row["eval_seconds"] for row in rows)
            if others:
                predicted = statistics.median(others) * typical_trial_seconds(config)
                ratios.append(took / predicted)
    close = sum(abs(ratio - 1) <= 0.3 for ratio in ratios)
    half = 100 * statistics.median(abs(ratio - 1) for ratio in ratios)
    with capsys.disabled():
        print(f"\npublished cells: {min(ratios):.2f}x to {max(ratios):.2f}x of their prediction")
        print(f"half within {half:.0f} %, {close} of {len(ratios)} within 30 %")
    assert close > 0.5 * len(ratios)
