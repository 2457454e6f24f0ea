"""The fast paths train as the obvious version does, and all of them through one forward pass."""

import copy

import pytest
import torch

from pcore.config import override
from pcore.data import TrainingData
from pcore.decoding import decode_freely
from pcore.evaluation import judge, make_test_set
from pcore.model import Transformer
from pcore.training import Run, learning_rate
from sweeps.baseline import addition
from tests.support.obvious import ObviousTrainer, mean_loss

CHANGES = {
    "one layer": {"model.num_layers": 1},
    "two layers": {"model.num_layers": 2, "model.norm_placement": "pre"},
    "sharp": {"model.attention_scale": "log-length", "model.norm_placement": "post"},
    "sharp, base 20": {"model.attention_scale": "log-length", "model.log_base": 20},
    "NoPE": {"position.encoding": "none"},
    "clipped": {"optim.grad_clip": 0.5},
}


def config_of(name):
    changes = {"data.max_length": 6, "optim.batch_size": 16, "optim.num_steps": 50}
    return override(addition("smoke"), changes | CHANGES[name])


@pytest.mark.parametrize("name", ["two layers", "clipped"])
def test_the_loss_curve_of_50_steps_is_that_of_the_obvious_version(name):
    config = config_of(name)
    run = Run(config, "cpu")
    obvious = ObviousTrainer(copy.deepcopy(run.model), config)
    for step in range(50):
        batch, rate = run.data.next_batch(), learning_rate(config.optim, step)
        loss, _ = run.update(batch, rate)
        assert float(loss) == pytest.approx(obvious.update(batch, rate), rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("name", CHANGES)
def test_gradients_are_those_of_the_obvious_version(name):
    config = config_of(name)
    run = Run(config, "cpu")
    batch = run.data.next_batch()
    model = copy.deepcopy(run.model)
    run.update(batch, 0.0)  # leaves the gradients, clipped
    mean_loss(model, config, batch).backward()
    limit = config.optim.grad_clip or float("inf")
    torch.nn.utils.clip_grad_norm_(model.parameters(), limit, foreach=False)
    for (name, fast), slow in zip(run.model.named_parameters(), model.parameters(), strict=True):
        if slow.grad is not None:
            torch.testing.assert_close(fast.grad, slow.grad, rtol=1e-3, atol=1e-6, msg=name)


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
    decode_freely(run.model, batch, config)
    assert len(calls) == 4 + int(batch.response_mask.sum(dim=1).max())
