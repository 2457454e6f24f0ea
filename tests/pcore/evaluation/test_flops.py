"""Tokens and operations of a trial, against counting them one by one."""

import pytest

from pcore.config import override
from pcore.flops import count_example_flops, count_flops, count_train_flops, count_train_tokens
from pcore.model import make_model


@pytest.mark.parametrize(("num_layers", "per_row"), [(1, 1), (3, 1), (3, 4)])
def test_operations_are_those_of_the_matrix_products(tiny_config, num_layers, per_row):
    """One layer more costs what its weights and its attention multiply on every token."""
    config = override(tiny_config, {"model.num_layers": num_layers})
    deeper = override(tiny_config, {"model.num_layers": num_layers + 1})
    length, num_tokens = 3, 14
    block = make_model(config).blocks[0]
    weights = sum(p.numel() for p in block.parameters() if p.dim() == 2)
    attention = 2 * 2 * per_row * num_tokens * 2 * 8  # scores and mix of 2 heads of 8, per token
    expected = num_tokens * (2 * weights + attention)
    before, after = (count_example_flops(c, length, per_row) for c in (config, deeper))
    assert after - before == pytest.approx(expected)
    loops = override(tiny_config, {"model.num_layers": 1, "model.num_loops": num_layers})
    assert count_example_flops(loops, length, per_row) == before


def test_training_is_three_forward_passes_of_every_example_and_each_test_is_one(tiny_config):
    config = override(tiny_config, {"data.min_length": 3, "data.max_length": 3})
    per_example = 1 + 3 + 1 + 3 + 1 + 4 + 1  # $ abc + def = ghij $
    assert count_train_tokens(config) == 12 * 16 * per_example
    changes = {"task.name": "minesweeper", "eval.train_lengths": "3", "eval.test_lengths": "4"}
    boards = override(config, changes | {"eval.second_lengths": "2,7"})
    training = count_train_flops(boards)
    assert training == 3 * 12 * 16 * count_example_flops(boards, 3)
    each = sum(count_example_flops(boards, n, second=s) for n in (3, 4) for s in (2, 7))
    assert count_flops(boards) - training == 32 * each
