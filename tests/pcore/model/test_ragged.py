"""Batches almost without padding: nothing is lost, cuts are cheapest, gradients are equal."""

import itertools

import pytest
import torch

from pcore import batch as batches
from pcore.batch import NO_TARGET, PART_TOKENS, cut_batch, cut_lengths
from pcore.config import override
from pcore.data import TrainingData
from pcore.model import make_model
from pcore.training import mean_loss

VARIANTS = {
    "coupled": {},
    "one layer": {"model.num_layers": 1},
    "NoPE": {"position.encoding": "none"},
    "FIRE": {"position.encoding": "fire", "position.ids": "sequential"},  # others: conformance
    "sharp, post-norm": {"model.attention_scale": "log-length", "model.norm_placement": "post"},
    "randomized": {"position.ids": "randomized", "position.max_position": 2000},
    "unpadded": {"task.zero_pad": False, "task.reverse_response": False},
}


def config_of(config, name):
    changes = {"data.max_length": 9, "optim.batch_size": 64, "position.max_position": 60}
    return override(config, changes | {"eval.test_lengths": "10"} | VARIANTS[name])


def examples_of(batch) -> list[tuple]:
    """Tokens, IDs and targets of every row of a padded batch."""
    found = []
    for tokens, ids, _, targets in zip(*batch[:4], strict=True):
        length = int((tokens != 0).sum())
        row = tokens[:length], ids[:length], targets[targets != NO_TARGET]
        found.append(tuple(tuple(part.flatten().tolist()) for part in row))
    return sorted(found)


def examples_of_parts(batch) -> list[tuple]:
    """The same of a batch that was cut, read off its parts."""
    found, first, first_query = [], 0, 0
    (all_targets,), (queries,) = batch.targets, batch.places
    for part in batch.parts:
        for places in part.places:
            num_targets = int((targets := all_targets[first_query:][: len(places)]).ge(0).sum())
            length = int(places[num_targets - 1]) + 1
            tokens = batch.tokens[0, first : first + length]
            assert not batch.tokens[0, first + length + 1 : first + part.num_tokens].any()
            assert (queries[first_query:][: len(places)] == first + places).all()
            assert (targets[num_targets:] == NO_TARGET).all()
            ids = batch.ids[0, first : first + length]
            row = tokens, ids, targets[:num_targets]
            found.append(tuple(tuple(piece.flatten().tolist()) for piece in row))
            first, first_query = first + part.num_tokens, first_query + len(places)
    assert (first, first_query) == (batch.tokens.shape[1], len(queries))
    return sorted(found)


@pytest.mark.parametrize("name", ["coupled", "unpadded"])
@pytest.mark.parametrize("part_tokens", [0, PART_TOKENS, 10**9])
def test_every_example_is_there_as_it_was(tiny_config, name, part_tokens, monkeypatch):
    monkeypatch.setattr(batches, "PART_TOKENS", part_tokens)
    batch = TrainingData(config_of(tiny_config, name)).next_batch()
    found = cut_batch(batch)
    assert examples_of_parts(found) == examples_of(batch)
    if part_tokens == 0:
        assert found.tokens.all(), "every part has one length: no padding at all"
    if part_tokens == 10**9:
        assert len(found.parts) == 1


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("shared", [True, False])
def test_loss_and_gradients_are_those_of_the_padded_batch(tiny_config, name, shared, monkeypatch):
    config = config_of(tiny_config, name)
    batch, model = TrainingData(config).next_batch(), make_model(config)
    if not shared:
        monkeypatch.setattr(model, "share", lambda *_: None)
    assert len(cut_batch(batch).parts) > 1
    padded = mean_loss(model, *batch)
    padded.backward()
    expected = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    loss = mean_loss(model, *cut_batch(batch))
    loss.backward()
    torch.testing.assert_close(loss, padded, rtol=1e-5, atol=1e-6)
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        if gradient is None:
            assert parameter.grad is None or not parameter.grad.any()
        else:
            torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-6)


def test_tokens_are_shared_where_many_are_equal(tiny_config):
    """Or the test above would compare one way with itself."""
    shared = {}
    for name in ("coupled", "NoPE", "randomized"):
        config = config_of(tiny_config, name)
        batch, model = cut_batch(TrainingData(config).next_batch()), make_model(config)
        shared[name] = model.share(batch.tokens, batch.ids) is not None
    assert shared == {"coupled": True, "NoPE": True, "randomized": False}


@pytest.mark.parametrize("seed", range(5))
def test_no_other_way_to_cut_is_cheaper(seed):
    rng = torch.Generator().manual_seed(seed)
    lengths = torch.randint(5, 60, (9,), generator=rng).sort().values

    def cost(cuts) -> int:
        return sum((end - begin) * int(lengths[end - 1]) + PART_TOKENS for begin, end in cuts)

    inner = range(1, len(lengths))
    all_ways = (
        list(itertools.pairwise((0, *chosen, len(lengths))))
        for count in range(len(lengths))
        for chosen in itertools.combinations(inner, count)
    )
    parts = sorted(cut_lengths(lengths))
    assert [begin for begin, _ in parts] == [0, *(end for _, end in parts[:-1])]
    assert parts[-1][1] == len(lengths)
    assert cost(parts) == min(map(cost, all_ways))
