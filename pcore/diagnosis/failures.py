"""Counts of where a trained model fails at one length: by index, position ID, operands.

Counts only, divided later, like `pcore.evaluation`; `pcore.diagnosis.causes` puts them into
words. The model is asked up to three times, because some causes cannot be told apart as tested:

    as tested        the test set as evaluation poses it
    other starts     the same examples with starts drawn as in training, so that the ID of a digit
                     and its significance are no longer the same thing
    other operands   addition: the longest operand as long, the others of any length up to that

Predictions are teacher-forced: an error causes no others after it.

Names of breakdowns are stored in rows: there "place" is the index of a target in the response, from
1.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from pcore.config import TrialConfig, make_generator
from pcore.encodings import find_encoding
from pcore.encodings.position_ids import level_names, select_relative_ids
from pcore.evaluation import Answers, evaluation_ids, failure_kinds, make_test_set, predict_targets
from pcore.model import LanguageModel
from pcore.settings import PositionConfig
from pcore.tasks.addition import Addition
from pcore.tasks.base import NO_ID, Batch
from pcore.tasks.digits import draw_integers
from pcore.validation import check_test_length

NOT_COUNTED = -1  # key of a case that a breakdown leaves out

Asked: TypeAlias = Literal["as tested", "other starts", "other operands"]
Unit: TypeAlias = Literal["examples", "predictions"]
About: TypeAlias = Literal["everything", "symbols", "stop"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Breakdown:
    """Cases by the keys of one possible cause."""

    name: str
    asked: Asked  # which of the three ways of asking (see above)
    unit: Unit  # what a case is
    about: About = "everything"  # the targets among the cases: all, all but EOS, or EOS alone
    keys: list[int]  # ascending; the next two count the cases with each
    num_cases: list[int]
    num_wrong: list[int]

    @property
    def shares(self) -> list[float]:
        """Wrong cases by key, 0 to 1."""
        return [wrong / cases for wrong, cases in zip(self.num_wrong, self.num_cases, strict=True)]

    @property
    def explained(self) -> float:
        """Share of the variance of right and wrong that the key explains, 0 to 1.

        Epsilon squared (Kelley 1935): the correlation ratio less what as many random groups have.
        """
        cases, share = sum(self.num_cases), sum(self.num_wrong) / max(1, sum(self.num_cases))
        if not 0 < share < 1 or cases <= len(self.keys):
            return 0.0
        total = cases * share * (1 - share)
        groups = zip(self.num_cases, self.shares, strict=True)
        between = sum(size * (own - share) ** 2 for size, own in groups)
        scale = (cases - 1) / (cases - len(self.keys))
        return round(max(0.0, 1 - scale * (total - between) / total), 9)


def break_down(
    name: str,
    asked: Asked,
    unit: Unit,
    keys: Int[Tensor, "*N"],
    wrong: Bool[Tensor, "*N"],
    about: About = "everything",
) -> Breakdown:
    """Count cases and wrong cases by key; cases with a key of NOT_COUNTED are left out."""
    counted = keys != NOT_COUNTED
    values, group = keys[counted].unique(return_inverse=True)
    errors = group[wrong[counted]]
    return Breakdown(
        name=name,
        asked=asked,
        unit=unit,
        about=about,
        keys=values.tolist(),
        num_cases=group.bincount(minlength=len(values)).tolist(),
        num_wrong=errors.bincount(minlength=len(values)).tolist(),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """Kinds of failure as tested, and all breakdowns."""

    length: int
    num_examples: int
    num_missed_stop: int  # this and the next two as in `pcore.evaluation.Counts`
    num_early_stop: int
    num_wrong_symbol: int
    num_failed_elsewhere: int | None  # of the same examples at other starts; None if not asked
    breakdowns: tuple[Breakdown, ...]

    @property
    def num_failed(self) -> int:
        return self.num_missed_stop + self.num_early_stop + self.num_wrong_symbol


def analyse_failures(
    model: LanguageModel, config: TrialConfig, length: int, second: int | None = None
) -> Diagnosis:
    """Count the failures of a trained model on the test set of a length, by possible causes.

    second: the second length (operands, digits of the second number ...), by default the task's.
    """
    second = check_test_length(config, length, second)
    batch = make_test_set(config, length, second)
    ids = evaluation_ids(batch, config)
    answers = predict_targets(model, batch, ids, config)
    breakdowns = list(_by_digit(batch, answers, config))
    elsewhere = None
    if (spread := _other_starts(config, length, second)) is None:
        breakdowns += _by_position_id(batch, answers, ids, config, "as tested")
    else:
        ids = evaluation_ids(batch, config, spread)
        moved = predict_targets(model, batch, ids, config)
        breakdowns += _by_position_id(batch, moved, ids, config, "other starts")
        elsewhere = int(moved.wrong.any(dim=1).sum())
    breakdowns += _by_operands(model, config, length, second)
    missed, early, symbol = (int(kind.sum()) for kind in failure_kinds(answers, config.task))
    return Diagnosis(
        length=length,
        num_examples=len(batch.tokens),
        num_missed_stop=missed,
        num_early_stop=early,
        num_wrong_symbol=symbol,
        num_failed_elsewhere=elsewhere,
        breakdowns=tuple(breakdown for breakdown in breakdowns if breakdown.keys),
    )


def _by_digit(batch: Batch, answers: Answers, config: TrialConfig) -> Iterator[Breakdown]:
    """By the relative ID of the symbol to be written, on every level."""
    for level, name in enumerate(config.task.levels):
        keys = _ids_at(batch.relative_ids[:, :, level], answers.places + 1, answers)
        yield break_down(name, "as tested", "predictions", keys, answers.wrong, "symbols")


def _by_position_id(
    batch: Batch, answers: Answers, ids: Int[Tensor, "B T P"], config: TrialConfig, asked: Asked
) -> Iterator[Breakdown]:
    """By index, and by the ID of the token that predicts: at digits, and at the stop."""
    wrong, unit = answers.wrong, "predictions"
    indices = torch.arange(1, wrong.shape[1] + 1).expand_as(wrong)
    yield break_down("place", asked, unit, indices.where(answers.real, NOT_COUNTED), wrong)
    if not find_encoding(config.position.encoding).uses_ids:
        return
    stop = answers.targets == config.task.vocab.index[config.task.eos]
    relative_ids = select_relative_ids(batch, config.position, config.task)
    names = level_names(config.task, config.position)
    for level, level_name in enumerate(names):
        name = f" ({level_name})" if len(names) > 1 else ""
        ids_here = ids[:, :, level].where(relative_ids[:, :, level] != NO_ID, NOT_COUNTED)
        keys = _ids_at(ids_here, answers.places, answers)
        at_symbol, at_stop = keys.where(~stop, NOT_COUNTED), keys.where(stop, NOT_COUNTED)
        yield break_down(f"position ID{name}", asked, unit, at_symbol, wrong, "symbols")
        yield break_down(f"position ID at the stop{name}", asked, unit, at_stop, wrong, "stop")


def _by_operands(
    model: LanguageModel, config: TrialConfig, length: int, second: int | None
) -> Iterator[Breakdown]:
    """By how many digits the shortest operand has less than the longest one."""
    task = config.task
    low = min(config.data.min_length, length)
    if not isinstance(task, Addition) or low == length:
        return
    rng = make_generator("operands", length)
    count = config.eval.examples_at(length)
    sizes = draw_integers(low, length, (count, len(task.sizes_at(length, second))), rng)
    longest = draw_integers(0, sizes.shape[1] - 1, (count, 1), rng)
    sizes = sizes.scatter(1, longest, length)
    batch = task.at_test().sample(sizes, rng)
    answers = predict_targets(model, batch, evaluation_ids(batch, config), config)
    keys, failed = length - sizes.amin(dim=1), answers.wrong.any(dim=1)
    yield break_down("difference of operand lengths", "other operands", "examples", keys, failed)


def _other_starts(config: TrialConfig, length: int, second: int | None) -> PositionConfig | None:
    """The position scheme with evaluation starts as in training; None if that changes nothing, or
    no such start leaves room for the test set.
    """
    position = config.position
    uses_ids = find_encoding(position.encoding).uses_ids
    if not uses_ids or position.start == "fixed" or position.ids == "randomized":
        return None
    moved = dataclasses.replace(position, test_policy=position.start)
    try:
        check_test_length(dataclasses.replace(config, position=moved), length, second)
    except ValueError:
        return None
    return moved


def _ids_at(
    ids: Int[Tensor, "B T"], indices: Int[Tensor, "B R"], answers: Answers
) -> Int[Tensor, "B R"]:
    """The IDs of the tokens at these indices; NOT_COUNTED beside targets and without an ID."""
    assert NOT_COUNTED == NO_ID
    return ids.gather(1, indices).where(answers.real, NOT_COUNTED)
