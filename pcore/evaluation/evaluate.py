"""Counts of a trained model at every evaluated length.

Test sets depend on the task and the length alone, so all arms of a comparison see the same
examples.
"""

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np

from pcore.config import TrialConfig
from pcore.evaluation.judge import Counts, Sample, judge
from pcore.evaluation.test_sets import evaluation_lengths, hash_batch, make_test_set
from pcore.model.transformer import LanguageModel
from pcore.tasks.base import Batch

MAX_OUTCOMES = 10_000  # examples of a length whose single outcomes are kept

EvaluationKey: TypeAlias = tuple[str, int, int | None]  # checkpoint policy, length, second length


@dataclass(frozen=True, kw_only=True, slots=True)
class LengthResult:
    """Counts of one checkpoint at one length.

    range: train, near or test; test_set: hash of the examples.
    outcomes: a bit for each of the first MAX_OUTCOMES examples, 1 = right, the first in the highest
        bit of the first byte (`numpy.unpackbits` reads them).
    samples: the first right and the first wrong example.
    first_wrong_at, wrong_at: see Judgement.
    """

    checkpoint: str
    checkpoint_step: int
    range: str
    length: int
    second_length: int | None
    test_set: str
    counts: Counts
    outcomes: bytes = b""
    samples: tuple[Sample, ...] = ()
    first_wrong_at: tuple[int, ...] = ()
    wrong_at: tuple[int, ...] = ()

    @property
    def key(self) -> EvaluationKey:
        """Identifies a result within its trial."""
        return self.checkpoint, self.length, self.second_length

    def to_plain(self) -> dict[str, Any]:
        """Dictionaries, lists and plain values, for the state of a trial."""
        return asdict(self)

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> "LengthResult":
        """The inverse of `to_plain`."""
        counts, samples = Counts(**values["counts"]), values["samples"]
        parts: dict[str, Any] = {
            "counts": counts,
            "samples": tuple(Sample(**sample) for sample in samples),
        }
        return cls(**values | parts)


def evaluate_lengths(
    model: LanguageModel,
    config: TrialConfig,
    checkpoint: str,
    checkpoint_step: int,
    done: Collection[EvaluationKey] = (),
) -> Iterator[LengthResult]:
    """Counts at every length of the train, near and test range, shortest first, but for those done.

    With second lengths the whole grid; a cell whose second length was not trained belongs to the
    test range.
    """
    for range_name, lengths in evaluation_lengths(config).items():
        for length in lengths:
            for asked in config.eval.second_lengths or (None,):
                second = config.task.default_second(length) if asked is None else asked
                if (checkpoint, length, second) not in done:
                    yield evaluate_length(
                        model, config, checkpoint, checkpoint_step, range_name, length, second
                    )


def evaluate_length(
    model: LanguageModel,
    config: TrialConfig,
    checkpoint: str,
    checkpoint_step: int,
    range_name: str,
    length: int,
    second: int | None,
) -> LengthResult:
    """Counts at one length of a range, with the second length if the task has one."""
    trained = config.task.trained_seconds(config.data.min_length, config.data.max_length)
    inside = trained is None or second is None or second in trained
    batch = make_test_set(config, length, second)
    judged = judge(model, batch, config, config.eval.attention_factor)
    return LengthResult(
        checkpoint=checkpoint,
        checkpoint_step=checkpoint_step,
        range=range_name if inside else "test",
        length=length,
        second_length=second,
        test_set=hash_batch(batch),
        counts=judged.counts,
        outcomes=np.packbits(judged.right[:MAX_OUTCOMES].numpy()).tobytes(),
        samples=judged.samples,
        first_wrong_at=judged.first_wrong_at,
        wrong_at=judged.wrong_at,
    )


def evaluate(
    model: LanguageModel, batch: Batch, config: TrialConfig, factor: float = 1.0
) -> Counts:
    """The counts of `judge`."""
    return judge(model, batch, config, factor).counts
