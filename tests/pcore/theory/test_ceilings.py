"""One layer without positions: what it cannot exceed, and that our model is such a one."""

from collections import Counter, defaultdict
from itertools import permutations, product

import pytest
import torch

from pcore.batch import make_batch
from pcore.config import TrialConfig, override
from pcore.encodings import position_ids as positions
from pcore.evaluation import judge
from pcore.model import make_model
from pcore.tasks.addition import Addition
from pcore.tasks.base import Batch
from pcore.theory.ceilings import Ceiling, count_ceiling
from pcore.training import Run

PUBLISHED = {1: 81, 2: 2668, 3: 50150, 4: 765_139}
ONE_LAYER = {
    "model.num_layers": 1,
    "model.num_heads": 2,
    "model.d_model": 32,
    "model.d_head": 16,
    "model.d_ff": 64,
    "position.encoding": "none",
}


def count_pairs(num_digits: int) -> int:
    """The proposition word for word: group all pairs by multiset, take each one's commonest sum."""
    operands = range(10 ** (num_digits - 1), 10**num_digits)
    sums: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for a, b in product(operands, repeat=2):
        sums["".join(sorted(f"{a}{b}"))][a + b] += 1
    return sum(max(counts.values()) for counts in sums.values())


@pytest.mark.parametrize("num_digits", [1, 2])
def test_the_proposition_word_for_word_gives_the_same(num_digits):
    assert count_ceiling(num_digits).num_right == count_pairs(num_digits)


@pytest.mark.parametrize("num_digits", [1, 2, 3, pytest.param(4, marks=pytest.mark.slow)])
def test_the_published_ceilings(num_digits):
    ceiling = count_ceiling(num_digits)
    assert ceiling == Ceiling(PUBLISHED[num_digits], (9 * 10 ** (num_digits - 1)) ** 2)


def test_numbers_of_digits_that_cannot_be_counted_are_refused():
    for num_digits in (0, 5):
        with pytest.raises(ValueError, match=f"num_digits={num_digits} is not between 1 and 4"):
            count_ceiling(num_digits)


def logits_of(config: TrialConfig, tokens: torch.Tensor) -> torch.Tensor:
    """Of the next token, in float64, by the untrained model."""
    ids = torch.ones(*tokens.shape, 1, dtype=torch.long).cumsum(dim=1)
    return make_model(config).double()(tokens, ids)[:, -1].detach()


@pytest.mark.parametrize(
    ("changes", "is_blind"),
    [
        ({}, True),
        ({"model.norm_placement": "pre"}, True),
        ({"model.attention_scale": "log-length"}, True),
        ({"model.num_layers": 2}, False),  # a second layer sees what the causal mask hid
        ({"position.encoding": "learned"}, False),
    ],
)
def test_one_layer_without_positions_does_not_see_the_order_of_its_tokens(changes, is_blind):
    config = override(TrialConfig(), {**ONE_LAYER, **changes})
    tokens = Addition().encode("6531+4972").tokens[:, :11]  # up to =
    order = torch.randperm(10, generator=torch.Generator().manual_seed(0))
    moved = torch.cat([tokens[:, order], tokens[:, -1:]], dim=1)
    assert moved.tolist() != tokens.tolist()
    difference = (logits_of(config, tokens) - logits_of(config, moved)).abs().max()
    assert (difference < 1e-10) == is_blind, difference


def test_a_trained_layer_without_positions_stops_at_the_ceiling_and_coupling_does_not():
    """The 24 arrangements of 1, 2, 3, 4 as ab+cd: whatever it learns, one answer for all."""
    queries = ["{}{}+{}{}".format(*digits) for digits in permutations("1234")]
    batches = [Addition().encode(query) for query in queries]
    every = Batch(*(torch.cat(column) for column in zip(*batches, strict=True)))
    commonest = Counter(sum(map(int, query.split("+"))) for query in queries).most_common(1)
    assert commonest == [(55, 8)]
    assert memorise(every, "none") in (4, 8)  # 37, 46, 64 and 73 have four arrangements each
    assert memorise(every, "learned") > 8


def memorise(batch: Batch, encoding: str) -> int:
    """How many examples of the batch are right after training on nothing else."""
    config = override(
        TrialConfig(),
        {
            **ONE_LAYER,
            "position.encoding": encoding,
            "position.max_position": 8,
            "data.num_examples": None,
        },
    )
    run = Run(config, "cpu")
    ids = positions.test_position_ids(batch.relative_ids, config.position)
    for _ in range(50):
        run.update(make_batch(batch.tokens, ids, batch.response_mask), 1e-2)
    return judge(run.model, batch, config).counts.num_correct
