"""Tokens and operations of a trial, against counting them one by one."""

import pytest

from pcore.config import override
from pcore.flops import count_example_flops, count_flops, count_train_flops, count_train_tokens
from pcore.model import make_model


def test_training_tokens_are_those_that_training_sees(tiny_config):
    config = override(tiny_config, {"data.min_length": 3, "data.max_length": 3})
    per_example = 1 + 3 + 1 + 3 + 1 + 4 + 1  # $ abc + def = ghij $
    assert count_train_tokens(config) == 12 * 16 * per_example


def test_shorter_examples_count_less(tiny_config):
    mixed = count_train_tokens(tiny_config)  # 1-3 digits
    assert 12 * 16 * 8 < mixed < 12 * 16 * 14


@pytest.mark.parametrize("num_layers", [1, 3])
def test_operations_are_those_of_the_matrix_products(tiny_config, num_layers):
    """One layer more costs what its weights and its attention multiply on every token."""
    config = override(tiny_config, {"model.num_layers": num_layers})
    deeper = override(tiny_config, {"model.num_layers": num_layers + 1})
    length, num_tokens = 3, 14
    block = make_model(config).blocks[0]
    weights = sum(p.numel() for p in block.parameters() if p.dim() == 2)
    attention = 2 * 2 * num_tokens * 2 * 8  # scores and mix of 2 heads of 8, per token
    expected = num_tokens * (2 * weights + attention)
    extra = count_example_flops(deeper, length) - count_example_flops(config, length)
    assert extra == pytest.approx(expected)


def test_second_lengths_are_evaluated_each(tiny_config):
    changes = {"task.name": "minesweeper", "eval.train_lengths": "3", "eval.test_lengths": "4"}
    config = override(tiny_config, changes | {"eval.second_lengths": "2,7"})
    each = sum(count_example_flops(config, n, second=s) for n in (3, 4) for s in (2, 7))
    assert count_flops(config) - count_train_flops(config) == 32 * each


def test_training_costs_three_forward_passes_of_every_example(tiny_config):
    config = override(tiny_config, {"data.min_length": 3, "data.max_length": 3})
    assert count_train_flops(config) == 3 * 12 * 16 * count_example_flops(config, 3)
