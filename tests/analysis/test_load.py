"""Loading a sweep: which trials count, what missing and diverged ones become. Also builds the store
of the analysis tests."""

import math
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.load import Results, list_views, load_sweep, trained_ranges
from pcore.config import TrialConfig, override, trial_id
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


def build_store(root: Path, complete: bool = False, num_seeds: int = 3) -> Store:
    """Six cells. Unless complete: one trial is missing, one failed, one diverged, one failed and
    then went well."""
    store, cells = Store(root), {}
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
    return store


@lru_cache
def example(complete: bool = False, num_seeds: int = 3) -> Results:
    """The example sweep, loaded; built once per test session."""
    with tempfile.TemporaryDirectory() as folder:
        build_store(Path(folder), complete, num_seeds)
        return load_sweep(folder, "depth_ablation", "laptop")


def test_every_trial_of_the_view_has_a_row_and_a_status():
    results = example()
    assert len(results.trials) == len(results.view) == 18
    counts = results.trials["status"].value_counts().to_dict()
    assert counts == {"ok": 15, "missing": 1, "error": 1, "diverged": 1}
    assert results.cells == list(CELLS)
    assert set(results.all_evaluation["checkpoint"]) == {"last", "oracle"}
    assert set(results.evaluation["checkpoint"]) == {"last"}


def test_an_ok_attempt_hides_an_earlier_error():
    rows = example().trials
    row = rows[(rows["cell"] == "coupling, 3 layers") & (rows["seed"] == 0)].iloc[0]
    assert (row["status"], row["attempt"]) == ("ok", 2)


def test_diverged_counts_as_zero_wherever_its_siblings_were_tested():
    rows = example().evaluation
    rows = rows[rows["cell"] == "APE, 3 layers"]
    keys = ["checkpoint", "range", "length"]
    diverged, other = rows[rows["seed"] == 0], rows[rows["seed"] == 1]
    assert diverged[keys].to_numpy().tolist() == other[keys].to_numpy().tolist()
    assert (diverged["exact_match"] == 0).all()
    assert (diverged["status"] == "diverged").all()


def test_error_and_missing_trials_have_no_rows():
    rows = example().evaluation
    assert rows[rows["cell"] == "RoPE, 3 layers"]["seed"].unique().tolist() == [0, 2]
    assert rows[rows["cell"] == "coupling, 2 layers"]["seed"].unique().tolist() == [0, 1]


def test_counts_and_order_survive():
    rows = example(complete=True).evaluation
    expected = make_evaluation(27.0, 1.2, 1)
    found = rows[
        (rows["cell"] == "coupling, 3 layers")
        & (rows["seed"] == 1)
        & (rows["checkpoint"] == "last")
    ]
    found = found.sort_values("length")
    assert found["num_correct"].tolist() == [row["num_correct"] for row in expected]
    assert rows["cell"].drop_duplicates().tolist() == list(CELLS)
    assert rows["second_length"].isna().all()


def test_a_diverged_trial_without_siblings_takes_the_lengths_of_the_others(tmp_path: Path):
    """Its own trained lengths say what is in the train range."""
    store = Store(tmp_path)
    fine, bad = make_config({}, 0), make_config({}, 0, max_length=12)
    write_trial(store, fine, "ok", make_evaluation(30.0, 1.0, 0))
    write_trial(store, bad, "diverged")
    store.write_view(view_rows({"short": [fine], "long": [bad]}))
    results = load_sweep(tmp_path, "depth_ablation", "laptop")
    rows = results.evaluation[results.evaluation["cell"] == "long"].set_index("length")
    assert set(rows.index) == {*TRAIN, *NEAR, *TEST}
    assert rows["range"][8] == rows["range"][12] == "train"
    assert rows["range"][14] == "test"
    assert trained_ranges(results) == {"short": (1, 8), "long": (1, 12)}


def test_a_trial_may_serve_two_cells(tmp_path: Path):
    store, config = Store(tmp_path), make_config({}, 0)
    write_trial(store, config, "ok", make_evaluation(30.0, 1.0, 0))
    store.write_view(view_rows({"a": [config], "b": [config]}))
    results = load_sweep(tmp_path, "depth_ablation", "laptop")
    assert results.evaluation.groupby("cell").size().to_dict() == {"a": 14, "b": 14}


def test_unknown_names_are_answered_with_the_right_ones(tmp_path: Path):
    with pytest.raises(ValueError, match="holds no views"):
        load_sweep(tmp_path, "depth_ablation", "laptop")
    store, config = Store(tmp_path), make_config({}, 0)
    store.write_view(view_rows({"a": [config]}))
    with pytest.raises(ValueError, match="did you mean 'depth_ablation'"):
        load_sweep(tmp_path, "depth_ablaton", "laptop")
    with pytest.raises(ValueError, match="no scale 'paper'; it has: laptop"):
        load_sweep(tmp_path, "depth_ablation", "paper")
    with pytest.raises(ValueError, match="there: depth_ablation"):
        load_sweep(tmp_path, "zzz", "laptop")
    with pytest.raises(ValueError, match=r"'best' was not evaluated.*there: last, oracle"):
        example().at("best")


def test_views_are_listed_with_their_progress(tmp_path: Path):
    (summary,) = list_views(build_store(tmp_path).root)
    assert (summary.sweep, summary.scale, summary.num_cells) == ("depth_ablation", "laptop", 6)
    assert (summary.num_counted, summary.num_trials) == (16, 18)
