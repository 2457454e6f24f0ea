"""Counts are what a loop over examples and targets counts; test sets belong to nobody's seed."""

import pytest

from pcore.config import override
from pcore.evaluation import (
    evaluate_lengths,
    evaluation_lengths,
    hash_batch,
    judge,
    make_held_out_set,
    make_test_set,
    with_examples,
)
from pcore.model import make_model


def test_every_arm_and_seed_has_the_same_test_sets(tiny_config):
    arms = [
        {"position.encoding": "rotary"},
        {"position.ids": "sequential"},
        {"seed": 5, "data_seed": 5},
        {"model.num_layers": 1, "data.max_length": 2},
    ]
    for length in (1, 4, 6):
        expected = hash_batch(make_test_set(tiny_config, length))
        for changes in arms:
            assert hash_batch(make_test_set(override(tiny_config, changes), length)) == expected
    held_out = make_held_out_set(tiny_config)  # of the train range, 1-3
    assert int((held_out.tokens != 0).sum(dim=1).max()) == tiny_config.task.num_tokens(3)


def test_an_attention_factor_acts_on_the_logits_in_evaluation_only(tiny_config):
    model, batch = make_model(tiny_config).train(), make_test_set(tiny_config, 3)
    plain = judge(model, batch, tiny_config).counts.loss_sum
    twice = override(tiny_config, {"eval.attention_factor": 2.0})
    assert judge(model, batch, twice).counts.loss_sum != plain
    assert (model.training, model.attention_factor) == (True, 1.0)
    for name, parameter in model.named_parameters():  # the same as larger queries
        if name.endswith("attention.q"):
            parameter.data *= 2
    doubled = judge(model, batch, tiny_config).counts.loss_sum
    model = make_model(tiny_config)
    assert judge(model, batch, twice).counts.loss_sum == pytest.approx(doubled)


def test_the_train_range_is_all_trained_lengths_unless_some_are_named(tiny_config):
    config = override(tiny_config, {"eval.train_lengths": "", "eval.near_lengths": "5"})
    assert evaluation_lengths(config) == {"train": (1, 2, 3), "near": (5,), "test": (4, 6)}


def test_a_second_length_that_was_not_trained_belongs_to_the_test_range(tiny_config):
    config = override(
        tiny_config,
        {"task.num_operands": 4, "task.min_operands": 2, "eval.second_lengths": "2,5"}
        | {"eval.train_lengths": "2", "eval.test_lengths": "4"},
    )
    found = evaluate_lengths(make_model(config), config, "last", 0)
    assert [(r.range, r.length, r.second_length) for r in found] == [
        ("train", 2, 2),
        ("test", 2, 5),
        ("test", 4, 2),
        ("test", 4, 5),
    ]


def test_a_length_budget_leaves_fewer_examples_of_long_lengths(tiny_config):
    config = override(tiny_config, {"eval.num_examples": 200, "eval.length_budget": 300})
    assert [len(make_test_set(config, n).tokens) for n in (1, 2, 3, 10, 30)] == [
        200,
        150,
        100,
        30,
        20,
    ]
    assert len(make_test_set(with_examples(config, 70), 30).tokens) == 70
