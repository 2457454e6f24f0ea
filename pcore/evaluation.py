"""Evaluation: test sets, predictions under teacher forcing, and counts; rates are computed later.

An example is right if every response token and the final EOS is the arg-max. Under greedy decoding
that equals free-running exact match (by induction over the targets;
`tests/pcore/evaluation/test_generate.py` decodes freely to prove it). Test sets and their IDs
depend on task and length alone, not on seed and device, so all arms of a comparison see the same
examples.

One pass is split into parts: examples of similar length, each part padded only to its own longest
and sized to PART_BYTES of memory. Results do not depend on the split, except for rounding.
Gradients are off by `no_grad` (never across a yield): `inference_mode` is hardly faster, and a
user's encoding that keeps tensors between calls could no longer train with them.
"""

import dataclasses
import hashlib
import itertools
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from pcore.batch import target_places
from pcore.config import TrialConfig, flatten, make_generator
from pcore.encodings.position_ids import select_relative_ids, test_position_ids
from pcore.model import LanguageModel
from pcore.settings import MAX_OUTCOMES, ModelConfig, PositionConfig
from pcore.tasks.base import Batch, Task
from pcore.vocab import PAD_TOKEN

PART_BYTES = {"cpu": 2**25, "gpu": 2**30}  # of the largest tensors of a part: a CPU wants cache
SHARED_BYTES = {"cpu": 2**28, "gpu": 2**31}  # of what parts share of their equal tokens, at most

EvaluationKey: TypeAlias = tuple[str, int, int | None]  # checkpoint policy, length, second length


# Test sets ----------------------------------------------------------------------------------------


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
    return config.task.sample_length(config.eval.examples_at(length), length, rng, second)


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


def evaluation_ids(
    batch: Batch, config: TrialConfig, position: PositionConfig | None = None
) -> Int[Tensor, "B T P"]:
    """Position IDs of a test set; `position`: another policy than the configured one."""
    position = position or config.position
    return test_position_ids(select_relative_ids(batch, position, config.task), position)


# Predictions --------------------------------------------------------------------------------------


class Answers(NamedTuple):
    """Symbols at the targets of some examples, on the CPU.

    places: whose tokens predict, one before each target. real: False beside targets. loss_sum: in
    nats, over all targets.
    """

    predicted: Int[Tensor, "B R"]
    targets: Int[Tensor, "B R"]
    places: Int[Tensor, "B R"]
    real: Bool[Tensor, "B R"]
    loss_sum: float

    @property
    def wrong(self) -> Bool[Tensor, "B R"]:
        return (self.predicted != self.targets) & self.real


def with_examples(config: TrialConfig, num_examples: int | None) -> TrialConfig:
    """The trial with this number of test examples; None = as many as it was evaluated on."""
    if num_examples is None:
        return config
    if num_examples < 1:
        raise ValueError(f"--examples {num_examples} is below 1")
    evaluation = dataclasses.replace(config.eval, num_examples=num_examples, length_budget=0)
    return dataclasses.replace(config, eval=evaluation)


def predict_targets(
    model: LanguageModel,
    batch: Batch,
    ids: Int[Tensor, "B T P"],
    config: TrialConfig,
) -> Answers:
    """The answers to all examples, found part by part, with the attention factor of evaluation.

    batch and ids are on the CPU.
    """
    places, real = target_places(batch.response_mask)
    targets = batch.tokens.gather(1, places + 1)
    predicted, loss_sum, sizes = torch.zeros_like(targets), 0.0, config.model
    num_tokens, num_targets = (batch.tokens != PAD_TOKEN).sum(dim=1), real.sum(dim=1)
    order = (num_tokens * ids.shape[1] + num_targets).argsort(descending=True, stable=True)
    kept = 4 * (sizes.d_model + 3 * sizes.num_heads * sizes.d_head)
    with evaluating(model, config.eval.attention_factor):
        memory = SHARED_BYTES[_kind(model)]
        for group in _cut(num_tokens[order], lambda width: kept * width, memory):
            for rows, part, loss in _predict_group(model, batch, ids, sizes, order[group]):
                predicted[rows, : part.shape[1]] = part
                loss_sum += loss
    return Answers(predicted, targets, places, real, loss_sum)


def _predict_group(
    model: LanguageModel,
    batch: Batch,
    ids: Int[Tensor, "B T P"],
    config: ModelConfig,
    rows: Int[Tensor, " G"],
) -> Iterator[tuple[Int[Tensor, " N"], Int[Tensor, "N R"], float]]:
    """Row numbers, predictions and the sum of their losses of examples that share what their equal
    tokens have in common, longest first.
    """
    device, widths = model.embedding.device, (batch.tokens[rows] != PAD_TOKEN).sum(dim=1)
    inputs = (part[rows, : int(widths[0]) - 1].to(device) for part in (batch.tokens, ids))
    tokens, ids = inputs  # nothing follows the last token, so it is never read
    with torch.no_grad(), autocast(device):
        shared = model.share(tokens, ids)
    for part in _cut(widths, lambda width: _part_bytes(config, width), PART_BYTES[_kind(model)]):
        width = int(widths[part][0])
        places, real = target_places(batch.response_mask[rows[part], :width])
        targets = batch.tokens[rows[part], :width].gather(1, places + 1)
        with torch.no_grad(), autocast(device):
            inputs = tokens[part, : width - 1], ids[part, : width - 1], places.to(device)
            if shared is None:
                logits = model(*inputs).float()
            else:
                logits = model(*inputs, shared=shared.take(part, width - 1)).float()
        at_target = logits.gather(2, targets.to(device).unsqueeze(2)).squeeze(2)
        losses = (logits.logsumexp(dim=2) - at_target).cpu().masked_fill(~real, 0.0)
        yield rows[part], logits.argmax(dim=2).cpu(), float(losses.double().sum())


def _cut(
    widths: Int[Tensor, " N"], num_bytes: Callable[[int], int], memory: int
) -> Iterator[slice]:
    """Falling widths in parts that fit into memory if all were as wide as the first of a part."""
    first = 0
    while first < len(widths):
        count = max(1, memory // num_bytes(int(widths[first])))
        yield slice(first, first + count)
        first += count


def _kind(model: LanguageModel) -> str:
    return "cpu" if model.embedding.device.type == "cpu" else "gpu"


def _part_bytes(config: ModelConfig, num_tokens: int) -> int:
    """Of the largest tensors of an example: hidden units, and scores where no kernel is fused."""
    return 4 * num_tokens * (config.d_ff + config.num_heads * num_tokens)


@contextmanager
def evaluating(model: LanguageModel, factor: float) -> Generator[None]:
    """Evaluation mode and attention factor for the block of a `with` statement."""
    was_training, old_factor = model.training, model.attention_factor
    model.eval()
    model.attention_factor = factor
    try:
        yield
    finally:
        model.attention_factor = old_factor
        model.train(was_training)


def autocast(device: torch.device, dtype: torch.dtype | None = None) -> torch.autocast:
    """Autocast to a type; None = bf16 on a GPU, nothing on a CPU."""
    if dtype is None:
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    lower = dtype != torch.float32
    return torch.autocast(device.type, dtype=dtype if lower else torch.bfloat16, enabled=lower)


# Counts -------------------------------------------------------------------------------------------


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
class LengthResult:
    """Counts of one checkpoint at one length; of other examples (`judge`) without what names them.

    range: train, near or test; test_set: hash of the examples.
    outcomes: a bit for each of the first MAX_OUTCOMES examples, 1 = right, the first in the highest
        bit of the first byte (`numpy.unpackbits` reads them).
    samples: the first right and the first wrong example.
    first_wrong_at: number of examples whose first wrong prediction is at this index of the answer
        (0 = first response token, last = EOS). wrong_at: number with a wrong prediction there.
    """

    checkpoint: str = ""
    checkpoint_step: int = 0
    range: str = ""
    length: int = 0
    second_length: int | None = None
    test_set: str = ""
    counts: Counts
    outcomes: bytes = b""
    samples: tuple[Sample, ...] = ()
    first_wrong_at: tuple[int, ...] = ()
    wrong_at: tuple[int, ...] = ()

    @property
    def key(self) -> EvaluationKey:
        """Identifies a result within its trial."""
        return self.checkpoint, self.length, self.second_length

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> "LengthResult":
        """The inverse of `asdict`."""
        parts: dict[str, Any] = {"counts": Counts(**values["counts"])}
        parts["samples"] = tuple(Sample(**sample) for sample in values["samples"])
        return cls(**values | parts)


def judge(model: LanguageModel, batch: Batch, config: TrialConfig) -> LengthResult:
    """Judge the model on `batch` (on the CPU) as in evaluation, on the model's device."""
    answers = predict_targets(model, batch, evaluation_ids(batch, config), config)
    wrong, task = answers.wrong, config.task
    right, first = ~wrong.any(dim=1), wrong & (wrong.cumsum(dim=1) == 1)
    missed, early, symbol = (int(kind.sum()) for kind in failure_kinds(answers, task))
    num_tokens = int(answers.real.sum())
    samples: list[Sample] = []
    for kind in (True, False):
        for row in (right == kind).nonzero().flatten()[:1].tolist():
            # a right answer ends before EOS, a wrong one with its first wrong symbol
            end = int(answers.real[row].sum()) - 1 if kind else int(first[row].int().argmax()) + 1
            query, answer = task.decode(batch.tokens[row])
            text = task.separator.join(task.vocab.decode(answers.predicted[row, :end].tolist()))
            samples.append(Sample(query=query, answer=answer, predicted=text, right=kind))
    return LengthResult(
        counts=Counts(
            num_examples=len(right),
            num_correct=int(right.sum()),
            num_tokens=num_tokens,
            num_correct_tokens=num_tokens - int(wrong.sum()),
            num_missed_stop=missed,
            num_early_stop=early,
            num_wrong_symbol=symbol,
            loss_sum=answers.loss_sum,
        ),
        outcomes=np.packbits(right[:MAX_OUTCOMES].numpy()).tobytes(),
        samples=tuple(samples),
        first_wrong_at=tuple(first.sum(dim=0).tolist()),
        wrong_at=tuple(wrong.sum(dim=0).tolist()),
    )


def failure_kinds(
    answers: Answers, task: Task
) -> tuple[Bool[Tensor, " B"], Bool[Tensor, " B"], Bool[Tensor, " B"]]:
    """Which examples miss the stop, stop early, have a wrong symbol: their first wrong prediction
    decides.
    """
    wrong, eos = answers.wrong, task.vocab.index[task.eos]
    failed = wrong.any(dim=1)
    first = wrong.int().argmax(dim=1, keepdim=True)
    missed = failed & (answers.targets.gather(1, first).squeeze(1) == eos)
    early = failed & ~missed & (answers.predicted.gather(1, first).squeeze(1) == eos)
    return missed, early, failed & ~missed & ~early


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
    trained = config.task.trained_seconds(config.data.min_length, config.data.max_length)
    for range_name, lengths in evaluation_lengths(config).items():
        for length, asked in itertools.product(lengths, config.eval.second_lengths or (None,)):
            second = config.task.default_second(length) if asked is None else asked
            if (checkpoint, length, second) in done:
                continue
            inside = trained is None or second is None or second in trained
            batch = make_test_set(config, length, second)
            yield dataclasses.replace(
                judge(model, batch, config),
                checkpoint=checkpoint,
                checkpoint_step=checkpoint_step,
                range=range_name if inside else "test",
                length=length,
                second_length=second,
                test_set=hash_batch(batch),
            )
