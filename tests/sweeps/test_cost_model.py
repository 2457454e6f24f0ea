"""The cost model: a known law is found again in rows that obey it, and a price says where it comes
from.
"""

import math
import random
import re

import numpy as np
import pytest
import torch
from scipy.optimize import nnls

from pcore.config import TrialConfig, override, trial_id, without_seeds
from pcore.encodings import Encoding
from pcore.evaluation.flops import count_flops, count_train_flops
from sweeps import quickstart
from sweeps.baseline import addition
from sweeps.engine.plan import Plan, PlannedTrial, launch_order, predict_wall
from sweeps.engine.prices import cost_model, price
from sweeps.engine.prices.cost_model import (
    TYPICAL,
    CostModel,
    Measurement,
    count_amounts,
    cross_validate,
    fit,
    is_enough,
)
from sweeps.engine.prices.measured import read_measured
from sweeps.engine.prices.price import Price, price_cells
from sweeps.engine.spec import Cell, Trial
from sweeps.engine.store.store import Store

BASE = addition("laptop")
HERE = {"host": "here", "device": "cpu", "num_threads": 1, "started_at": "2026-01-01T00:00:00"}
SHAPES = [  # what the rows of a test's store were measured at
    {},
    {"model.num_layers": 3, "optim.num_steps": 1500},
    {"model.num_heads": 8, "data.max_length": 7},
    {"model.d_model": 128, "model.d_ff": 256},
    {"position.encoding": "t5", "position.ids": "sequential", "position.start": "fixed"},
    {"position.encoding": "rotary", "model.num_layers": 2},
    {"position.encoding": "alibi", "optim.batch_size": 128},
    {"optim.batch_size": 32, "data.max_length": 18},
]
UNSEEN = {"model.num_layers": 2, "model.num_heads": 2, "data.max_length": 9}


@pytest.fixture(autouse=True)
def fixed_host(monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "here")


def make_law(seed: int) -> CostModel:
    """A machine whose proportions are up to 2 times those of TYPICAL and that is 3 times faster."""
    rng = random.Random(seed)

    def draw(typical: float) -> float:
        return typical / 3 * 2 ** rng.uniform(-1, 1)

    return CostModel(per_step=draw(TYPICAL.per_step), per_operation=draw(TYPICAL.per_operation))


def draw_configs(count: int, seed: int) -> list[TrialConfig]:
    """Random shapes as they occur in sweeps."""
    rng = random.Random(seed)
    return [
        override(
            BASE,
            {
                "model.num_layers": rng.choice([1, 2, 3, 4, 6]),
                "model.num_heads": rng.choice([1, 2, 4, 8]),
                "model.d_model": rng.choice([32, 64, 128, 256]),
                "model.d_ff": rng.choice([64, 128, 512]),
                "data.max_length": rng.choice([5, 8, 12, 20]),
                "optim.batch_size": rng.choice([16, 64, 256]),
                "optim.num_steps": rng.choice([500, 2000, 4000]),
                "position.encoding": rng.choice(["learned", "none", "alibi", "t5", "rotary"]),
                "position.max_position": rng.choice([60, 200]),
                "eval.num_examples": rng.choice([200, 1000]),
            },
        )
        for _ in range(count)
    ]


def measure(config: TrialConfig, law: CostModel, noise: float = 1.0) -> Measurement:
    amounts = count_amounts(config)
    return Measurement(amounts=amounts, seconds=noise * law.seconds(amounts))


def errors(law: CostModel, measured: list[Measurement], configs: list[TrialConfig]) -> list[float]:
    model, amounts = fit(measured), [count_amounts(config) for config in configs]
    return [abs(math.log(model.seconds(each) / law.seconds(each))) for each in amounts]


def seconds_of(config: TrialConfig, law: CostModel) -> tuple[float, float]:
    """Seconds of training and of evaluation."""
    amounts = count_amounts(config)
    training = law.step_seconds(amounts) * amounts.num_steps
    return training, law.seconds(amounts) - training


def write(store: Store, config: TrialConfig, law: CostModel, **changes) -> None:
    training, evaluation = seconds_of(config, law)
    times = {"train_seconds": training, "eval_seconds": evaluation, "first_step": 0}
    flops = {"train_flops": count_train_flops(config), "num_parameters": 1}
    counts = {"checkpoint": "last", "range": "train", "length": 1, "num_examples": 1}
    rows = [counts | {"num_correct": 0}]
    store.write(config, "ok", {**HERE, **flops, **times, **changes}, [], rows)


def cell_of(config: TrialConfig) -> dict[str, TrialConfig]:
    return {trial_id(without_seeds(config)): config}


def only_price(config: TrialConfig, store: Store, **options) -> Price:
    (found,) = price_cells(cell_of(config), store, **options).by_cell.values()
    return found


@pytest.fixture
def law() -> CostModel:
    return make_law(0)


@pytest.fixture
def filled(tmp_path, law) -> Store:
    """A store with a trial of each of SHAPES, measured here."""
    for changes in SHAPES:
        write(Store(tmp_path), override(BASE, changes), law)
    return Store(tmp_path)


@pytest.fixture
def twice_as_slow(monkeypatch, law):
    """Steps that take twice as long here as the law says."""

    def probe(config, device, num_threads=1):
        return 2 * law.step_seconds(count_amounts(config))

    monkeypatch.setattr(price, "probe", probe)


# The fit --------------------------------------------------------------------------------------


def test_the_amounts_are_steps_and_all_operations(tiny_config):
    amounts = count_amounts(tiny_config)
    assert amounts.num_steps == tiny_config.optim.num_steps
    assert amounts.operations == pytest.approx(count_flops(tiny_config))
    assert amounts.train_operations == count_train_flops(tiny_config)


def test_a_grid_of_second_lengths_is_work_for_each_of_its_cells():
    config = override(BASE, {"task.num_operands": 4, "task.scratchpad": True})
    alone, grid = (
        count_amounts(override(config, {"eval.second_lengths": seconds}))
        for seconds in ((4,), (2, 4))
    )
    evaluation = [amounts.operations - amounts.train_operations for amounts in (alone, grid)]
    assert evaluation[1] == pytest.approx(2 * evaluation[0])


@pytest.mark.parametrize("seed", range(4))
def test_a_known_law_is_found_again(seed):
    law = make_law(seed)
    measured = [measure(config, law) for config in draw_configs(40, seed)]
    assert max(errors(law, measured, draw_configs(40, seed + 100))) < 0.01


@pytest.mark.parametrize("seed", range(4))
def test_a_tenth_of_rows_twice_too_slow_does_little(seed):
    law, rng = make_law(seed), random.Random(seed)
    configs = draw_configs(40, seed)
    noise = [(2.0 if i % 10 == 0 else 1.0) * rng.uniform(0.97, 1.03) for i in range(len(configs))]
    measured = [measure(config, law, n) for config, n in zip(configs, noise, strict=True)]
    assert max(errors(law, measured, draw_configs(40, seed + 100))) < 0.12


def test_few_shapes_give_the_scale_of_the_machine():
    """Proportions that four shapes cannot show stay typical."""
    slow = CostModel(per_step=30 * TYPICAL.per_step, per_operation=30 * TYPICAL.per_operation)
    measured = [measure(override(BASE, changes), slow) for changes in SHAPES[:4]]
    assert max(errors(slow, measured, draw_configs(20, 5))) < 0.01
    law = make_law(0)
    assert max(errors(law, [measure(BASE, law)], [BASE])) < 0.05


def test_nothing_is_predicted_to_take_less_than_no_time():
    rng = random.Random(0)
    wild = [measure(config, make_law(0), rng.uniform(0.1, 9)) for config in draw_configs(12, 0)]
    model = fit(wild)
    assert min(model.per_step, model.per_operation) >= 0


def test_a_step_is_predicted_without_its_like():
    """Two trials with the same step are left out together, so a wrong one is not excused by its
    twin.
    """
    law = make_law(0)
    measured = [measure(override(BASE, changes), law) for changes in SHAPES]
    odd = {"optim.num_steps": 3000}, {"optim.num_steps": 2500, "position.max_position": 90}
    outliers = [measure(override(BASE, c | {"model.num_heads": 1}), law, 3) for c in odd]
    ratios = cross_validate([*measured, *outliers])
    assert ratios[-2:] == pytest.approx([3, 3], rel=0.05)


def test_no_measurement_gives_no_fit():
    with pytest.raises(ValueError, match="at least one"):
        fit([])
    m = measure(BASE, make_law(0))
    with pytest.raises(ValueError, match="two different training steps"):
        cross_validate([m, m])
    assert not is_enough([m] * 10)


# Prices ---------------------------------------------------------------------------------------


def test_a_shape_that_was_never_measured_is_fitted(filled, law):
    config = override(BASE, UNSEEN)
    found = price_cells(cell_of(config), filled)
    (only,) = found.by_cell.values()
    assert only.source == f"fitted on {len(SHAPES)} cells"
    assert only.seconds == pytest.approx(law.seconds(count_amounts(config)), rel=0.1)
    assert re.search(r"left out of the fit took [\d.]+x to [\d.]+x of their pred", found.note)


def test_a_cell_that_was_measured_costs_what_it_took(filled, law):
    config = override(BASE, SHAPES[3])
    disturbed = {"train_seconds": 1e6, "eval_seconds": 1e6}
    write(filled, override(config, {"seed": 7}), law, **disturbed)
    found = only_price(config, filled)
    assert found.source == "measured"
    assert found.seconds == pytest.approx(law.seconds(count_amounts(config)))


def test_an_interrupted_trial_counts_for_what_it_ran_itself(tmp_path, law):
    store, (training, evaluation) = Store(tmp_path), seconds_of(BASE, law)
    write(store, BASE, law, first_step=500, train_seconds=0.75 * training)
    assert only_price(BASE, store).seconds == pytest.approx(training + evaluation)
    last = override(BASE, {"seed": 1})
    write(store, last, law, first_step=1900, train_seconds=1e6)  # too little to count
    assert only_price(BASE, store).seconds == pytest.approx(training + evaluation)


@pytest.mark.usefixtures("twice_as_slow")
def test_too_few_shapes_are_no_fit_but_a_probe(tmp_path, law):
    store, config = Store(tmp_path), override(BASE, UNSEEN)
    for changes in SHAPES[:3]:
        write(store, override(BASE, changes), law)
    found = price_cells(cell_of(config), store)
    (only,) = found.by_cell.values()
    assert only.source == "probed"
    assert found.note == ""
    assert only.seconds == pytest.approx(2 * law.seconds(count_amounts(config)), rel=0.2)


@pytest.mark.usefixtures("twice_as_slow")
@pytest.mark.parametrize("other", [{"device": "NVIDIA H200"}, {"num_threads": 4}])
def test_rows_of_other_devices_and_threads_are_none_of_its_business(tmp_path, law, other):
    store = Store(tmp_path)
    for changes in SHAPES:
        write(store, override(BASE, changes), law, **other)
    assert only_price(override(BASE, UNSEEN), store).source == "probed"
    assert only_price(BASE, store).source == "probed"
    assert not read_measured(store, "cpu").seconds


@pytest.mark.usefixtures("twice_as_slow")
def test_rows_of_another_host_are_compared_with_this_one_by_a_probe(tmp_path, law):
    store, config = Store(tmp_path), override(BASE, UNSEEN)
    for changes in SHAPES:
        write(store, override(BASE, changes), law, host="there")
    expected = law.seconds(count_amounts(config))
    assert only_price(config, store).seconds == pytest.approx(2 * expected, rel=0.2)
    assert only_price(config, store, local=False).seconds == pytest.approx(expected, rel=0.1)


@pytest.mark.usefixtures("twice_as_slow")
@pytest.mark.parametrize(
    "changes",
    [
        {"model.d_model": 1024, "model.d_ff": 4096, "model.num_layers": 6},
        {"position.encoding": "tests.sweeps.test_cost_model:Slow"},
    ],
)
def test_what_is_unlike_all_that_was_measured_is_probed(filled, changes):
    assert only_price(override(BASE, changes), filled).source == "probed"


def test_own_code_that_raises_has_a_guessed_price_and_is_tried_once(tmp_path, law, monkeypatch):
    store, asked = Store(tmp_path), list[TrialConfig]()

    def probe(config, device, num_threads=1):
        asked.append(config)
        raise RuntimeError("a shape that does not fit")

    monkeypatch.setattr(price, "probe", probe)
    write(store, override(BASE, SHAPES[0]), law, host="there")
    longer = override(BASE, UNSEEN | {"optim.num_steps": 9000})  # the same training step
    found = price_cells({"a": override(BASE, UNSEEN), "b": longer}, store)
    assert [price.source for price in found.by_cell.values()] == ["guessed", "guessed"]
    assert all(price.seconds > 0 for price in found.by_cell.values())
    assert len(asked) == 1


def test_rows_of_own_code_that_is_gone_are_left_out(filled, law):
    config = override(BASE, {"position.encoding": "tests.sweeps.test_cost_model:Slow"})
    write(filled, config, law, config_json='{"position.encoding": "nowhere_to_be_found:Slow"}')
    assert only_price(override(BASE, UNSEEN), filled).source == f"fitted on {len(SHAPES)} cells"


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


@pytest.mark.parametrize("seed", range(20))
def test_two_amounts_are_fitted_as_scipy_fits_them(seed):
    rng = np.random.default_rng(seed)
    factors, targets = rng.normal(size=(6, 2)), rng.normal(size=6)
    expected, _ = nnls(factors, targets)
    assert cost_model._fit_two(factors, targets) == pytest.approx(expected)
