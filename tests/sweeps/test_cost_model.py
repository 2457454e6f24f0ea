"""The cost model: measured times come first, then the speed of cells alike, then a probe."""

import re

import pytest
import torch

from pcore.config import TrialConfig, override, trial_id, without_seeds
from pcore.encodings import Encoding
from pcore.flops import count_flops, count_train_flops
from sweeps import quickstart
from sweeps.baseline import addition
from sweeps.engine.plan import Plan, PlannedTrial, launch_order, predict_wall
from sweeps.engine.prices import price
from sweeps.engine.prices.measured import (
    OPERATION_SECONDS,
    STEP_SECONDS,
    Measured,
    Step,
    read_measured,
    typical_seconds,
    typical_trial_seconds,
)
from sweeps.engine.prices.price import Price, cross_validate, price_cells
from sweeps.engine.spec import Cell, Trial
from sweeps.engine.store.store import Store

BASE = addition("laptop")
HERE = {"host": "here", "device": "cpu", "num_threads": 1, "started_at": "2026-01-01T00:00:00"}
UNSEEN = {"model.num_layers": 2, "model.num_heads": 2, "data.max_length": 9}
SLOWNESS = [  # of measured cells, all of which are like UNSEEN: their median is 3
    ({}, 2.0),
    ({"model.num_layers": 3, "optim.num_steps": 1500}, 3.0),
    ({"optim.batch_size": 32}, 20.0),
]


@pytest.fixture(autouse=True)
def fixed_host(monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "here")


def seconds_of(config: TrialConfig, slowness: float) -> tuple[float, float]:
    """Seconds of training and of evaluation on a core that is slower than the typical one."""
    training = typical_seconds(config.optim.num_steps, count_train_flops(config))
    return slowness * training, slowness * (typical_trial_seconds(config) - training)


def write(store: Store, config: TrialConfig, slowness: float = 1.0, **changes) -> None:
    training, evaluation = seconds_of(config, slowness)
    times = {"train_seconds": training, "eval_seconds": evaluation, "first_step": 0}
    flops = {"train_flops": count_train_flops(config), "num_parameters": 1}
    counts = {"checkpoint": "last", "range": "train", "length": 1, "num_examples": 1}
    rows = [counts | {"num_correct": 0}]
    store.write(config, "ok", {**HERE, **flops, **times, **changes}, [], rows)


def fill(folder, **changes) -> Store:
    """A store with the cells of SLOWNESS."""
    store = Store(folder)
    for fields, slowness in SLOWNESS:
        write(store, override(BASE, fields), slowness, **changes)
    return store


@pytest.fixture
def filled(tmp_path) -> Store:
    return fill(tmp_path)


def cell_of(config: TrialConfig) -> dict[str, TrialConfig]:
    return {trial_id(without_seeds(config)): config}


def only_price(config: TrialConfig, store: Store, **options) -> Price:
    (found,) = price_cells(cell_of(config), store, **options).by_cell.values()
    return found


@pytest.fixture
def five_times_as_slow(monkeypatch):
    """Steps that take five times as long here as on the typical core."""

    def probe(config, device, num_threads=1):
        return 5 * typical_seconds(1, count_train_flops(config))

    monkeypatch.setattr(price, "probe", probe)


# Typical seconds --------------------------------------------------------------------------------


def test_a_typical_trial_is_steps_and_all_operations(tiny_config):
    steps = STEP_SECONDS * tiny_config.optim.num_steps
    expected = steps + OPERATION_SECONDS * count_flops(tiny_config)
    assert typical_trial_seconds(tiny_config) == pytest.approx(expected)


def test_a_grid_of_second_lengths_is_work_for_each_of_its_cells():
    config = override(BASE, {"task.num_operands": 4, "task.scratchpad": True})
    alone, grid = (
        seconds_of(override(config, {"eval.second_lengths": seconds}), 1.0)
        for seconds in ((4,), (2, 4))
    )
    assert grid[1] == pytest.approx(2 * alone[1])
    assert grid[0] == alone[0]


# Prices ---------------------------------------------------------------------------------------


def test_a_shape_that_was_never_measured_has_the_median_speed_of_those_alike(filled):
    config = override(BASE, UNSEEN)
    found = price_cells(cell_of(config), filled)
    (only,) = found.by_cell.values()
    assert only.source == "speed of 3 cells"
    assert only.seconds == pytest.approx(3 * typical_trial_seconds(config))
    assert re.search(r"alike, cells took [\d.]+x to [\d.]+x of their pred", found.note)


def test_only_the_newest_cells_are_compared(filled, monkeypatch):
    monkeypatch.setattr(price, "MAX_CELLS", 1)
    config = override(BASE, UNSEEN)
    newest = override(BASE, {"optim.num_steps": 1234})
    write(filled, newest, 7.0, started_at="2026-02-01T00:00:00")
    assert only_price(config, filled).seconds == pytest.approx(7 * typical_trial_seconds(config))


def test_a_cell_that_was_measured_costs_what_it_took(filled):
    config = override(BASE, SLOWNESS[2][0])
    disturbed = {"train_seconds": 1e6, "eval_seconds": 1e6}
    write(filled, override(config, {"seed": 7}), **disturbed)
    found = only_price(config, filled)
    assert found.source == "measured"
    assert found.seconds == pytest.approx(20 * typical_trial_seconds(config))


def test_an_interrupted_trial_counts_for_what_it_ran_itself(tmp_path):
    store, (training, evaluation) = Store(tmp_path), seconds_of(BASE, 1.0)
    write(store, BASE, first_step=500, train_seconds=0.75 * training)
    assert only_price(BASE, store).seconds == pytest.approx(training + evaluation)
    other = override(BASE, UNSEEN)
    assert only_price(other, store).seconds == pytest.approx(typical_trial_seconds(other))
    last = override(BASE, {"seed": 1})
    write(store, last, first_step=1900, train_seconds=1.0)  # too little to count
    assert only_price(BASE, store).seconds == pytest.approx(training + evaluation)


@pytest.mark.usefixtures("five_times_as_slow")
def test_with_an_empty_store_all_is_probed(tmp_path):
    config = override(BASE, UNSEEN)
    found = price_cells(cell_of(config), Store(tmp_path))
    (only,) = found.by_cell.values()
    assert only.source == "probed"
    assert found.note == ""
    assert only.seconds == pytest.approx(5 * typical_trial_seconds(config))


@pytest.mark.usefixtures("five_times_as_slow")
@pytest.mark.parametrize(
    "other", [{"device": "NVIDIA H200"}, {"num_threads": 4}, {"host": "there"}, {"stacked": 2}]
)
def test_rows_of_other_devices_threads_hosts_and_stacks_are_none_of_its_business(tmp_path, other):
    store = fill(tmp_path, **other)
    assert only_price(override(BASE, UNSEEN), store).source == "probed"
    assert only_price(BASE, store).source == "probed"
    assert not read_measured(store, "cpu")


def test_trials_of_a_joined_cluster_cost_what_they_took_on_any_host(tmp_path):
    store, config = fill(tmp_path, host="there"), override(BASE, UNSEEN)
    assert only_price(BASE, store, local=False).source == "measured"
    found = only_price(config, store, local=False)
    assert found.seconds == pytest.approx(3 * typical_trial_seconds(config))


@pytest.mark.usefixtures("five_times_as_slow")
def test_on_a_gpu_all_that_was_not_measured_is_probed(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    store = fill(tmp_path, device="NVIDIA H200")
    assert only_price(BASE, store, device="cuda").source == "measured"
    assert only_price(override(BASE, UNSEEN), store, device="cuda").source == "probed"


@pytest.mark.usefixtures("five_times_as_slow")
@pytest.mark.parametrize(
    "changes",
    [
        {"model.d_model": 1024, "model.d_ff": 4096, "model.num_layers": 6},
        {"optim.batch_size": 4},
        {"task.name": "copy"},
        {"position.encoding": "rotary"},
        {"position.encoding": "tests.sweeps.test_cost_model:Slow"},
        {"model.attention": "entmax"},
        {"model.mixer": "gated-linear"},
    ],
)
def test_what_is_unlike_all_that_was_measured_is_probed(filled, changes):
    assert only_price(override(BASE, changes), filled).source == "probed"


def test_rows_without_the_name_of_their_attention_had_the_default(tmp_path):
    names = {"model.attention": None, "model.mixer": None}
    write(Store(tmp_path), BASE, **names)
    assert only_price(override(BASE, UNSEEN), Store(tmp_path)).source == "speed of 1 cell"


@pytest.mark.usefixtures("five_times_as_slow")
def test_rows_without_operations_say_only_what_their_cell_took(tmp_path):
    write(Store(tmp_path), BASE, train_flops=None)
    assert only_price(BASE, Store(tmp_path)).seconds == pytest.approx(typical_trial_seconds(BASE))
    assert only_price(override(BASE, UNSEEN), Store(tmp_path)).source == "probed"


def test_own_code_that_raises_has_a_guessed_price_and_is_tried_once(tmp_path, monkeypatch):
    store, asked = Store(tmp_path), list[TrialConfig]()

    def probe(config, device, num_threads=1):
        asked.append(config)
        raise RuntimeError("a shape that does not fit")

    monkeypatch.setattr(price, "probe", probe)
    longer = override(BASE, UNSEEN | {"optim.num_steps": 9000})  # the same training step
    found = price_cells({"a": override(BASE, UNSEEN), "b": longer}, store)
    assert [price.source for price in found.by_cell.values()] == ["guessed", "guessed"]
    assert all(price.seconds > 0 for price in found.by_cell.values())
    assert len(asked) == 1


def test_a_step_is_predicted_without_its_like():
    """Two trials with the same step are left out together, so a wrong one is not excused by its
    twin.
    """
    kind = ("addition", "learned", "softmax", "attention")
    cells = [
        Measured(seconds=1.0, slowness=slowness, step=Step(kind=kind, operations=operations))
        for slowness, operations in (
            (1, 1e9),
            (1, 1.1e9),
            (1, 1.2e9),
            (3, 2e9),
            (3, 2e9),
            (9, 1e12),
        )
    ]
    assert cross_validate(cells)[-2:] == [3, 3]
    assert len(cross_validate(cells)) == 5, "nothing is like the last"
    assert cross_validate(cells[3:]) == []


class Slow(Encoding):
    """Somebody's own encoding: it may take any time."""


def test_a_probe_is_a_training_step(tiny_config):
    config = override(tiny_config, {"optim.num_steps": 1})
    threads = torch.get_num_threads()
    assert 0 < price.probe(config, "cpu", num_threads=2) < 5
    assert torch.get_num_threads() == threads


def test_the_shortest_trial_starts_first_then_the_longest():
    trials = [
        PlannedTrial(
            trial=Trial(cell=Cell(label=str(seconds), config=BASE), config=BASE, id=str(seconds)),
            state="missing",
            price=Price(seconds=seconds, source="measured"),
        )
        for seconds in (30, 10, 40, 20)
    ]
    plan = Plan(sweep=quickstart.SWEEP, scale="smoke", trials=tuple(trials))
    assert [p.trial.id for p in launch_order([plan], 2)] == ["10", "40", "30", "20"]
    assert [p.trial.id for p in launch_order([plan], 1)] == ["30", "10", "40", "20"]
    assert launch_order([], 2) == []


def test_starting_the_executor_belongs_to_the_wall_time_of_what_runs():
    cell = Cell(label="a", config=BASE)
    trial = Trial(cell=cell, config=BASE, id="a")
    planned = PlannedTrial(
        trial=trial, state="missing", price=Price(seconds=10.0, source="measured")
    )
    assert predict_wall([planned] * 3, 2, 8.0) == 8.0 + 20
    assert predict_wall([], 2, 8.0) == 0
