"""The mechanism of a trained model as flat rows: what its heads look at, what its failures depend
on, and what that says in words.

Three kinds of rows, told apart by `kind`:

    head      a head, a level of IDs and a pattern of the construction at one length
    failures  a breakdown of right and wrong cases at one length, as lists by key
    cause     a sentence of `pcore.diagnosis.causes` about one length, strongest first

Of the last checkpoint, on the first examples of each test set.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch

from pcore.config import TrialConfig
from pcore.diagnosis import NUM_EXAMPLES
from pcore.diagnosis.attention import AttentionMap, NothingToAverage, average_attention
from pcore.diagnosis.causes import name_causes
from pcore.diagnosis.failures import Diagnosis, analyse_failures
from pcore.evaluation import evaluation_lengths, with_examples
from pcore.model import Transformer

MAX_TOKENS = 1000  # of an analysed example: attention matrices grow with the square
MAX_LENGTHS = 6  # at which failures are analysed


def mechanism_rows(
    model: Transformer, config: TrialConfig, num_examples: int = NUM_EXAMPLES
) -> Iterator[dict[str, Any]]:
    """Rows of one trained model on its device.

    Heads at the longest trained, the middle and the longest test length; failures at test lengths,
    evenly chosen where there are more than MAX_LENGTHS. A second length is the task's own one at
    that length, whatever `eval.second_lengths` asks.
    """
    tested = tuple(
        length
        for length in evaluation_lengths(config)["test"]
        if config.task.num_tokens(length) <= MAX_TOKENS
    )
    config = with_examples(config, num_examples)
    for length in sorted({config.data.max_length, *choose_evenly(tested, 2)}):
        try:
            averaged = average_attention(model, config, length, num_examples)
        except NothingToAverage:
            continue
        yield from _head_rows(averaged)
    for length in choose_evenly(tested, MAX_LENGTHS):
        yield from _failure_rows(analyse_failures(model, config, length))


def choose_evenly(lengths: tuple[int, ...], count: int) -> tuple[int, ...]:
    """At most `count` of the lengths, evenly spread, the last one among them."""
    if len(lengths) <= count:
        return lengths
    indices = torch.linspace(0, len(lengths) - 1, count + 1).round().long()[1:]
    return tuple(lengths[index] for index in indices.tolist())


def _head_rows(averaged: AttentionMap) -> Iterator[dict[str, Any]]:
    common = {"kind": "head", "length": averaged.length, "num_examples": averaged.num_examples}
    even = {(like.level, like.pattern): like.mass_beyond_bos for like in averaged.even}
    for head in averaged.heads:
        row = common | {"layer": head.layer, "head": head.head, "bos": head.bos}
        if not head.likenesses:
            yield row
        for like in head.likenesses:
            baseline = {"even_beyond_bos": even[like.level, like.pattern]}
            yield row | dataclasses.asdict(like) | baseline


def _failure_rows(diagnosis: Diagnosis) -> Iterator[dict[str, Any]]:
    common = dataclasses.asdict(diagnosis)
    for breakdown, row in zip(diagnosis.breakdowns, common.pop("breakdowns"), strict=True):
        named = {"kind": "failures", "breakdown": row.pop("name")}
        yield common | named | row | {"explained": breakdown.explained}
    for cause in name_causes(diagnosis):
        words = {"cause": cause.name, "strength": cause.strength, "sentence": cause.sentence}
        yield common | {"kind": "cause"} | words
