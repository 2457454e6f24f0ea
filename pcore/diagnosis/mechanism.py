"""What is kept of a trained model's mechanism, as flat rows: what its heads look at, what its
failures go by, and what that says in words.

Three kinds of rows, told apart by `kind`:

    head      a head, a level of IDs and a pattern of the construction at one length
    failures  a breakdown of right and wrong cases at one length, as lists by key
    cause     a sentence of `pcore.diagnosis.causes` about one length, strongest first

Of the last checkpoint, on the first examples of each test set.
"""

from collections.abc import Iterator
from typing import Any

import torch

from pcore.config import TrialConfig
from pcore.diagnosis.attention import AttentionMap, NoExamples, average_attention
from pcore.diagnosis.causes import name_causes
from pcore.diagnosis.failures import Diagnosis, analyse_failures
from pcore.evaluation.predict import with_examples
from pcore.evaluation.test_sets import evaluation_lengths
from pcore.model.transformer import Transformer

NUM_EXAMPLES = 200  # of each length: a share is known to 3.5 points
MOST_LENGTHS = 6  # at which failures are analysed


def mechanism_rows(
    model: Transformer, config: TrialConfig, num_examples: int = NUM_EXAMPLES
) -> Iterator[dict[str, Any]]:
    """Rows of one trained model on its device.

    Heads at the longest trained, the middle and the longest test length; failures at test lengths,
    evenly chosen where there are more than MOST_LENGTHS.
    """
    tested = evaluation_lengths(config)["test"]
    config = with_examples(config, num_examples)
    for length in sorted({config.data.max_length, *choose_evenly(tested, 2)}):
        try:
            found = average_attention(model, config, length, num_examples)
        except NoExamples:  # all of another layout than the largest: nothing to average
            continue
        yield from _head_rows(found)
    for length in choose_evenly(tested, MOST_LENGTHS):
        yield from _failure_rows(analyse_failures(model, config, length))


def choose_evenly(lengths: tuple[int, ...], count: int) -> tuple[int, ...]:
    """At most `count` of the lengths, evenly spread, the last one among them."""
    if len(lengths) <= count:
        return lengths
    places = torch.linspace(0, len(lengths) - 1, count + 1).round().long()[1:]
    return tuple(lengths[place] for place in places.tolist())


def _head_rows(found: AttentionMap) -> Iterator[dict[str, Any]]:
    common = {"kind": "head", "length": found.length, "num_examples": found.num_examples}
    even = {(like.level, like.pattern): like.mass_beyond_bos for like in found.even}
    for head in found.heads:
        own = {"layer": head.layer, "head": head.head, "bos": head.bos}
        own |= {"entropy": head.entropy, "largest": head.largest}
        for like in head.likenesses:
            yield (
                common
                | own
                | {
                    "level": like.level,
                    "pattern": like.pattern,
                    "mass": like.mass,
                    "mass_beyond_bos": like.mass_beyond_bos,
                    "most_beyond_bos": like.most_beyond_bos,
                    "even_beyond_bos": even[like.level, like.pattern],
                    "overlap": like.overlap,
                    "mass_at_stop": like.mass_at_stop,
                }
            )
        if not head.likenesses:
            yield common | own


def _failure_rows(found: Diagnosis) -> Iterator[dict[str, Any]]:
    common = {
        "length": found.length,
        "num_examples": found.num_examples,
        "num_missed_stop": found.num_missed_stop,
        "num_early_stop": found.num_early_stop,
        "num_wrong_symbol": found.num_wrong_symbol,
        "num_failed_elsewhere": found.num_failed_elsewhere,
    }
    for breakdown in found.breakdowns:
        yield common | {
            "kind": "failures",
            "breakdown": breakdown.name,
            "asked": breakdown.asked,
            "unit": breakdown.unit,
            "about": breakdown.about,
            "keys": [tally.key for tally in breakdown.tallies],
            "num_cases": [tally.num_cases for tally in breakdown.tallies],
            "num_wrong": [tally.num_wrong for tally in breakdown.tallies],
            "explained": breakdown.explained,
        }
    for cause in name_causes(found):
        words = {"cause": cause.name, "strength": cause.strength, "sentence": cause.sentence}
        yield common | {"kind": "cause"} | words
