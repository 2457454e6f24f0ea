"""What the constructions are made of: every part is right, and needed."""

import pytest
import torch

from pcore.tasks.addition import Addition
from pcore.theory import formal
from pcore.theory.addition import make_addition
from pcore.theory.exactness import (
    CONSTRUCTIONS,
    Score,
    check,
    check_hard,
    check_random,
    decode_freely,
    position_ids,
)
from pcore.theory.formal import attend
from pcore.theory.forms import Form, ReluLayer, Rows, to_matrix
from pcore.theory.multiplication import make_multiplication
from pcore.theory.positions import sign_vectors

NAMES = list(CONSTRUCTIONS)
EOS = "$"


# Parts ------------------------------------------------------------------------------------------


def test_position_vectors_are_far_apart():
    for num_bits in (2, 5, 8):
        products = sign_vectors(num_bits) @ sign_vectors(num_bits).T
        same = torch.eye(2**num_bits, dtype=torch.bool)
        assert (products[same] == num_bits).all()
        assert products[~same].max() == num_bits - 2


def test_small_circuits_compute_what_they_say():
    rows = Rows()
    a, b = rows.one("A"), rows.one("B")
    layer = ReluLayer()
    forms = [
        layer.product(a, b),
        layer.equal(a + b, 7),
        layer.at_least(a - b, 2),
        layer.square(a, 9),
    ]
    pairs = torch.cartesian_prod(torch.arange(10.0), torch.arange(10.0)).double()
    pairs += 0.01 * torch.rand(pairs.shape, generator=torch.Generator().manual_seed(3))
    weight, bias = to_matrix(layer.units, rows.width)
    read, offset = to_matrix(forms, len(layer.units))
    found = (pairs @ weight.T + bias).relu() @ read.T + offset
    x, y = pairs.floor().unbind(1)
    truth = torch.stack([x * y, (x + y == 7).double(), (x - y >= 2).double(), x * x], dim=1)
    assert (found - truth).abs().max() < 0.5


def test_forms_are_linear():
    a, b = Form({0: 1.0}), Form({1: 1.0})
    form = 3 * (a - b / 2) + 1 - a
    assert (form.terms, form.constant) == ({0: 2.0, 1: -1.5}, 1.0)


def test_attention_in_pieces_is_attention(monkeypatch):
    model = make_multiplication(3)
    batch = CONSTRUCTIONS["multiplication"].task.encode("77777*89")
    whole = model(batch.tokens, position_ids(batch))
    monkeypatch.setattr(formal, "MAX_SCORES", 3 * 7 * batch.tokens.shape[1])  # 3 queries of 7 heads
    torch.testing.assert_close(model(batch.tokens, position_ids(batch)), whole)


def test_attention_is_causal_softmax_without_scaling():
    q, k, v = torch.randn(3, 1, 1, 4, 2, generator=torch.Generator().manual_seed(4))
    rows = [(q[0, 0, i] @ k[0, 0, : i + 1].T).softmax(0) @ v[0, 0, : i + 1] for i in range(4)]
    found = attend(q, k, v, torch.arange(4).unsqueeze(0))
    torch.testing.assert_close(found[0, 0], torch.stack(rows))


# The checks can fail ----------------------------------------------------------------------------


def without_head(name: str, number: int, head: int) -> bool:
    """Whether hard cases stay exact when one head copies nothing."""
    construction = CONSTRUCTIONS[name]
    model = construction.make(3)
    model.blocks[number].attention.v[head] = 0
    return check_hard(model, construction, construction.max_digits(3)).exact


@pytest.mark.parametrize(("name", "num_heads"), [("addition", 2), ("scratchpad", 4)])
def test_all_heads_of_one_layer_are_needed(name, num_heads):
    assert [without_head(name, 0, head) for head in range(num_heads)] == [False] * num_heads


def test_all_heads_of_multiplication_are_needed_but_that_of_the_fourth_column():
    assert [without_head("multiplication", 0, head) for head in range(3)] == [False] * 3
    assert [without_head("multiplication", 1, head) for head in range(7)] == [False] * 6 + [True]


@pytest.mark.parametrize("name", NAMES)
def test_every_feed_forward_network_is_needed(name):
    construction = CONSTRUCTIONS[name]
    for number in range(len(construction.make(3).blocks)):
        model = construction.make(3)
        model.blocks[number].feed_forward.weights[-1].zero_()
        assert not check_hard(model, construction, construction.max_digits(3)).exact, number


def test_a_wrong_token_in_the_truth_is_seen():
    task, model = Addition(), make_addition(4)
    batch = task.sample_length(5, 6, torch.Generator().manual_seed(2))
    assert check(model, batch).num_right == 5
    tokens = batch.tokens.clone()
    tokens[3, -2] = task.vocab.index["9"]  # the last response digit is 0 or 1
    assert check(model, batch._replace(tokens=tokens)).num_right == 4


def test_equal_logits_count_as_wrong():
    model = make_addition(4)
    model.unembedding.zero_()
    assert check(model, Addition().encode("12+34")) == Score(0, 1, 0)


def test_published_end_flags_fail_on_first_operands_of_one_digit_only():
    construction = CONSTRUCTIONS["multiplication"]
    published = make_multiplication(4, end_flags="published")
    assert check_random(published, construction.task, 1, 200).num_right == 0
    for length in range(2, 14):
        assert check_hard(published, construction, length).exact
    tokens = decode_freely(published, construction.task.encode("7*89"))[0].tolist()
    assert construction.task.vocab.decode(tokens)[:2] == ["3", EOS]  # 623$ in truth
