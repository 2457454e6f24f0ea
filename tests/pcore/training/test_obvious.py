"""The fast paths train as the obvious version does."""

import copy

import pytest

from pcore.config import override
from pcore.training import Run, learning_rate, weight_decay
from sweeps.baseline import addition
from tests.support.obvious import ObviousTrainer


@pytest.mark.parametrize(
    "changes",
    [
        {"model.num_layers": 2, "model.norm_placement": "pre"},
        {"optim.grad_clip": 0.5},
        {"optim.grad_clip": 0, "optim.weight_decay": 30, "optim.final_decay_fraction": 0},
    ],
    ids=str,
)
def test_the_curves_of_50_steps_are_those_of_the_obvious_version(changes):
    """Of loss and gradient norm before clipping. Of gradients: test_transformer.py compares padded
    batches with it, test_packing.py the others with those.
    """
    small = {"data.max_length": 6, "optim.batch_size": 16, "optim.num_steps": 50}
    config = override(addition("smoke"), small | changes)
    run = Run(config, "cpu")
    obvious = ObviousTrainer(copy.deepcopy(run.model), config)
    for step in range(50):
        batch, rate = run.data.next_batch(), learning_rate(config.optim, step)
        loss, norm = run.update(batch, rate)
        run.step += 1
        expected = obvious.update(batch, rate, weight_decay(config.optim, step))
        assert (float(loss), float(norm)) == pytest.approx(expected, rel=1e-3, abs=1e-5)
