"""Other attention, loops and mixers compute their formulas on every path; so does own code."""

import math

import pytest
import torch
from torch.nn import functional as F

from pcore import mixing
from pcore import model as transformer
from pcore.batch import cut_batch
from pcore.config import TrialConfig, canonical, override, trial_id
from pcore.data import TrainingData
from pcore.diagnosis.attention import attention_weights
from pcore.diagnosis.mechanism import mechanism_rows
from pcore.encodings import NoPE
from pcore.mixing import (
    ATTENTIONS,
    Attention,
    GatedLinear,
    Mixer,
    find_attention,
)
from pcore.model import make_model
from pcore.settings import ModelConfig
from pcore.training import mean_loss, train

HERE = __name__
SMALL = ModelConfig(num_heads=2, d_model=16, d_head=8, d_ff=32)
LOOPS = {"model.num_layers": 1, "model.num_loops": 3, "model.input_injection": True}
HYBRID = {"model.mixer": "gated-linear,attention"}


def make_attention(name: str) -> tuple[Attention, torch.Generator]:
    """One with parameters other than at the start, in float64."""
    rng = torch.Generator().manual_seed(1)
    attention = find_attention(name)(SMALL, 0, rng).double()
    for parameter in attention.parameters():
        parameter.data += torch.randn(parameter.shape, generator=rng, dtype=torch.float64)
    return attention, rng


def obvious_weights(name: str, attention: Attention, head: int, scores, query) -> list[float]:
    """The weights of the visible keys of one query, from their scores, key by key."""
    n = len(scores)
    if name == "learned-scale":
        return (scores * attention.scale[head] * math.log(n)).softmax(dim=0).tolist()
    if name == "entmax":
        low, high = scores.max() / 2 - 1, scores.max() / 2
        for _ in range(60):
            middle = (low + high) / 2
            total = (scores / 2 - middle).clamp(min=0).square().sum()
            low, high = (middle, high) if total >= 1 else (low, middle)
        return (scores / 2 - low).clamp(min=0).square().tolist()
    gates = scores.sigmoid().tolist()
    if name == "stick-breaking":
        left, weights = 1.0, [0.0] * n
        for key in reversed(range(n)):
            weights[key] = gates[key] * left
            left *= 1 - gates[key]
        return weights
    if name == "contextual":
        logits = []
        for key in range(n):
            position = min(sum(gates[key:]), attention.table.shape[1] - 1)
            low = int(position)
            by_position = query @ attention.table
            share = position - low
            high = by_position[math.ceil(position)]
            logits.append((1 - share) * by_position[low] + share * high)
        return (scores + torch.stack(logits)).softmax(dim=0).tolist()
    return scores.softmax(dim=0).tolist()


@pytest.mark.parametrize("name", ATTENTIONS)
def test_weights_are_those_of_the_formula(name):
    attention, rng = make_attention(name)
    scores = 3 * torch.randn(2, 2, 4, 9, generator=rng, dtype=torch.float64)
    queries = torch.randn(2, 2, 4, 8, generator=rng, dtype=torch.float64)
    at = torch.tensor([[0, 3, 5, 8], [1, 2, 6, 7]])
    visible = (torch.arange(9) <= at.unsqueeze(2)).unsqueeze(1)
    weights = attention(scores, visible, queries)
    for example, head, row in torch.cartesian_prod(*map(torch.arange, (2, 2, 4))).tolist():
        seen = int(at[example, row]) + 1
        own, query = scores[example, head, row, :seen], queries[example, head, row]
        expected = torch.zeros(9, dtype=torch.float64)
        expected[:seen] = torch.tensor(obvious_weights(name, attention, head, own, query))
        torch.testing.assert_close(weights[example, head, row], expected, atol=1e-6, rtol=1e-5)


def test_a_learned_scale_begins_as_log_length():
    assert (find_attention("learned-scale")(SMALL, 0, torch.Generator()).scale == 1).all()


def test_entmax_has_the_gradient_of_its_definition():
    attention, rng = make_attention("entmax")
    scores = torch.randn(1, 1, 3, 6, generator=rng, dtype=torch.float64, requires_grad=True)
    visible = torch.ones(1, 1, 3, 6, dtype=torch.bool)
    assert torch.autograd.gradcheck(lambda s: attention(s, visible, s), scores)


@pytest.mark.parametrize("chunk", [1, 3, 128])
def test_gated_linear_attention_is_its_recurrence(monkeypatch, chunk):
    monkeypatch.setattr(mixing, "CHUNK", chunk)
    mixer = GatedLinear(SMALL, 0, torch.Generator().manual_seed(0)).double()
    x, encoding = torch.randn(2, 7, 16, dtype=torch.float64), NoPE.__new__(NoPE)
    ids = torch.zeros(2, 7, 1, dtype=torch.long)
    mixed, _ = mixer.step(x, ids, encoding, None)
    state = torch.zeros(2, 2, 8, 8, dtype=torch.float64)
    for place in range(7):
        token = x[:, place]
        q, k, v = ((token @ w.T).view(2, 2, 8) for w in (mixer.q, mixer.k, mixer.v))
        gate = (token @ mixer.gate.T).sigmoid() ** (1 / 16)
        state = gate[:, :, None, None] * state + k.unsqueeze(3) * v.unsqueeze(2)
        heads = (q.unsqueeze(2) @ state).squeeze(2)
        normed = heads / (heads.square().mean(dim=2, keepdim=True) + 1e-6).sqrt()
        output = (normed.flatten(1) * F.silu(token @ mixer.output_gate.T)) @ mixer.o.T
        torch.testing.assert_close(mixed[:, place], output, atol=1e-5, rtol=1e-5)


# Loops --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("injection", [False, True])
def test_loops_are_layers_that_share_their_weights(tiny_config, injection):
    loops = LOOPS | {"model.input_injection": injection}
    model = make_model(override(tiny_config, loops))
    batch = TrainingData(tiny_config).next_batch()
    x = embedded = model.embed(*batch[:2])
    for loop in range(3):
        x = x + embedded if injection and loop else x
        x, _ = model.layers[0](x, batch.ids, model.encoding, 1.0)
    torch.testing.assert_close(model(*batch[:2]), model.read_out(x))
    unrolled = make_model(override(tiny_config, {"model.num_layers": 3}))
    tied = {
        name: model.state_dict()[name.replace(f"blocks.{name[7]}", "blocks.0")]
        for name in unrolled.state_dict()
    }
    unrolled.load_state_dict(tied)
    same = torch.allclose(unrolled(*batch[:2]), model(*batch[:2]), atol=1e-6)
    assert same is not injection


# Paths --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        LOOPS,
        HYBRID,
        {"model.attention_sink": "learned", "model.attention_scale": "log-length"},
        {"position.encoding": "t5", "model.attention_sink": "learned"},
    ],
    ids=str,
)
def test_every_path_has_the_same_losses_and_logits(tiny_config, changes, monkeypatch):
    """Ragged rows, decoding in pieces, queries at targets only or one by one; loops with equal
    tokens shared. Of every encoding, attention and mixer alone: test_conformance.py.
    """
    config = override(tiny_config, changes)
    model, batch = make_model(config).double(), TrainingData(config).next_batch()
    for name, parameter in model.named_parameters():  # other than at the start, or it goes unseen
        if "norm" in name or "sink" in name:
            noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
            parameter.data += 0.3 * noise
    padded, ragged = mean_loss(model, *batch), mean_loss(model, *cut_batch(batch))
    torch.testing.assert_close(ragged, padded, atol=0, rtol=1e-6)
    whole = model(*batch[:2])
    at = batch.places.unsqueeze(2).expand(-1, -1, whole.shape[2])
    some = whole.gather(1, at)
    torch.testing.assert_close(model(*batch[:3]), some, atol=1e-6, rtol=1e-6)
    monkeypatch.setitem(transformer.SCORE_BYTES, "cpu", 1)  # scores of one query at a time
    with torch.no_grad():
        torch.testing.assert_close(model(*batch[:2]), whole, atol=1e-6, rtol=1e-6)
        torch.testing.assert_close(model(*batch[:3]), some, atol=1e-6, rtol=1e-6)
    cache, done = {}, 0
    for size in (3, 1, batch.tokens.shape[1] - 4):
        end = done + size
        logits = model(batch.tokens[:, done:end], batch.ids[:, :end], cache=cache)
        torch.testing.assert_close(logits, whole[:, done:end], atol=1e-5, rtol=1e-5)
        done = end


class Undeclared(Attention):
    """Softmax that promises nothing."""

    def forward(self, scores, visible, queries):
        return scores.masked_fill(~visible, -math.inf).softmax(dim=3)


class Mean(Mixer):
    """The mean of all tokens so far, projected by nothing."""

    def mix(self, x, ids, encoding):
        return x.cumsum(dim=1) / torch.arange(1, x.shape[1] + 1).view(1, -1, 1)


@pytest.mark.parametrize(
    "changes", [{"model.attention": f"{HERE}:Undeclared"}, {"model.mixer": f"{HERE}:Mean"}], ids=str
)
def test_own_code_that_promises_nothing_takes_the_plain_path(tiny_config, monkeypatch, changes):
    config = override(tiny_config, changes)
    model, batch = make_model(config), TrainingData(config).next_batch()
    rows = [tensor.repeat(4, *[1] * (tensor.dim() - 1)) for tensor in batch[:2]]
    assert make_model(tiny_config).share(*rows) is not None
    assert model.share(*rows) is None
    monkeypatch.setattr("pcore.training.cut_batch", None)  # would raise if it were called
    assert list(train(config))[-1].finished


# What looks at models -----------------------------------------------------------------------------


def test_attention_weights_are_those_of_the_rule(tiny_config):
    config = override(tiny_config, {"model.attention": "stick-breaking"} | LOOPS)
    batch = TrainingData(config).next_batch()
    weights = attention_weights(make_model(config), *batch[:2])
    assert len(weights) == 3  # one for each loop
    assert weights[..., 0, 0].max() < 1  # the only visible key leaves something
    hybrid = make_model(override(tiny_config, HYBRID))
    with pytest.raises(ValueError, match=r"layer 1 has no attention: model\.mixer=gated-linear"):
        attention_weights(hybrid, *batch[:2])
    kinds = {row["kind"] for row in mechanism_rows(hybrid, override(config, HYBRID), 8)}
    assert kinds >= {"failures"}
    assert "head" not in kinds


def test_own_attention_and_mixers_are_part_of_the_identity():
    default = TrialConfig()
    changes = {"model.attention": f"{HERE}:Undeclared", "model.mixer": f"{HERE}:Mean,attention"}
    own = override(default, {"model.num_layers": 2} | changes)
    assert '"model.attention.source":"' in canonical(own)
    assert '"model.mixer.source":"' in canonical(own)
    others = [override(default, {name: value}) for name, value in changes.items()]
    assert len({trial_id(config) for config in (default, own, *others)}) == 4
