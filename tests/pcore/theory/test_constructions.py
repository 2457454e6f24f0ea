"""The theorems' models, written by hand, are exact; and the weights do it, not the harness.

Teacher-forced arg-max at every target, which is free-running exactness by induction.
"""

from collections.abc import Iterator

import pytest
import torch

from pcore.batch import target_places
from pcore.encodings import position_ids as positions
from pcore.settings import PositionConfig
from pcore.tasks.addition import Addition
from pcore.tasks.base import Batch
from pcore.theory.addition import make_addition, max_digits
from pcore.theory.formal import FormalTransformer, default_scale, least_scale
from pcore.theory.multiplication import make_multiplication
from tests.support.constructions import CONSTRUCTIONS, Construction

NAMES = list(CONSTRUCTIONS)
EOS = "$"


def row_of(name: str, model: FormalTransformer, query: str, row: int) -> list[float]:
    """One row of the residual stream at `=` and the response, as the proofs tabulate it."""
    batch = CONSTRUCTIONS[name].task.encode(query)
    places, _ = target_places(batch.response_mask)
    stream = model.residual(batch.tokens, position_ids(batch), places)
    return [round(x, 3) for x in stream[0, :, row].tolist()]


def position_ids(batch: Batch, start: int = 1) -> torch.Tensor:
    return positions.test_position_ids(batch.relative_ids, PositionConfig(test_start=start))


def decode_freely(model: FormalTransformer, batch: Batch) -> torch.Tensor:
    """Tokens at the targets when the model reads its own predictions; queries of one length."""
    places, _ = target_places(batch.response_mask)
    first, ids = int(places[0, 0]), position_ids(batch)
    tokens = batch.tokens[:, : first + 1]
    for end in range(first + 1, first + 1 + places.shape[1]):
        token = model(tokens, ids[:, :end])[:, -1:].argmax(dim=2)
        tokens = torch.cat([tokens, token], dim=1)
    return tokens[:, first + 1 :]


def check(model: FormalTransformer, batch: Batch, start: int = 1) -> torch.Tensor:
    """By example the least lead of a right token's logit over the best wrong one; above 0 all of
    its tokens are right.
    """
    places, real = target_places(batch.response_mask)
    targets = batch.tokens.gather(1, places + 1).unsqueeze(2)
    ids = position_ids(batch, start)
    logits = model(batch.tokens[:, :-1], ids[:, :-1], places).double()
    wrong = logits.scatter(2, targets, -torch.inf).amax(dim=2)
    return (logits.gather(2, targets).squeeze(2) - wrong).where(real, torch.inf).amin(dim=1)


def check_hard(model: FormalTransformer, construction: Construction, length: int) -> torch.Tensor:
    queries = construction.hard_queries(length)
    return torch.cat([check(model, construction.task.encode(query)) for query in queries])


def check_all(
    model: FormalTransformer, construction: Construction, length: int, num_examples: int
) -> torch.Tensor:
    """The leads of hard cases and random ones."""
    rng = torch.Generator().manual_seed(length)
    random = check(model, construction.task.sample_length(num_examples, length, rng))
    return torch.cat([check_hard(model, construction, length), random])


def exact_lengths(
    construction: Construction, num_bits: int, dtype: torch.dtype, num_examples: int
) -> Iterator[tuple[int, torch.Tensor]]:
    """(length, leads) for rising lengths up to the first failure: up to 8 one by one, then by steps
    of a quarter, the bound of the theorem and one beyond it.
    """
    bound = construction.max_digits(num_bits)
    model = construction.make(num_bits, num_ids=2**num_bits + 1).to(dtype)
    length = 1
    while length <= bound + 1:
        leads = check_all(model, construction, length, num_examples)
        yield length, leads
        if leads.min() <= 0:
            return
        step = max(1, length // 4)
        length = min(length + step, bound) if length < bound else length + 1


# What the papers print --------------------------------------------------------------------------


def test_addition_has_the_rows_that_the_proof_tabulates():
    model = make_addition(3)
    assert model.embedding.shape == (14, 17 + 2 * 3)
    assert row_of("addition", model, "653+49", 3) == [12, 9, 6, 0, 0]  # PRE_SUM
    assert row_of("addition", model, "653+49", 4) == [0, 14, 9, 13, 0]  # PRE_CARRY
    assert row_of("addition", model, "653+49", 5) == [0.667, 0.5, 0.5, 0.5, 1]  # PRE_EOS


def test_multiplication_has_the_rows_that_the_proof_tabulates():
    model = make_multiplication(3)
    assert model.embedding.shape == (14, 34 + 6 * 3)
    assert [len(block.attention.q) for block in model.blocks] == [3, 7]
    assert row_of("multiplication", model, "7595*79", 19) == [5, 10, 9, 9, 19, 4, 0]  # PRE_PROD
    assert row_of("multiplication", model, "7595*79", 20) == [0, 5, 10, 9, 9, 19, 4]  # PRE_CARRY


# Exactness --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("num_bits", "dtype"), [(4, torch.float32), (3, torch.float64)])
@pytest.mark.parametrize("name", NAMES)
def test_exact_up_to_the_bound_and_wrong_everywhere_right_behind_it(name, num_bits, dtype):
    construction = CONSTRUCTIONS[name]
    *exact, (length, beyond) = exact_lengths(construction, num_bits, dtype, 20)
    assert exact[-1][0] == construction.max_digits(num_bits)
    assert min(leads.min() for _, leads in exact) > 0.9
    assert length == construction.max_digits(num_bits) + 1
    assert beyond.max() <= 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("moduli", [(3, 4), (2, 3, 5)])
def test_rings_add_exactly_up_to_their_product_less_two_and_nothing_beyond(moduli, dtype):
    construction, bound = CONSTRUCTIONS["addition"], max_digits(0, moduli)
    model = make_addition(0, moduli=moduli, num_ids=bound + 3).to(dtype)
    assert model.embedding.shape[1] == 17 + sum(moduli)
    *exact, beyond = (check_all(model, construction, n, 20) for n in range(1, bound + 2))
    assert min(leads.min() for leads in exact) > 0.9
    assert beyond.max() <= 0


def test_rings_of_a_common_factor_are_exact_only_up_to_where_their_ids_repeat():
    model = make_addition(0, moduli=(4, 6))  # 12 IDs apart, not 24
    least = [check_hard(model, CONSTRUCTIONS["addition"], length).min() for length in (9, 10, 11)]
    assert [lead > 0 for lead in least] == [True, True, False]


def test_the_scale_that_the_proof_asks_for_is_enough():
    construction = CONSTRUCTIONS["addition"]
    bound = construction.max_digits(5)
    num_tokens = construction.task.num_tokens(bound)
    model = construction.make(5, scale=least_scale(num_tokens)).float()
    assert check_all(model, construction, bound, 50).min() > 0
    assert default_scale(num_tokens) >= least_scale(num_tokens)


def test_zeros_of_any_length_are_right():
    task, model = Addition(), make_addition(5)
    batch = task.encode(f"{'1' * 30}+{'1' * 30}")
    nought, one, two = (task.vocab.index[d] for d in "012")
    digits = (batch.tokens == one) | (batch.tokens == two)
    zeros = batch._replace(tokens=batch.tokens.masked_fill(digits, nought))
    assert check(model, zeros).min() > 0


@pytest.mark.parametrize("name", NAMES)
def test_operands_of_mixed_lengths_and_padding_do_no_harm(name):
    construction = CONSTRUCTIONS[name]
    batch = construction.task.sample_mixture(200, 1, 25, torch.Generator().manual_seed(0))
    assert (batch.tokens == 0).any()
    assert check(construction.make(5).float(), batch).min() > 0


@pytest.mark.parametrize("name", NAMES)
def test_counting_may_start_anywhere_that_leaves_room(name):
    construction = CONSTRUCTIONS[name]
    model, last = construction.make(5), 2**5 - max(construction.task.max_relative_ids(4))
    batch = construction.task.sample_length(30, 4, torch.Generator().manual_seed(5))
    for start in (2, last // 2, last):
        assert check(model, batch, start).min() > 0, start
    with pytest.raises(IndexError):
        check(model, batch, last + 1)


# The checks can fail ----------------------------------------------------------------------------


def without_heads(name: str, number: int) -> list[bool]:
    """By head of a layer: whether hard cases stay exact when it copies nothing."""
    construction, found = CONSTRUCTIONS[name], []
    model = construction.make(3)
    values = model.blocks[number].attention.v
    whole = values.clone()
    for head in range(len(whole)):
        values.copy_(whole)
        values[head] = 0
        least = check_hard(model, construction, construction.max_digits(3)).min()
        found.append(bool(least > 0))
    return found


def test_all_heads_are_needed_but_that_of_the_fourth_column():
    assert without_heads("addition", 0) == [False] * 2
    assert without_heads("multiplication", 0) == [False] * 3
    assert without_heads("multiplication", 1) == [False] * 6 + [True]


def test_equal_logits_count_as_wrong():
    model = make_addition(4)
    model.unembedding.zero_()
    assert check(model, Addition().encode("12+34")).tolist() == [0]


def test_published_end_flags_fail_on_first_operands_of_one_digit_only():
    construction = CONSTRUCTIONS["multiplication"]
    published = make_multiplication(4, end_flags="published")
    batch = construction.task.sample_length(200, 1, torch.Generator().manual_seed(0))
    assert check(published, batch).max() <= 0
    for length in (2, 3, 13):
        assert check_hard(published, construction, length).min() > 0
    tokens = decode_freely(published, construction.task.encode("7*89"))[0].tolist()
    assert construction.task.vocab.decode(tokens)[:2] == ["3", EOS]  # 623$ in truth


# Large ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", NAMES)
def test_long_examples_are_right(name, dtype):
    construction, length = CONSTRUCTIONS[name], 1000
    model = construction.make(10).to(dtype)
    assert check_all(model, construction, length, 4).min() > 0
