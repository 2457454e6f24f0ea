"""Counts are what a loop over examples and targets counts; test sets belong to nobody's seed."""

import pytest
import torch

from pcore.config import override, trial_id
from pcore.evaluation import (
    Sample,
    evaluate_lengths,
    evaluation_lengths,
    hash_batch,
    judge,
    make_held_out_set,
    make_test_set,
    with_examples,
)
from pcore.model import make_model
from pcore.tasks.base import Batch
from tests.support import planted_adders as planted


def test_samples_are_the_first_right_and_the_first_wrong_answer(tiny_config):
    rows = [tiny_config.task.encode(query) for query in ("12+34", "50+7", "99+1")]
    batch = Batch(*(torch.cat(parts) for parts in zip(*rows, strict=True)))

    def fault(moment):
        if moment.a == "21" and moment.number in (2, 3):  # the second digit of the sum, the third
            return "9"
        return planted.never_stops(moment) if moment.a == "99" else moment.right

    judged = judge(planted.Adder(fault), batch, tiny_config)
    found = {sample.right: sample for sample in judged.samples}
    assert found[False] == Sample(query="12+34", answer="640", predicted="69", right=False)
    assert found[True] == Sample(query="50+07", answer="750", predicted="750", right=True)


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


def test_test_sets_of_lengths_and_sizes_differ(tiny_config):
    hashes = {hash_batch(make_test_set(tiny_config, length)) for length in range(2, 12)}
    assert len(hashes) == 10
    held_out = make_held_out_set(tiny_config)
    assert int((held_out.tokens != 0).sum(dim=1).max()) == tiny_config.task.num_tokens(3)


def test_evaluation_leaves_the_model_as_it_was(tiny_config):
    model = make_model(tiny_config).train()
    before = {n: w.clone() for n, w in model.state_dict().items()}
    config = override(tiny_config, {"eval.attention_factor": 3.0})
    judge(model, make_test_set(tiny_config, 2), config)
    assert model.training
    assert model.attention_factor == 1.0
    assert all(torch.equal(w, before[n]) for n, w in model.state_dict().items())


def test_an_attention_factor_acts_on_the_logits(tiny_config):
    model, batch = make_model(tiny_config), make_test_set(tiny_config, 3)
    plain = judge(model, batch, tiny_config).counts.loss_sum
    twice = override(tiny_config, {"eval.attention_factor": 2.0})
    assert judge(model, batch, twice).counts.loss_sum != plain
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
    assert trial_id(override(config, {"eval.length_budget": 0})) == trial_id(
        override(tiny_config, {"eval.num_examples": 200})
    )
