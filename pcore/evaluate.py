"""Exact match and kinds of failure per length, by one teacher-forced pass.

Counts only, divided later.

An example is right if every response token and the final EOS is the arg-max. Under greedy decoding
that equals free-running exact match (by induction over the targets; `tests/test_generate.py`
decodes freely to prove it). Test sets depend on the task and the length alone, so all arms of a
comparison see the same examples.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from pcore.config import PositionConfig, TrialConfig, flatten
from pcore.model import Transformer, target_places
from pcore.positions import select_relative_ids, test_position_ids
from pcore.seeding import make_generator
from pcore.tasks.base import Batch, Task

MAX_OUTCOMES = 10_000  # examples of a length whose single outcomes are kept
TOKENS_PER_BATCH = 8192  # of one evaluation batch; bounds memory, does not change results


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """What happened on a set of examples.

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
    """One test example as people read it: symbols as the tokens stand, without BOS, EOS and PAD.

    predicted: what the model answers, up to its first wrong symbol and with it; EOS is shown.
    """

    query: str
    answer: str
    predicted: str
    right: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """Counts, which examples are right (in their order), and the first right and wrong one.

    first_wrong_at: of so many examples the first wrong prediction is at this place of the answer (0
        = first response token, the last one = EOS). wrong_at: so many have a wrong one there.
    """

    counts: Counts
    first_wrong_at: tuple[int, ...]
    wrong_at: tuple[int, ...]
    right: Bool[Tensor, " N"]
    samples: tuple[Sample, ...]


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


def evaluate_lengths(
    model: Transformer, config: TrialConfig, checkpoint: str, checkpoint_step: int
) -> Iterator[LengthResult]:
    """Counts at every length of the train, near and test range, shortest first.

    With second lengths the whole grid; a cell whose second length was not trained belongs to the
    test range.
    """
    task, data = config.task, config.data
    trained = task.trained_seconds(data.min_length, data.max_length)
    for range_name, lengths in evaluation_lengths(config).items():
        for length in lengths:
            for asked in config.eval.second_lengths or (None,):
                second = task.default_second(length) if asked is None else asked
                inside = trained is None or second is None or second in trained
                batch = make_test_set(config, length, second)
                judged = judge(model, batch, config, factor=config.eval.attention_factor)
                yield LengthResult(
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


def evaluation_lengths(config: TrialConfig) -> dict[str, tuple[int, ...]]:
    """Lengths per range.

    The train range is all trained lengths unless the configuration names some.
    """
    every = tuple(range(config.data.min_length, config.data.max_length + 1))
    return {
        "train": config.eval.train_lengths or every,
        "near": config.eval.near_lengths,
        "test": config.eval.test_lengths,
    }


def make_test_set(config: TrialConfig, length: int, second: int | None = None) -> Batch:
    """The test examples of a task at a length.

    Made on the CPU, the same for every arm, seed and device.
    Formats of one task share the numbers too, so that a format ablation is paired.
    """
    rng = make_generator("test", flatten(config)["task.name"], length, second)
    return config.task.sample_length(config.eval.num_examples, length, rng, second)


def make_held_out_set(config: TrialConfig) -> Batch:
    """Examples of the train range on which the best checkpoint is chosen.

    Disjoint randomness from training.
    """
    rng = make_generator("held-out", flatten(config)["task.name"])
    data = config.data
    return config.task.at_test().sample_mixture(1000, data.min_length, data.max_length, rng)


def hash_batch(batch: Batch) -> str:
    """8 hex digits that name a set of examples."""
    return hashlib.sha256(batch.tokens.to(torch.uint8).numpy().tobytes()).hexdigest()[:8]


def evaluate(model: Transformer, batch: Batch, config: TrialConfig, factor: float = 1.0) -> Counts:
    """The counts of `judge`."""
    return judge(model, batch, config, factor).counts


def evaluation_ids(
    batch: Batch, config: TrialConfig, position: PositionConfig | None = None
) -> Int[Tensor, "B T P"]:
    """Position IDs of a test set; `position`: another policy than the configured one."""
    position = position or config.position
    return test_position_ids(select_relative_ids(batch, position, config.task), position)


@torch.no_grad()
def judge(model: Transformer, batch: Batch, config: TrialConfig, factor: float = 1.0) -> Judgement:
    """What the model makes of `batch` (on the CPU), with test-time position IDs, on its device.

    factor multiplies the attention logits (1 = as trained).
    """
    was_training, old_factor = model.training, model.attention_factor
    model.eval()
    model.attention_factor = factor
    totals, right = torch.zeros(7, dtype=torch.float64), list[Tensor]()
    places = torch.zeros(2, batch.tokens.shape[1], dtype=torch.long)
    samples: dict[bool, Sample] = {}
    rows = max(1, TOKENS_PER_BATCH // batch.tokens.shape[1])
    ids = evaluation_ids(batch, config)
    for first in range(0, len(batch.tokens), rows):
        part = Batch(*(t[first : first + rows] for t in batch))
        answers = _answer(model, part, ids[first : first + rows])
        totals += _count(answers, config.task.vocab.index[config.task.eos])
        places[:, : answers.wrong.shape[1]] += _count_places(answers)
        right.append(~answers.wrong.any(dim=1).cpu())
        _take_samples(samples, part, answers, right[-1], config.task)
    model.attention_factor = old_factor
    model.train(was_training)
    whole = [int(n) for n in totals[:6]]
    counts = Counts(
        num_examples=len(batch.tokens),
        num_correct=whole[0],
        num_tokens=whole[1],
        num_correct_tokens=whole[2],
        num_missed_stop=whole[3],
        num_early_stop=whole[4],
        num_wrong_symbol=whole[5],
        loss_sum=float(totals[6]),
    )
    first_wrong_at, wrong_at = places[:, : int(batch.response_mask.sum(dim=1).max())].tolist()
    return Judgement(
        counts=counts,
        first_wrong_at=tuple(first_wrong_at),
        wrong_at=tuple(wrong_at),
        right=torch.cat(right),
        samples=tuple(samples.values()),
    )


class _Answers(NamedTuple):
    """Arg-max symbols at the targets of some examples; `wrong` is False beside real targets."""

    predicted: Int[Tensor, "B R"]
    targets: Int[Tensor, "B R"]
    wrong: Bool[Tensor, "B R"]
    real: Bool[Tensor, "B R"]
    loss_sum: Float[Tensor, ""]


def _answer(model: Transformer, batch: Batch, ids: Tensor) -> _Answers:
    device = model.embedding.device
    batch, ids = Batch(*(t.to(device) for t in batch)), ids.to(device)
    places, real = target_places(batch.response_mask)
    with autocast(device):
        logits = model(batch.tokens[:, :-1], ids[:, :-1], places).float()
    targets = batch.tokens.gather(1, places + 1)
    predicted = logits.argmax(dim=2)
    losses = F.cross_entropy(logits[real], targets[real], reduction="sum")
    return _Answers(predicted, targets, (predicted != targets) & real, real, losses)


def _count(answers: _Answers, eos: int) -> Tensor:
    predicted, targets, wrong, real, losses = answers
    kinds = failure_kinds(predicted, targets, wrong, eos)
    counts = [~wrong.any(dim=1), real, real & ~wrong, *kinds]
    return torch.stack([*(c.sum().double() for c in counts), losses.double()]).cpu()


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


def _count_places(answers: _Answers) -> Int[Tensor, "2 R"]:
    """Examples whose first wrong prediction is at each place, and those with any wrong there."""
    wrong = answers.wrong
    first = wrong & (wrong.cumsum(dim=1) == 1)
    return torch.stack([first.sum(dim=0), wrong.sum(dim=0)]).cpu()


def _take_samples(
    samples: dict[bool, Sample], batch: Batch, answers: _Answers, right: Tensor, task: Task
) -> None:
    """Add the first right and the first wrong example, where there is none yet."""
    for kind in (True, False):
        if kind in samples or not bool((right == kind).any()):
            continue
        row = int((right == kind).int().argmax())
        query, answer = task.decode(batch.tokens[row])
        end = int(answers.real[row].sum()) - 1  # the place of EOS: a right answer ends before it
        if not kind:
            end = int(answers.wrong[row].int().argmax()) + 1
        symbols = task.vocab.decode(answers.predicted[row, :end].tolist())
        samples[kind] = Sample(
            query=query, answer=answer, predicted=task.separator.join(symbols), right=kind
        )


def autocast(device: torch.device) -> torch.autocast:
    """bf16 autocast on a GPU, nothing on a CPU."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda")
