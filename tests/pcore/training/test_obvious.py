"""The fast paths train as the obvious version does, and all of them through one forward pass."""

import copy

import pytest

from pcore.config import override
from pcore.data import TrainingData
from pcore.decoding import decode_freely
from pcore.evaluation import judge, make_test_set
from pcore.model import Transformer
from pcore.training import Run, learning_rate
from sweeps.baseline import addition
from tests.support.obvious import ObviousTrainer


@pytest.mark.parametrize(
    "changes",
    [{"model.num_layers": 2, "model.norm_placement": "pre"}, {"optim.grad_clip": 0.5}],
    ids=str,
)
def test_the_loss_curve_of_50_steps_is_that_of_the_obvious_version(changes):
    """Of gradients: test_transformer.py compares padded batches with it, test_packing.py the others
    with those.
    """
    small = {"data.max_length": 6, "optim.batch_size": 16, "optim.num_steps": 50}
    config = override(addition("smoke"), small | changes)
    run = Run(config, "cpu")
    obvious = ObviousTrainer(copy.deepcopy(run.model), config)
    for step in range(50):
        batch, rate = run.data.next_batch(), learning_rate(config.optim, step)
        loss, _ = run.update(batch, rate)
        assert float(loss) == pytest.approx(obvious.update(batch, rate), rel=1e-3, abs=1e-5)


ROUTES = {
    "cut into parts": ({}, False),
    "tokens not shared": ({"position.ids": "randomized", "position.max_position": 900}, False),
    "own, padded": ({"model.mixer": "tests.pcore.model.test_mixing:Mean"}, False),
    "gated": ({"model.mixer": "gated-linear"}, False),
    "static, as on a GPU": ({}, True),
    "packed": ({"data.problems_per_row": 4, "position.max_position": 100}, False),
}


@pytest.mark.parametrize("route", ROUTES)
def test_every_route_ends_in_the_one_forward_pass(monkeypatch, route):
    changes, static = ROUTES[route]
    config = override(addition("smoke"), {"optim.batch_size": 16, "data.max_length": 6} | changes)
    run, calls, forward = Run(config, "cpu"), [], Transformer.forward
    run.data = TrainingData(config, static=static)

    def counted(model, *inputs, **options):
        calls.append(model)
        return forward(model, *inputs, **options)

    monkeypatch.setattr(Transformer, "forward", counted)
    for _ in range(3):
        run.update(run.data.next_batch(), 1e-3)
    assert calls == [run.model] * 3
    batch = make_test_set(config, 2)
    judge(run.model, batch, config)
    assert len(calls) == 4
    written = decode_freely(run.model, config.task.encode("12+34"), config)
    assert len(calls) == 4 + len(written)
