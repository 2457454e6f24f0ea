"""A finished sweep with made-up results: the store of the analysis tests."""

import atexit
import json
import math
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from analysis.load import Results, load_sweep
from pcore.config import TrialConfig, override, trial_id
from sweeps.engine.spec import Cell
from sweeps.engine.store.store import Status, Store

TRAIN, NEAR, TEST = tuple(range(1, 9)), (9, 10), (12, 14, 16, 20)
NUM_EXAMPLES = 2000

# label: (changes, length at which half of the answers are wrong, how fast that happens)
CELLS = {
    "coupling, 1 layer": ({"model.num_layers": 1}, 18.0, 1.4),
    "coupling, 2 layers": ({"model.num_layers": 2}, 22.5, 1.1),
    "coupling, 3 layers": ({"model.num_layers": 3}, 27.0, 1.2),
    "NoPE, 3 layers": ({"model.num_layers": 3, "position.encoding": "none"}, 9.6, 0.35),
    "APE, 3 layers": ({"model.num_layers": 3, "position.ids": "sequential"}, 9.3, 0.3),
    "RoPE, 3 layers": ({"model.num_layers": 3, "position.encoding": "rotary"}, 10.6, 0.5),
}
PROVENANCE = {
    "num_parameters": 123_456,
    "wall_seconds": 61.5,
    "code_hash": "c0de0001c0de0001",
    "git_commit": "0123456789abcdef",
    "git_dirty": False,
    "device": "cpu",
    "dtype": "float32",
}


def make_config(changes: dict[str, Any], seed: int, max_length: int = 8) -> TrialConfig:
    """A trial of the example sweep."""
    base = {
        "data.max_length": max_length,
        "eval.near_lengths": NEAR,
        "eval.test_lengths": TEST,
        "eval.num_examples": NUM_EXAMPLES,
        "eval.checkpoints": ("last", "oracle"),
        "optim.num_steps": 1000,
    }
    return override(TrialConfig(), base | changes | {"seed": seed})


def make_evaluation(
    half: float, slope: float, seed: int, checkpoint: str = "last", **changes: Any
) -> list[dict[str, Any]]:
    """Counts that fall along a logistic curve around `half`, a little different for each seed."""
    rng = np.random.default_rng([seed, round(10 * half)])
    half += rng.normal() * slope
    rows = []
    for name, lengths in {"train": TRAIN, "near": NEAR, "test": TEST}.items():
        for length in lengths:
            share = 1 / (1 + math.exp((length - half) / slope)) if length > 1 else 1.0
            correct = int(rng.binomial(NUM_EXAMPLES, share))
            wrong = NUM_EXAMPLES - correct
            row = {
                "checkpoint": checkpoint,
                "checkpoint_step": 1000,
                "range": name,
                "length": length,
                "test_set": f"set{length:05d}",
                "num_examples": NUM_EXAMPLES,
                "num_correct": correct,
                "num_tokens": NUM_EXAMPLES * (length + 2),
                "num_correct_tokens": NUM_EXAMPLES * (length + 1),
                "num_missed_stop": wrong // 4,
                "num_early_stop": wrong // 2,
                "num_wrong_symbol": wrong - wrong // 4 - wrong // 2,
                "loss_sum": float(wrong),
            }
            rows.append(row | changes)
    return rows


def make_reports(seed: int, rate: float) -> list[dict[str, Any]]:
    """A training curve that falls by `rate` per 100 steps."""
    rng = np.random.default_rng(seed)
    return [
        {"step": step, "loss": 2.3 * math.exp(-rate * step / 100) * rng.uniform(0.9, 1.1) + 1e-4}
        for step in range(50, 1001, 50)
    ]


def write_trial(
    store: Store,
    config: TrialConfig,
    status: Status = "ok",
    evaluations: list[dict[str, Any]] | None = None,
    rate: float = 1.0,
    **trial: Any,
) -> None:
    """One attempt with provenance, a training curve and these counts."""
    reports = make_reports(config.seed, rate)
    if status != "ok":
        reports = reports[:7]
    store.write(config, status, PROVENANCE | trial, reports, evaluations or [])


def view_rows(
    cells: dict[str, list[TrialConfig]], sweep: str = "depth_ablation", scale: str = "laptop"
) -> list[dict[str, Any]]:
    """The view of a sweep with these cells."""
    return [
        {
            "sweep": sweep,
            "scale": scale,
            "title": "Depth and encodings",
            "claim": "Coupling generalizes to twice the length.",
            "cell": label,
            "cell_order": order,
            "trial_id": trial_id(config),
            "seed": config.seed,
            "data_seed": config.data_seed,
        }
        for order, (label, configs) in enumerate(cells.items())
        for config in configs
    ]


@cache
def _written_once(complete: bool, num_seeds: int) -> Path:
    """The folder of an example store, which is only copied from then on."""
    folder = Path(tempfile.mkdtemp(prefix="pcore-rows-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    store = Store(folder)
    cells = dict[str, list[TrialConfig]]()
    for place, (label, (changes, half, slope)) in enumerate(CELLS.items()):
        cells[label] = [make_config(changes, seed) for seed in range(num_seeds)]
        for config in cells[label]:
            odd = None if complete else (label, config.seed)
            if odd == ("coupling, 2 layers", 2):
                continue
            if odd == ("RoPE, 3 layers", 1):
                write_trial(store, config, "error", error="Traceback ...\nValueError: bad_thing")
                continue
            if odd == ("APE, 3 layers", 0):
                write_trial(store, config, "diverged")
                continue
            if odd == ("coupling, 3 layers", 0):
                write_trial(store, config, "error", error="the first attempt was lost")
            counts = make_evaluation(half, slope, config.seed)
            counts += make_evaluation(half + 2, slope, config.seed, "oracle")
            write_trial(store, config, "ok", counts, rate=1.1 - 0.12 * place)
    store.write_view(view_rows(cells))
    return folder


def build_store(root: Path) -> Store:
    """Six cells; one trial is missing, one failed, one diverged, one failed and then went well."""
    shutil.copytree(_written_once(False, 3), root, dirs_exist_ok=True)
    return Store(root)


@cache
def example(complete: bool = False, num_seeds: int = 3) -> Results:
    """The sweep of `build_store`, loaded. complete: all trials went well."""
    return load_sweep(_written_once(complete, num_seeds), "depth_ablation", "laptop")


def build_sweep(folder: Path, cells: Sequence[Cell], num_seeds: int = 2) -> Results:
    """A sweep of which every cell reaches a length further than the one before."""
    store, runs = Store(folder), dict[str, list[TrialConfig]]()
    for place, cell in enumerate(cells):
        runs[cell.label] = [
            replace(cell.config, seed=seed, data_seed=seed) for seed in range(num_seeds)
        ]
        for config in runs[cell.label]:
            write_trial(store, config, "ok", make_evaluation(9 + place, 1.5, config.seed))
    axes = {cell.label: json.dumps(dict(cell.axes)) for cell in cells}
    rows = view_rows(runs, sweep="grid")
    store.write_view([row | {"axes": axes[row["cell"]]} for row in rows])
    return load_sweep(folder, "grid", "laptop")
