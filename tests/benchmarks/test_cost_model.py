"""How well the cost model predicts shapes it has not seen: `pytest -m benchmark -s` on this file.

Short trials of NUM_SHAPES shapes drawn from the cells of all sweeps at laptop scale are run one
after another, then predicted from one another. PCORE_COST_STORE keeps their rows in that folder (or
uses those that are there), for `python -m sweeps cost --results FOLDER`.
"""

import os
import random
from pathlib import Path

import pytest

from pcore.config import TrialConfig, override
from sweeps.engine.attempt import Settings, run_attempt
from sweeps.engine.catalogue import find_sweep, sweep_names
from sweeps.engine.cost_model import (
    Measurement,
    cross_validate,
    fit,
    shape_of,
    typical_model,
)
from sweeps.engine.measured import MeasuredCell, by_shape, measurements, read_measured
from sweeps.engine.price import count_close, describe_ratios, probe, smaller
from sweeps.engine.store import Store

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]
NUM_SHAPES = 40
TRAIN_SECONDS = 4.0  # of each trial, roughly
FEW = (4, 6, 10, 20)  # shapes to fit to


def draw_trials() -> list[TrialConfig]:
    """Trials with different training steps, cut to a few seconds; no two equal in their step."""
    cells = [cell.config for name in sweep_names() for cell in find_sweep(name).cells("laptop")]
    by_step = {shape_of(config).step: config for config in cells}
    chosen = random.Random(0).sample(sorted(by_step.items(), key=lambda item: item[0]), NUM_SHAPES)
    model, trials = typical_model(), list[TrialConfig]()
    for _, config in chosen:
        step = model.predict(shape_of(config), "training") / config.optim.num_steps
        changes = {
            "optim.num_steps": max(20, round(TRAIN_SECONDS / step)),
            "eval.num_examples": max(50, config.eval.num_examples // 5),
        }
        if config.data.num_examples is not None:
            changes["data.num_examples"] = min(config.data.num_examples, 10_000)
        trials.append(override(config, changes))
    return trials


@pytest.fixture(scope="module")
def cells(tmp_path_factory) -> tuple[MeasuredCell, ...]:
    folder = os.environ.get("PCORE_COST_STORE") or tmp_path_factory.mktemp("cost")
    settings = Settings(results=str(Path(folder).resolve()))
    for config in draw_trials():
        assert run_attempt(config, settings).status in ("ok", "done")
    return read_measured(Store(folder), "cpu").sample


@pytest.fixture(scope="module")
def measured(cells) -> list[Measurement]:
    return measurements(by_shape(cells, "cpu"))


def ratios_of(pairs: list[tuple[float, float]]) -> list[float]:
    return [took / predicted for predicted, took in pairs]


def test_shapes_are_predicted_from_others(measured, capsys):
    """Four of five shapes left out are within 30 %."""
    ratios = ratios_of(cross_validate(measured))
    with capsys.disabled():
        print(f"\neach of {len(ratios)} shapes from the others: {describe_ratios(ratios)}")
    assert count_close(ratios) >= 0.8 * len(ratios)


def test_a_few_shapes_predict_many(measured, capsys):
    """What a fit to a few random shapes is worth for all others, mean of 50 draws."""
    rng = random.Random(0)
    with capsys.disabled():
        for count in FEW:
            close = total = 0
            for _ in range(50):
                chosen = set(rng.sample(range(len(measured)), count))
                model = fit([measured[i] for i in chosen])
                left = [m for i, m in enumerate(measured) if i not in chosen]
                close += count_close([m.seconds / model.seconds(m.shape) for m in left])
                total += len(left)
            print(f"\nfitted to {count} shapes: {100 * close / total:.0f} % of the others close")
            assert close / total > 0.5


def test_a_probe_for_comparison(cells, capsys):
    """What a probe of each shape says."""
    model, pairs = typical_model(), list[tuple[float, float]]()
    for cell in cells:
        small = smaller(cell.config)
        speed = probe(small, "cpu") / model.predict(shape_of(small), "training")
        pairs.append((speed * model.seconds(shape_of(cell.config)), cell.seconds))
    with capsys.disabled():
        print(f"\neach of {len(pairs)} shapes probed: {describe_ratios(ratios_of(pairs))}")
    assert count_close(ratios_of(pairs)) > 0.5 * len(pairs)
