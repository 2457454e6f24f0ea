"""One layer without positions: what it cannot exceed, and that our model is such a one."""

from fractions import Fraction

import pytest
import torch

from pcore.config import TrialConfig, override
from pcore.model import make_model
from pcore.tasks.addition import Addition
from pcore.theory.ceilings import count_ceiling

PUBLISHED = {1: 81, 2: 2668, 3: 50150, 4: 765_139}
ONE_LAYER = {
    "model.num_layers": 1,
    "model.num_heads": 2,
    "model.d_model": 32,
    "model.d_head": 16,
    "model.d_ff": 64,
    "position.encoding": "none",
}


@pytest.mark.parametrize("num_digits", [1, 2, 3, pytest.param(4, marks=pytest.mark.slow)])
def test_the_published_ceilings(num_digits):
    num_pairs = (9 * 10 ** (num_digits - 1)) ** 2
    assert count_ceiling(num_digits) == Fraction(PUBLISHED[num_digits], num_pairs)


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
