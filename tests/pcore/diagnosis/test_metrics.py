"""Metrics of somebody's own see what a model wrote, and must return numbers."""

import pytest
import torch

from pcore.config import TrialConfig, override
from pcore.diagnosis.metrics import Metric, check_metric, find_metric, judge_examples, measure
from pcore.evaluation import evaluate_lengths
from pcore.model import make_model
from pcore.training import train
from tests.support.tiny_config import TINY

TASK = TrialConfig().task.at_test()


def is_right(example):
    return example.right


def metric(function) -> Metric:
    return Metric(name="m:f", source="", function=function)


def test_an_example_shows_what_was_written_up_to_eos():
    batch = TASK.encode("12+34")
    answer = batch.tokens[0][batch.response_mask[0]]
    eos = TASK.vocab.index[TASK.eos]
    early = torch.tensor([[int(answer[0]), eos, 0, 0]])
    for predicted, written, right in (
        (answer.unsqueeze(0), TASK.decode(batch.tokens[0])[1], True),
        (early, TASK.decode(batch.tokens[0])[1][0], False),
        (answer.unsqueeze(0)[:, :-1], TASK.decode(batch.tokens[0])[1], False),  # it never stops
    ):
        (example,) = judge_examples(batch, predicted, TASK, 2)
        assert (example.predicted, example.right) == (written, right)
        assert example.answer == TASK.decode(batch.tokens[0])[1]


def test_the_share_of_right_examples_is_exact_match():
    config = override(TrialConfig(), TINY | {"optim.num_steps": 150, "data.max_length": 2})
    config = override(config, {"eval.train_lengths": "1-2", "eval.test_lengths": "3"})
    model = make_model(config)
    model.load_state_dict(list(train(config))[-1].checkpoints["last"])
    shares = {r.length: r.counts.num_correct for r in evaluate_lengths(model, config, "last", 0)}
    rows = list(measure(metric(is_right), model, config, 32))
    assert {row["length"]: sum(row["values"]) for row in rows} == shares
    assert 0 < shares[1] < 32  # else anything would pass


def test_what_does_not_apply_is_left_open():
    model = make_model(config := override(TrialConfig(), TINY))
    (row, *_) = measure(metric(lambda example: None), model, config, 3)
    assert row["values"] == [None] * 3


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda example: example.predicted, "returned"),
        (lambda example: float("nan"), "a finite number or None is needed"),
        (lambda example: 1 / len(example.predicted), "ZeroDivisionError"),  # of an empty answer
        (lambda: 1, "TypeError"),
    ],
    ids=["text", "nan", "empty", "arguments"],
)
def test_a_metric_is_tried_before_any_model_decodes(function, reason):
    with pytest.raises(ValueError, match=reason):
        check_metric(metric(function), override(TrialConfig(), TINY))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("is_right", "is not of the form package.module:function"),
        ("nowhere_at_all:f", "cannot import 'nowhere_at_all'"),
        (f"{__name__}:is_rigth", "Did you mean 'is_right'"),
        ("pcore.diagnosis.metrics:Metric", "is a type, not a function"),
        ("os:abort", "is a builtin_function_or_method, not a function"),
    ],
)
def test_a_name_that_is_no_metric_is_refused(name, reason):
    with pytest.raises(ValueError, match=reason):
        find_metric(name)
