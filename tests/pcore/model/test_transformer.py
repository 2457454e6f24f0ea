"""The model is the one of the specification: against the obvious version, and what must hold."""

import copy
import math

import pytest
import torch

from pcore.batch import NO_TARGET
from pcore.config import TrialConfig, override
from pcore.data import TrainingData
from pcore.model import make_model
from pcore.training import mean_loss
from tests.support.obvious import forward
from tests.support.obvious import mean_loss as obvious_loss

VARIANTS = [
    {"model.num_layers": 2},
    {"model.num_layers": 3, "position.encoding": "none"},
    {"model.num_layers": 1, "position.encoding": "rotary", "position.ids": "sequential"},
    {"model.norm_placement": "pre"},
    {"model.norm_placement": "post", "model.num_layers": 3},
    {"model.norm": "layer", "model.norm_placement": "pre", "model.num_layers": 1},
    {"model.attention_scale": "log-length", "model.log_base": 7, "model.num_layers": 1},
    {"model.attention_sink": "learned", "model.attention_scale": "log-length"},
    {"task.scratchpad": True, "model.num_layers": 2},
    {"task.zero_pad": False, "model.num_layers": 2},
]


def trial(config: TrialConfig, **changes) -> tuple:
    """(config, model in float64, padded training batch of 4)."""
    config = override(config, {"optim.batch_size": 4, **changes})
    model = make_model(config).double()
    for name, p in model.named_parameters():  # gains other than 1, or their use goes unseen
        if "norm" in name or "sink" in name:
            p.data += 0.3 * torch.randn(p.shape, generator=torch.Generator().manual_seed(1))
    return config, model, TrainingData(config).next_batch()


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_logits_and_gradients_are_those_of_the_obvious_model(tiny_config, changes):
    config, model, batch = trial(tiny_config, **changes)
    assert (batch.tokens == 0).any(), "the batch must hold padding"
    plain = copy.deepcopy(model)
    logits = forward(dict(plain.named_parameters()), config, batch.tokens, batch.ids)
    places, real = batch.places, batch.targets != NO_TARGET
    fast = model(batch.tokens, batch.ids, places)
    obvious = torch.stack([logits[row][at] for row, at in enumerate(places)])
    # the softmax of the model is float32 on purpose
    torch.testing.assert_close(fast[real], obvious[real], atol=2e-5, rtol=1e-4)

    obvious_loss(plain, config, batch).backward()
    mean_loss(model, *batch).backward()
    for (name, parameter), other in zip(model.named_parameters(), plain.parameters(), strict=True):
        expected = torch.zeros_like(parameter) if other.grad is None else other.grad
        torch.testing.assert_close(parameter.grad, expected, atol=2e-5, rtol=1e-3, msg=name)


def test_initial_weights_have_the_published_variances(tiny_config):
    config = override(tiny_config, {"model.d_model": 96, "model.d_head": 48, "model.d_ff": 160})
    model = make_model(override(config, {"model.num_layers": 3}))
    d, inner, d_ff = 96, 2 * 48, 160
    variances = {
        "attention.q": 1 / (d * 48),
        "attention.k": 1 / d,
        "attention.v": 1 / d,
        "attention.o": 1 / inner,
        "feed_forward.w0": 1 / d,
        "feed_forward.w1": 1 / d,
        "feed_forward.wo": 1 / d_ff,
        "embedding": 1.0,
        "encoding.table": 1.0,
    }
    seen = set()
    for name, parameter in model.named_parameters():
        kind = name.split(".", 2)[-1] if name.startswith("blocks") else name
        if "norm" in name:
            assert torch.equal(parameter, torch.ones_like(parameter))
            continue
        seen.add(kind)
        # 5 standard errors of a variance estimate
        spread = 5 * math.sqrt(2 / parameter.numel())
        assert parameter.var().item() == pytest.approx(variances[kind], rel=spread), name
        assert abs(parameter.mean().item()) < 5 * math.sqrt(variances[kind] / parameter.numel())
    assert seen == set(variances)
