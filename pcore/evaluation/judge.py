"""Counts exact matches and kinds of failure on a set of examples; rates are computed later.

An example is right if every response token and the final EOS is the arg-max. Under greedy decoding
that equals free-running exact match (by induction over the targets;
`tests/pcore/evaluation/test_generate.py` decodes freely to prove it).
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from pcore.config import TrialConfig
from pcore.evaluation.predict import Answers, predict_in_parts
from pcore.evaluation.test_sets import evaluation_ids
from pcore.model.transformer import LanguageModel
from pcore.tasks.base import Batch, Task

SOLVED = 0.95  # exact match above which a length counts as solved


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """Counts on a set of examples.

    The three kinds of failure add up to num_examples - num_correct.
    num_missed_stop: every response token right, EOS not predicted. num_early_stop: the first wrong
        prediction is EOS.
    num_wrong_symbol: the first wrong prediction is any other symbol. loss_sum: nats, summed over
        num_tokens targets.
    """

    num_examples: int
    num_correct: int
    num_tokens: int
    num_correct_tokens: int
    num_missed_stop: int
    num_early_stop: int
    num_wrong_symbol: int
    loss_sum: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One readable test example: symbols in token order, without BOS, EOS and PAD.

    predicted: the answer up to and including its first wrong symbol; EOS is shown.
    """

    query: str
    answer: str
    predicted: str
    right: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """Counts, which examples are right (in their order), and the first right and wrong one.

    first_wrong_at: number of examples whose first wrong prediction is at this index of the answer
        (0 = first response token, last = EOS). wrong_at: number with a wrong prediction there.
    """

    counts: Counts
    first_wrong_at: tuple[int, ...]
    wrong_at: tuple[int, ...]
    right: Bool[Tensor, " N"]
    samples: tuple[Sample, ...]


def judge(
    model: LanguageModel, batch: Batch, config: TrialConfig, factor: float = 1.0
) -> Judgement:
    """Judge the model on `batch` (on the CPU), with test-time position IDs, on the model's device.

    factor multiplies the attention logits (1 = as trained).
    """
    tally, ids = _Tally(batch, config.task), evaluation_ids(batch, config)
    for rows, answers in predict_in_parts(model, batch, ids, config.model, factor):
        tally.add(rows, answers)
    return tally.judgement()


def failure_kinds(
    predicted: Int[Tensor, "B R"],
    targets: Int[Tensor, "B R"],
    wrong: Bool[Tensor, "B R"],
    eos: int,
) -> tuple[Bool[Tensor, " B"], Bool[Tensor, " B"], Bool[Tensor, " B"]]:
    """Which examples miss the stop, stop early, have a wrong symbol: their first wrong prediction
    decides.
    """
    failed = wrong.any(dim=1)
    first = wrong.int().argmax(dim=1, keepdim=True)
    missed = failed & (targets.gather(1, first).squeeze(1) == eos)
    early = failed & ~missed & (predicted.gather(1, first).squeeze(1) == eos)
    return missed, early, failed & ~missed & ~early


class _Tally:
    """Running counts over parts of a set, which come in any order."""

    def __init__(self, batch: Batch, task: Task):
        self.batch, self.task = batch, task
        self.totals, self.loss_sum = torch.zeros(5, dtype=torch.long), 0.0
        self.right = torch.zeros(len(batch.tokens), dtype=torch.bool)
        self.places = torch.zeros(2, batch.tokens.shape[1], dtype=torch.long)
        self.shown: dict[bool, tuple[int, Tensor]] = {}  # by right or wrong: row, its predictions

    def add(self, rows: Int[Tensor, " N"], answers: Answers) -> None:
        """Count the answers to these rows of the set."""
        wrong, eos = answers.wrong, self.task.vocab.index[self.task.eos]
        right = ~wrong.any(dim=1)
        kinds = failure_kinds(answers.predicted, answers.targets, wrong, eos)
        self.right[rows] = right
        self.totals += torch.stack([c.sum() for c in (answers.real, wrong, *kinds)])
        self.loss_sum += float(answers.losses.double().sum())
        first = wrong & (wrong.cumsum(dim=1) == 1)
        self.places[:, : wrong.shape[1]] += torch.stack([first.sum(dim=0), wrong.sum(dim=0)])
        for kind in (True, False):
            if not bool((same := right == kind).any()):
                continue
            row = int(rows[same].min())
            if kind not in self.shown or row < self.shown[kind][0]:
                (at,) = (rows == row).nonzero().squeeze(1)
                # a right answer ends before EOS, a wrong one with its first wrong symbol
                last = (
                    int(answers.real[at].sum()) - 1 if kind else int(first[at].int().argmax()) + 1
                )
                self.shown[kind] = row, answers.predicted[at, :last]

    def judgement(self) -> Judgement:
        right = self.right
        num_tokens, num_wrong, *kinds = self.totals.tolist()
        width = int(self.batch.response_mask.sum(dim=1).max())
        first_wrong_at, wrong_at = self.places[:, :width].tolist()
        counts = Counts(
            num_examples=len(right),
            num_correct=int(right.sum()),
            num_tokens=num_tokens,
            num_correct_tokens=num_tokens - num_wrong,
            num_missed_stop=kinds[0],
            num_early_stop=kinds[1],
            num_wrong_symbol=kinds[2],
            loss_sum=self.loss_sum,
        )
        return Judgement(
            counts=counts,
            first_wrong_at=tuple(first_wrong_at),
            wrong_at=tuple(wrong_at),
            right=right,
            samples=tuple(self._sample(kind) for kind in (True, False) if kind in self.shown),
        )

    def _sample(self, kind: bool) -> Sample:
        row, predicted = self.shown[kind]
        query, answer = self.task.decode(self.batch.tokens[row])
        text = self.task.separator.join(self.task.vocab.decode(predicted.tolist()))
        return Sample(query=query, answer=answer, predicted=text, right=kind)
