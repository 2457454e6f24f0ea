"""Loading a sweep: which trials count, what missing and diverged ones become."""

import dataclasses
from pathlib import Path

import pytest

from analysis.load import known_task, load_sweep, relabel, trained_ranges, unchanged_labels
from analysis.rows import read_curves, read_rows
from pcore.config import override
from pcore.tasks import Copy
from sweeps.engine.store.store import Store
from tests.support.rows.example_store import (
    example,
    make_config,
    make_evaluation,
    view_rows,
    write_trial,
)


def test_a_diverged_trial_without_siblings_has_the_lengths_of_its_configuration(tmp_path: Path):
    store = Store(tmp_path)
    fine, bad = make_config({}, 0), make_config({}, 0, max_length=12)
    three = override(fine, {"task.num_operands": 3})
    write_trial(store, fine, "ok", make_evaluation(30.0, 1.0, 0))
    write_trial(store, bad, "diverged")
    write_trial(store, three, "diverged")
    store.write_view(view_rows({"short": [fine], "long": [bad], "three": [three]}))
    results = load_sweep(tmp_path, "depth_ablation", "laptop")
    rows = results.evaluation[results.evaluation["cell"] == "long"].set_index("length")
    assert set(rows.loc[rows["range"] == "train"].index) == set(range(1, 13))
    assert (rows["num_correct"] == 0).all()
    assert (rows["num_tokens"] > 0).all()
    assert results.evaluation.loc[results.evaluation["cell"] == "three", "test_set"].isna().all()
    assert trained_ranges(results) == {"short": (1, 8), "long": (1, 12), "three": (1, 8)}


def test_a_diverged_trial_has_the_sizes_that_its_test_sets_would_have(tmp_path: Path):
    store, task = Store(tmp_path), {"task.name": "minesweeper", "data.min_length": 3}
    bad = override(make_config({}, 0), task | {"data.max_length": 3, "eval.length_budget": 90})
    write_trial(store, fine := make_config({}, 0), "ok", make_evaluation(30.0, 1.0, 0))
    write_trial(store, bad, "diverged")
    store.write_view(view_rows({"sums": [fine], "boards": [bad]}))
    rows = load_sweep(tmp_path, "depth_ablation", "laptop").evaluation
    rows = rows[rows["cell"] == "boards"]
    assert rows["second_length"].tolist() == rows["length"].tolist()
    assert rows.set_index("length")["num_examples"][3] == 30


def test_a_sweep_that_was_not_run_may_be_published(tmp_path: Path):
    Store(tmp_path).write_view(view_rows({"a": [make_config({}, 0)]}))
    with pytest.raises(ValueError, match=r"--results .*results/published/laptop has it"):
        load_sweep(tmp_path, "minesweeper", "laptop")


def test_a_row_with_an_option_that_is_not_known_has_no_known_task():
    assert known_task({"task.name": "copy"}) == Copy()
    assert known_task({"task.name": "copy", "task.flavour": "sour"}) is None


def test_a_trial_may_serve_two_cells(tmp_path: Path):
    store, config = Store(tmp_path), make_config({}, 0)
    write_trial(store, config, "ok", make_evaluation(30.0, 1.0, 0))
    store.write_view(view_rows({"a": [config], "b": [config]}))
    results = load_sweep(tmp_path, "depth_ablation", "laptop")
    assert results.evaluation.groupby("cell").size().to_dict() == {"a": 14, "b": 14}


def test_a_sweep_changed_by_set_is_compared_under_the_labels_of_its_script():
    results = example()
    changed = relabel(results, {cell: f"{cell}, d_ff=64" for cell in results.cells})
    assert unchanged_labels(changed, results.cells).cells == results.cells
    assert unchanged_labels(changed, results.cells[1:]).cells == changed.cells  # one is another's
    assert unchanged_labels(results, changed.cells).cells == results.cells
    assert len(unchanged_labels(changed, results.cells).evaluation) == len(results.evaluation)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Flavoured(Copy):
    """Copy with an option that no shipped task has."""

    flavour: str = "plain"


def test_rows_in_hand_have_axes_configuration_and_counts(tmp_path: Path):
    own = dataclasses.replace(make_config({}, 0), task=Flavoured(flavour="sour"))
    again = dataclasses.replace(own, seed=1)
    store, cells = Store(tmp_path), {1: [own, again], 2: [make_config({}, 1)]}
    for number, config in ((number, run) for number, runs in cells.items() for run in runs):
        write_trial(store, config, "ok", make_evaluation(9.0 + number, 1.5, 0))
    view = view_rows({f"a{number}": runs for number, runs in cells.items()}, sweep="grid")
    for row in view:
        row["axes"] = f'{{"layers": {row["cell"][1]}}}'
    store.write_view(view)
    rows = read_rows(tmp_path)
    assert list(rows.columns[:4]) == ["sweep", "scale", "cell", "axis.layers"]
    layers = rows.groupby("cell")["axis.layers"].unique()
    assert layers.map(list).to_dict() == {"a1": [1], "a2": [2]}
    assert rows["model.num_layers"].nunique() == 1
    options = rows.groupby("cell")["task.flavour"].unique()
    assert options["a1"].tolist() == ["sour"]
    assert options["a2"].isna().all()
    assert rows["exact_match"].equals(rows["num_correct"] / rows["num_examples"])
    assert len(rows.drop_duplicates(["trial_id", "length"])) == len(rows)
    with pytest.raises(ValueError, match=r"no sweep .gird. in .*; did you mean .grid."):
        read_rows(tmp_path, ["grid", "gird"])
    curves = read_curves(tmp_path, "grid")
    assert curves.groupby("trial_id")["step"].is_monotonic_increasing.all()
    assert {"loss", "cell", "model.num_layers"} <= set(curves.columns)
    store.write_view([row | {"scale": "smoke"} for row in view])
    assert len(read_rows(tmp_path, "grid", "all")) == 2 * len(read_rows(tmp_path, "grid", "smoke"))
    for folder, sweep, message in (
        (tmp_path, "grid", "has rows at laptop and smoke scale: choose scale="),
        (tmp_path.parent, None, rf"no views; did you mean {tmp_path.parent}/\w+\?"),
    ):
        with pytest.raises(ValueError, match=message):
            read_rows(folder, sweep)
