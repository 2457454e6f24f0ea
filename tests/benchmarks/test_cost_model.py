"""How well the cost model predicts shapes it has not seen: `pytest -m benchmark -s` on this file.

Training steps and evaluations of NUM_SHAPES shapes drawn from the cells of all sweeps at laptop
scale, and of wider models, are timed in CPU seconds of one thread, which other work on the machine
changes little; then they are predicted from one another.
"""

import random
import time
from collections.abc import Callable

import pytest

from pcore.config import TrialConfig, override
from pcore.evaluation.evaluate import evaluate_lengths
from pcore.training.train import Run, learning_rate
from sweeps.baseline import addition
from sweeps.commands.catalogue import find_sweep, sweep_names
from sweeps.engine.arithmetic import process_settings
from sweeps.engine.prices.cost_model import (
    MIN_STEPS,
    Measurement,
    count_amounts,
    cross_validate,
    fit,
)
from sweeps.engine.prices.price import count_close, describe_ratios

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]
NUM_SHAPES = 40
WIDER = ({"d_model": 256, "d_ff": 512}, {"d_model": 256, "d_ff": 1024, "num_layers": 2})
NUM_STEPS = 15
NUM_EXAMPLES = 100  # per length


def draw_configs() -> list[TrialConfig]:
    """Configurations no two of which are equal in their training step."""
    cells = [cell.config for name in sweep_names() for cell in find_sweep(name).cells("laptop")]
    changes = {"data.num_examples": None, "eval.num_examples": NUM_EXAMPLES}
    cells = [cell for cell in cells if cell.model.kind == "trained"]
    by_step = {count_amounts(c).step: c for c in (override(cell, changes) for cell in cells)}
    return [by_step[step] for step in random.Random(0).sample(sorted(by_step), NUM_SHAPES)]


def wider_configs() -> list[TrialConfig]:
    """Models twice as wide as any at laptop scale."""
    base = override(addition("laptop"), {"eval.num_examples": NUM_EXAMPLES})
    return [override(base, {f"model.{k}": v for k, v in changes.items()}) for changes in WIDER]


def cpu_seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def measure(config: TrialConfig) -> Measurement:
    """A trial whose steps all take as long as a few of them."""
    run, rate = Run(config, "cpu"), learning_rate(config.optim, 0)

    def steps(count: int) -> None:
        for _ in range(count):
            run.update(run.data.next_batch(), rate)

    steps(2)
    each = cpu_seconds(lambda: steps(NUM_STEPS)) / NUM_STEPS
    evaluation = cpu_seconds(lambda: list(evaluate_lengths(run.model, config, "last", 0)))
    seconds = each * config.optim.num_steps + evaluation
    return Measurement(amounts=count_amounts(config), seconds=seconds)


@pytest.fixture(scope="module")
def measured() -> list[Measurement]:
    with process_settings(num_threads=1):  # as in an attempt
        return [measure(config) for config in draw_configs()]


def test_shapes_are_predicted_from_others(measured, capsys):
    """Four of five shapes left out are within 30 %."""
    ratios = cross_validate(measured)
    with capsys.disabled():
        print(f"\neach of {len(ratios)} shapes from the others: {describe_ratios(ratios)}")
    assert count_close(ratios) >= 0.8 * len(ratios)


def test_wider_models_are_predicted_from_narrower_ones(measured, capsys):
    model, wider = fit(measured), [measure(config) for config in wider_configs()]
    ratios = [m.seconds / model.seconds(m.amounts) for m in wider]
    with capsys.disabled():
        print(f"\nmodels twice as wide as any that was fitted: {describe_ratios(ratios)}")
    assert count_close(ratios) == len(ratios)


def test_a_few_shapes_predict_many(measured, capsys):
    """What a fit to a few random shapes is worth for all others, mean of 50 draws."""
    rng = random.Random(0)
    shares: dict[int, float] = {}
    for count in (1, 2, MIN_STEPS, 8, 20):
        found: list[float] = []
        for _ in range(50):
            chosen = rng.sample(measured, count)
            left = [m for m in measured if m not in chosen]
            model = fit(chosen)
            found += [m.seconds / model.seconds(m.amounts) for m in left]
        shares[count] = count_close(found) / len(found)
    with capsys.disabled():
        for count, share in shares.items():
            print(
                f"\nfitted to {count} shapes: {100 * share:.0f} % of the others within 30 %", end=""
            )
    assert shares[MIN_STEPS] > 0.6
