"""Prices: what a cell took here, else what its steps and operations take at the speed of others."""

import pytest

from pcore.config import TrialConfig, override, trial_id, without_seeds
from pcore.flops import count_train_flops
from sweeps import quickstart
from sweeps.baseline import addition
from sweeps.engine.plan import Plan, PlannedTrial, launch_order, predict_wall
from sweeps.engine.price import (
    Price,
    price_cells,
    typical_seconds,
    typical_trial_seconds,
)
from sweeps.engine.spec import Cell, Trial
from sweeps.engine.store.store import Store

BASE = addition("laptop")
HERE = {"host": "here", "device": "cpu", "num_threads": 1, "started_at": "2026-01-01T00:00:00"}
UNSEEN = override(BASE, {"model.num_layers": 2, "model.num_heads": 2, "data.max_length": 9})
SLOWNESS = [  # of measured cells; their median is 3
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


def price(config: TrialConfig, store: Store, **options) -> Price:
    (found,) = price_cells({trial_id(without_seeds(config)): config}, store, **options).values()
    return found


def test_a_measured_cell_costs_its_median_and_others_go_by_the_speed_of_all(tmp_path):
    store = fill(tmp_path)
    found = price(UNSEEN, store)
    assert found.source == "speed of 3 cells"
    assert found.seconds == pytest.approx(3 * typical_trial_seconds(UNSEEN))
    config = override(BASE, SLOWNESS[2][0])
    for seed, slowness in ((7, 1000.0), (8, 21.0)):
        write(store, override(config, {"seed": seed}), slowness)
    found = price(config, store)
    assert found.source == "measured"
    assert found.seconds == pytest.approx(21 * typical_trial_seconds(config))


def test_an_interrupted_trial_counts_for_what_it_ran_itself(tmp_path):
    store, (training, evaluation) = Store(tmp_path), seconds_of(BASE, 1.0)
    write(store, BASE, first_step=500, train_seconds=0.75 * training)
    write(store, override(BASE, {"seed": 1}), first_step=1900, train_seconds=1.0)  # too little
    assert price(BASE, store).seconds == pytest.approx(training + evaluation)
    assert price(UNSEEN, store).seconds == pytest.approx(typical_trial_seconds(UNSEEN))


@pytest.mark.parametrize("other", [{"device": "NVIDIA H200"}, {"num_threads": 4}, {"host": "x"}])
def test_rows_of_other_devices_threads_and_hosts_are_none_of_its_business(tmp_path, other):
    store = fill(tmp_path, **other)
    assert price(BASE, store).source == "a typical core"


def test_a_joined_cluster_goes_by_any_host_and_a_gpu_by_gpus(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert price(BASE, fill(tmp_path / "a", host="x"), local=False).source == "measured"
    store = fill(tmp_path / "b", device="NVIDIA H200")
    assert price(BASE, store, device="cuda").source == "measured"


def test_rows_without_operations_say_only_what_their_cell_took(tmp_path):
    write(Store(tmp_path), BASE, train_flops=None)
    assert price(BASE, Store(tmp_path)).seconds == pytest.approx(typical_trial_seconds(BASE))
    assert price(UNSEEN, Store(tmp_path)).source == "a typical core"


def test_the_shortest_trial_starts_first_then_the_longest_once_the_executor_has_started():
    trials = [
        PlannedTrial(
            trial=Trial(cell=Cell(label=str(seconds), config=BASE), config=BASE, id=str(seconds)),
            state="missing",
            price=Price(seconds=seconds, source="measured"),
        )
        for seconds in (30, 10, 40, 20)
    ]
    plan = Plan(sweep=quickstart.SWEEP, scale="smoke", trials=tuple(trials))
    order = launch_order([plan], 2)
    assert [p.trial.id for p in order] == ["10", "40", "30", "20"]
    assert [p.trial.id for p in launch_order([plan], 1)] == ["30", "10", "40", "20"]
    assert predict_wall(order, 2, 8.0) == 8.0 + 10 + 30 + 20
    assert predict_wall(launch_order([], 2), 2, 8.0) == 0
