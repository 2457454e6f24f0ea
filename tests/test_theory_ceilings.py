"""One layer without positions: what it cannot exceed, and that our model is such a one."""

import pytest
import torch

from pcore.config import TrialConfig, override
from pcore.evaluate import evaluate
from pcore.model import make_model
from pcore.tasks.addition import Addition
from pcore.tasks.base import Batch
from pcore.theory.ceilings import (
    Ceiling,
    count_by_columns,
    count_by_enumeration,
    count_ceiling,
)
from pcore.train import train

PUBLISHED = {1: 81, 2: 2668, 3: 50150, 4: 765_139, 5: 10_033_314}
ONE_LAYER = {
    "model.num_layers": 1,
    "model.num_heads": 2,
    "model.d_model": 32,
    "model.d_head": 16,
    "model.d_ff": 64,
    "position.encoding": "none",
}


@pytest.mark.parametrize("num_digits", [1, 2])
def test_the_two_counts_agree(num_digits):
    assert count_by_columns(num_digits) == count_by_enumeration(num_digits)


@pytest.mark.parametrize("num_digits", [1, 2, 3, 4])
def test_the_published_ceilings(num_digits):
    ceiling = count_ceiling(num_digits)
    assert ceiling == Ceiling(PUBLISHED[num_digits], (9 * 10 ** (num_digits - 1)) ** 2)


@pytest.mark.slow
def test_the_published_ceiling_of_five_digits_and_enumeration_of_three():
    assert count_ceiling(5).num_right == PUBLISHED[5]
    assert count_by_enumeration(3) == PUBLISHED[3]


def test_numbers_of_digits_that_cannot_be_counted_are_refused():
    for num_digits in (0, 6):
        with pytest.raises(ValueError, match=f"num_digits={num_digits} is not between 1 and 5"):
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


def test_a_trained_layer_without_positions_stays_below_the_ceiling_and_coupling_breaks_it():
    """All 8,100 pairs of two-digit operands, after a few seconds of training."""
    every = all_pairs_of_two_digits()
    right: dict[str, int] = {}
    for encoding in ("none", "learned"):
        config = trial(encoding)
        *_, report = train(config)
        model = make_model(config)
        model.load_state_dict(report.checkpoints["last"])
        right[encoding] = evaluate(model, every, config).num_correct
    assert 0 < right["none"] <= count_ceiling(2).num_right < right["learned"], right


def all_pairs_of_two_digits() -> Batch:
    vocab, example = Addition().vocab, Addition().encode("35+97")
    texts = [f"${a}+{b}={a + b:03d}" for a in range(10, 100) for b in range(10, 100)]
    tokens = torch.tensor([vocab.encode(f"{t[:-3]}{t[:-4:-1]}$") for t in texts])
    assert (tokens == example.tokens).all(dim=1).sum() == 1
    count = len(tokens)
    return Batch(
        tokens, example.relative_ids.expand(count, -1, -1), example.response_mask.expand(count, -1)
    )


def trial(encoding: str) -> TrialConfig:
    return override(
        TrialConfig(),
        {
            **ONE_LAYER,
            "model.d_model": 64,
            "model.d_head": 32,
            "model.d_ff": 128,
            "position.encoding": encoding,
            "position.max_position": 8,
            "data.min_length": 2,
            "data.max_length": 2,
            "data.num_examples": None,
            "optim.learning_rate": 3e-3,
            "optim.num_steps": 400,
            "optim.batch_size": 128,
            "eval.train_lengths": "2",
            "eval.test_lengths": "3",
            "eval.num_examples": 10,
        },
    )
