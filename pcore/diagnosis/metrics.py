"""Metrics of somebody's own: a function of one judged example, named `package.module:function`.

    def places_wrong(example):
        return sum(a != b for a, b in zip(example.answer, example.predicted))

What it returns is a number, a truth value, or None where the metric does not apply.
"""

import hashlib
import inspect
import itertools
import math
import numbers
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from jaxtyping import Int
from torch import Tensor

from pcore.batch import NO_TARGET, find_targets
from pcore.config import TrialConfig
from pcore.decoding import decode_freely
from pcore.evaluation import evaluation_lengths, hash_batch, make_test_set, with_examples
from pcore.model import Transformer
from pcore.registry import describe_error, import_named
from pcore.tasks.base import Batch, Task
from pcore.vocab import PAD_TOKEN


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """A test example and what the model writes, decoded freely. Symbols in token order, without
    BOS, EOS and PAD.

    predicted: at most as long as the answer with its EOS. right: the answer, and EOS after it.
    """

    query: str
    answer: str
    predicted: str
    right: bool
    length: int


Function: TypeAlias = Callable[[Judged], Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """A function with its name, and the hash of its file (16 hex digits)."""

    name: str
    source: str
    function: Function

    def __call__(self, example: Judged) -> float | None:
        """Raises ValueError, in one sentence, if the function does or returns no number."""
        try:
            value = self.function(example)
        except Exception as error:  # own code may raise anything
            raise ValueError(f"metric {self.name}: {describe_error(error)}") from error
        if value is None:
            return None
        if not isinstance(value, numbers.Real) or not math.isfinite(value):
            raise ValueError(
                f"metric {self.name} returned {value!r} for {example.query[:40]!r}: "
                "a finite number or None is needed"
            )
        return float(value)


def find_metric(name: str) -> Metric:
    """The metric of this name; importing its module runs it. Raises ValueError, in one sentence, if
    there is none.
    """
    if not all(name.partition(":")):
        raise ValueError(f"metric {name!r} is not of the form package.module:function")
    function = import_named(name, "metric")
    if not inspect.isfunction(function):  # what Python's own modules offer may do anything
        kind = type(function).__name__
        raise ValueError(f"metric {name!r} is a {kind}, not a function written in Python")
    source = hashlib.sha256(inspect.getsource(sys.modules[function.__module__]).encode())
    return Metric(name=name, source=source.hexdigest()[:16], function=function)


def check_metric(metric: Metric, config: TrialConfig) -> None:
    """Raise ValueError unless the metric has a value for right and for empty answers of a trial's
    task, before any model decodes.
    """
    length = min(length for lengths in evaluation_lengths(config).values() for length in lengths)
    batch = make_test_set(with_examples(config, 2), length)
    _, targets = find_targets(batch.tokens, batch.response_mask)
    nothing = torch.full((len(targets), 1), config.task.vocab.index[config.task.eos])
    for predicted in (targets.masked_fill(targets == NO_TARGET, PAD_TOKEN), nothing):
        for example in judge_examples(batch, predicted, config.task, length):
            metric(example)


def measure(
    metric: Metric, model: Transformer, config: TrialConfig, num_examples: int
) -> Iterator[dict[str, Any]]:
    """A row for each evaluated length: the values of the first `num_examples` test examples."""
    config = with_examples(config, num_examples)
    lengths = [length for group in evaluation_lengths(config).values() for length in group]
    for length, asked in itertools.product(lengths, config.eval.second_lengths or (None,)):
        second = config.task.default_second(length) if asked is None else asked
        batch = make_test_set(config, length, second)
        predicted = decode_freely(model, batch, config)
        yield {
            "metric": metric.name,
            "source": metric.source,
            "length": length,
            "second_length": second,
            "test_set": hash_batch(batch),
            "values": [metric(e) for e in judge_examples(batch, predicted, config.task, length)],
        }


def judge_examples(
    batch: Batch, predicted: Int[Tensor, "B R"], task: Task, length: int
) -> Iterator[Judged]:
    """Examples with the tokens predicted at their targets; PAD after EOS."""
    eos = task.vocab.index[task.eos]
    for tokens, mask, row in zip(batch.tokens, batch.response_mask, predicted, strict=True):
        query, answer = task.decode(tokens)
        written = [token for token in row.tolist() if token not in (eos, PAD_TOKEN)]
        yield Judged(
            query=query,
            answer=answer,
            predicted=task.separator.join(task.vocab.decode(written)),
            right=row[row != PAD_TOKEN].tolist() == tokens[mask].tolist(),
            length=length,
        )
