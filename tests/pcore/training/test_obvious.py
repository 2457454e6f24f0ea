"""The fast paths train and judge as the obvious version does."""

import copy

import pytest
import torch

from pcore.config import override
from pcore.evaluation.judge import judge
from pcore.evaluation.test_sets import evaluation_ids, make_test_set
from pcore.training.train import Run, learning_rate
from sweeps.baseline import addition
from tests.support.obvious import ObviousTrainer, find_right, mean_loss

CHANGES = {
    "one layer": {"model.num_layers": 1},
    "two layers": {"model.num_layers": 2, "model.norm_placement": "pre"},
    "sharp": {"model.attention_scale": "log-length", "model.norm_placement": "post"},
    "sharp, base 20": {"model.attention_scale": "log-length", "model.log_base": 20},
    "NoPE": {"position.encoding": "none"},
    "clipped": {"optim.grad_clip": 0.5},
}


@pytest.fixture(params=CHANGES)
def config(request):
    changes = {"data.max_length": 6, "optim.batch_size": 16, "optim.num_steps": 50}
    return override(addition("smoke"), changes | CHANGES[request.param])


def test_the_loss_curve_of_50_steps_is_that_of_the_obvious_version(config):
    run = Run(config, "cpu")
    obvious = ObviousTrainer(copy.deepcopy(run.model), config)
    for step in range(50):
        batch, rate = run.data.next_batch(), learning_rate(config.optim, step)
        loss, _ = run.update(batch, rate)
        assert float(loss) == pytest.approx(obvious.update(batch, rate), rel=1e-3, abs=1e-5)


def test_gradients_are_those_of_the_obvious_version(config):
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


def test_the_same_examples_are_right(config):
    config = override(config, {"data.max_length": 1, "optim.learning_rate": 5e-3})
    run = Run(config, "cpu")
    for _ in range(250):
        run.update(run.data.next_batch(), 5e-3)
    batch = make_test_set(config, 1)
    ids = evaluation_ids(batch, config)
    right = find_right(run.model, config, batch, ids)
    assert 0 < right.sum() < len(right)
    assert judge(run.model, batch, config).right.tolist() == right.tolist()
