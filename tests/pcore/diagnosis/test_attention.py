"""Attention weights are those of the fused kernel; patterns are those of Theorem 5.1."""

import pytest
import torch
from torch.nn import functional as F

from pcore import model as transformer
from pcore.config import override
from pcore.diagnosis.attention import (
    attention_weights,
    average_attention,
    compare,
    even_weights,
    label_tokens,
    predicted_keys,
    visible_keys,
)
from pcore.encodings import position_ids as positions
from pcore.evaluation import make_test_set
from pcore.model import Transformer, make_model

VARIANTS = [
    {"model.attention_sink": "learned", "model.attention_scale": "log-length"},
    {},
    {"position.encoding": "none", "model.norm_placement": "pre"},
    {"position.encoding": "rotary", "model.attention_scale": "log-length"},
    {"position.encoding": "alibi", "model.norm_placement": "post"},
    {"position.encoding": "t5"},
    {"position.encoding": "fire"},
]


def examples(config, length=3):
    """Tokens and position IDs of some test examples, without their last token."""
    batch = make_test_set(config, length)
    relative_ids = positions.select_relative_ids(batch, config.position, config.task)
    return batch.tokens[:, :-1], positions.test_position_ids(relative_ids, config.position)[:, :-1]


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_weights_mix_values_as_the_fused_kernel_does(tiny_config, changes, monkeypatch):
    config = override(tiny_config, changes)
    model = make_model(config)
    model.attention_factor = 1.6
    tokens, ids = examples(config)
    fused = model(tokens, ids)
    weights = iter(attention_weights(model, tokens, ids))
    monkeypatch.setattr(transformer, "attend", lambda q, k, v, *rest: next(weights) @ v)
    torch.testing.assert_close(model(tokens, ids), fused, atol=1e-5, rtol=1e-5)
    assert next(weights, None) is None  # every layer used its own


def test_more_weights_than_minutes_allow_are_refused(tiny_config):
    config = override(tiny_config, {"position.max_position": 5000})
    said = r"9005 tokens and 3\.2e\+08 attention weights: 1000 examples are too many"
    with pytest.raises(ValueError, match=said):
        average_attention(make_model(config), config, 3000)


def keys_of(task, query):
    """By pattern: the names of the predicted keys of every query of an example."""
    batch = task.encode(query)
    first = int(batch.response_mask[0].int().argmax()) - 1
    shape = (2, len(query.split("+")[0]))
    names = ["$", *label_tokens(task.layout(shape))]
    keys = predicted_keys(batch.relative_ids[0], first)
    return [
        [" ".join(n for n, kept in zip(names, row, strict=True) if kept) for row in pattern]
        for pattern in keys[0].tolist()
    ]


def test_predicted_keys_are_those_of_the_theorem(tiny_config):
    # $ a3 a2 a1 + b3 b2 b1 = c1 c2 c3 c4, written from the ones digit on
    following, same = keys_of(tiny_config.task, "653+049")
    assert following == ["$ a1 b1", "$ a2 b2", "$ a3 b3", "$", "$"]
    assert same == ["$ + =", "$ a1 b1 c1", "$ a2 b2 c2", "$ a3 b3 c3", "$ c4"]


def test_the_next_key_is_that_of_the_symbol_to_be_written_whatever_the_order(tiny_config):
    config = override(tiny_config, {"task.reverse_response": False})
    following, same = keys_of(config.task, "653+049")  # c4 first; '=' stands beside it
    assert following == ["$", "$ a3 b3", "$ a2 b2", "$ a1 b1", "$"]
    assert same == ["$ =", "$ c4", "$ a3 b3 c3", "$ a2 b2 c2", "$ a1 b1 c1"]


def likenesses(weights, keys):
    return {found.pattern: found for found in compare(weights, keys, ["significance"])}


def test_the_construction_is_entirely_like_itself_and_even_attention_is_not(tiny_config):
    batch = tiny_config.task.encode("653+049")
    keys = predicted_keys(batch.relative_ids[0], 8)
    for number, pattern in enumerate(("next", "same")):
        found = likenesses(even_weights(keys)[0, number], keys)[pattern]
        assert found.mass == pytest.approx(1)
    even = likenesses(even_weights(visible_keys(8, 13)), keys)
    sizes = {"next": (3, 3, 3, 1, 1), "same": (3, 4, 4, 4, 2)}
    for pattern, counts in sizes.items():
        mass = sum(n / visible for n, visible in zip(counts, range(9, 14), strict=True)) / 5
        beyond = sum((n - 1) / v for n, v in zip(counts, range(9, 14), strict=True)) / 5
        assert even[pattern].mass == pytest.approx(mass)
        assert even[pattern].mass_beyond_bos == pytest.approx(beyond)
        assert even[pattern].most_beyond_bos == pytest.approx(sum(n > 1 for n in counts) / 5)


def test_a_head_that_looks_at_bos_alone_is_not_taken_for_a_pattern(tiny_config):
    keys = predicted_keys(tiny_config.task.encode("653+049").relative_ids[0], 8)
    found = likenesses(F.one_hot(torch.zeros(5).long(), 13).float(), keys)
    assert found["next"].mass == found["same"].mass == 1
    assert found["next"].mass_beyond_bos == found["same"].mass_beyond_bos == 0


class Planted(Transformer):
    """Two heads with the attention of the construction, in front of nothing."""

    def __init__(self, weights):
        torch.nn.Module.__init__(self)
        self.weights, self.embedding, self.attention_factor = weights, torch.zeros(1), 1.0


def test_planted_patterns_are_found_in_their_heads(tiny_config, monkeypatch):
    keys = predicted_keys(make_test_set(tiny_config, 3).relative_ids[0], 8)
    planted = torch.zeros(1, 1, 2, 13, 13)
    planted[0, 0, :, 8:] = even_weights(keys)[0].flip(0)  # the first head: same, the second: next
    monkeypatch.setattr(
        "pcore.diagnosis.attention.attention_weights",
        lambda model, tokens, ids: model.weights.expand(-1, len(tokens), -1, -1, -1),
    )
    found = average_attention(Planted(planted), tiny_config, 3, 50)
    masses = [[round(like.mass_beyond_bos, 3) for like in head.likenesses] for head in found.heads]
    # next: two thirds at three of five queries; same: 2/3, three times 3/4, 1/2
    assert masses == [[0.0, 0.683], [0.4, 0.0]]
    assert found.heads[1].likenesses[0].mass == pytest.approx(1)


def test_averages_do_not_depend_on_how_examples_are_batched(tiny_config, monkeypatch):
    model = make_model(tiny_config)
    whole = average_attention(model, tiny_config, 3, 60)
    monkeypatch.setattr("pcore.diagnosis.attention.TOKENS_PER_BATCH", 100)
    parts = average_attention(model, tiny_config, 3, 60)
    torch.testing.assert_close(parts.weights, whole.weights)


def test_examples_of_another_layout_are_left_out_and_counted(tiny_config):
    config = override(tiny_config, {"task.zero_pad": False})
    found = average_attention(make_model(config), config, 3, 200)
    batch = make_test_set(override(config, {"eval.num_examples": 200}), 3)
    long = int((batch.response_mask.sum(dim=1) == 5).sum())
    assert 0 < long < 200
    assert (found.num_examples, found.num_left_out) == (long, 200 - long)


@pytest.mark.parametrize(
    ("changes", "labels"),
    [
        ({}, "$ a2 a1 + b2 b1 = c1 c2 c3"),
        ({"task.reverse_query": True}, "$ a1 a2 + b1 b2 = c1 c2 c3"),
        ({"task.name": "copy"}, "$ a1 a2 = b1 b2"),
        ({"task.name": "multiplication"}, "$ a2 a1 * b2 b1 = c1 c2 c3 c4"),
    ],
    ids=str,
)
def test_tokens_are_labelled_by_run_and_place(tiny_config, changes, labels):
    config = override(tiny_config, changes)
    found = average_attention(make_model(config), config, 2, 20)
    assert " ".join(found.labels) == labels
    assert found.labels[found.first_query] == "="


def test_every_level_has_its_own_patterns(tiny_config):
    config = override(tiny_config, {"task.name": "minesweeper"})
    found = average_attention(make_model(config), config, 2, 20)
    levels = [(like.level, like.pattern) for like in found.heads[0].likenesses]
    assert levels == [(level, p) for level in config.task.levels for p in ("next", "same")]


@pytest.mark.parametrize(
    "changes", [{"position.encoding": "none"}, {"position.ids": "sequential"}], ids=str
)
def test_nothing_is_predicted_for_a_model_without_coupled_ids(tiny_config, changes):
    config = override(tiny_config, changes | {"position.max_position": 30})
    found = average_attention(make_model(config), config, 3, 20)
    assert found.predicted is None
    assert not any(head.likenesses for head in found.heads)
    assert found.weights.shape == (2, 2, 13, 13)
