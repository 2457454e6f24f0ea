"""Predictions at the targets of many examples under teacher forcing: one pass, split into parts.

Examples of similar length are grouped into parts, each padded only to its own longest and sized to
PART_BYTES of memory. IDs and results do not depend on the split, except for rounding. Gradients are
off by `no_grad` (never across a yield): `inference_mode` is hardly faster, and a user's encoding
that keeps tensors between calls could no longer train with them.
"""

import dataclasses
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pcore.config import ModelConfig, TrialConfig
from pcore.model.shared_tokens import logits_from_shared, share_tokens
from pcore.model.targets import target_places
from pcore.model.transformer import LanguageModel
from pcore.tasks.base import Batch
from pcore.vocab import PAD_TOKEN

PART_BYTES = {"cpu": 2**25, "gpu": 2**30}  # of the largest tensors of a part: a CPU wants cache
SHARED_BYTES = {"cpu": 2**28, "gpu": 2**31}  # of what parts share of their equal tokens, at most


class Answers(NamedTuple):
    """Symbols at the targets of some examples, on the CPU.

    places: whose tokens predict, one before each target. real: False beside targets. losses: in
    nats, 0 beside targets.
    """

    predicted: Int[Tensor, "B R"]
    targets: Int[Tensor, "B R"]
    places: Int[Tensor, "B R"]
    real: Bool[Tensor, "B R"]
    losses: Float[Tensor, "B R"]

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
    dtype: torch.dtype | None = None,
) -> Answers:
    """The answers to all examples, with the attention factor of evaluation.

    dtype: of autocast; None = as in evaluation.
    """
    places, real = target_places(batch.response_mask)
    targets = batch.tokens.gather(1, places + 1)
    whole = Answers(torch.zeros_like(targets), targets, places, real, torch.zeros(targets.shape))
    factor = config.eval.attention_factor
    for rows, part in predict_in_parts(model, batch, ids, config.model, factor, dtype=dtype):
        whole.predicted[rows, : part.predicted.shape[1]] = part.predicted
        whole.losses[rows, : part.losses.shape[1]] = part.losses
    return whole


def predict_in_parts(
    model: LanguageModel,
    batch: Batch,
    ids: Int[Tensor, "B T P"],
    config: ModelConfig,
    factor: float,
    *,
    dtype: torch.dtype | None = None,
) -> Iterator[tuple[Int[Tensor, " N"], Answers]]:
    """Row numbers and their answers, part by part, until all have come.

    batch and ids are those of the whole set, on the CPU; factor: on the attention logits.
    """
    num_tokens, num_targets = (batch.tokens != PAD_TOKEN).sum(dim=1), batch.response_mask.sum(dim=1)
    order = (num_tokens * ids.shape[1] + num_targets).argsort(descending=True, stable=True)
    kept = 4 * (config.d_model + 3 * config.num_heads * config.d_head)
    with _evaluating(model, factor):
        memory = SHARED_BYTES[_kind(model)]
        for group in _cut(num_tokens[order], lambda width: kept * width, memory):
            yield from _predict_group(model, batch, ids, config, order[group], dtype)


def _predict_group(
    model: LanguageModel,
    batch: Batch,
    ids: Int[Tensor, "B T P"],
    config: ModelConfig,
    rows: Int[Tensor, " G"],
    dtype: torch.dtype | None,
) -> Iterator[tuple[Int[Tensor, " N"], Answers]]:
    """The answers to examples that share what their equal tokens have in common, longest first."""
    device, widths = model.embedding.device, (batch.tokens[rows] != PAD_TOKEN).sum(dim=1)
    inputs = (part[rows, : int(widths[0]) - 1].to(device) for part in (batch.tokens, ids))
    tokens, ids = inputs  # nothing follows the last token, so it is never read
    with torch.no_grad(), autocast(device, dtype):
        shared = share_tokens(model, tokens, ids)
    for part in _cut(widths, lambda width: _part_bytes(config, width), PART_BYTES[_kind(model)]):
        width = int(widths[part][0])
        places, real = target_places(batch.response_mask[rows[part], :width])
        targets = batch.tokens[rows[part], :width].gather(1, places + 1)
        with torch.no_grad(), autocast(device, dtype):
            logits = logits_from_shared(
                model,
                tokens[part, : width - 1],
                ids[part, : width - 1],
                places.to(device),
                None if shared is None else shared.take(part, width - 1),
            ).float()
        at_target = logits.gather(2, targets.to(device).unsqueeze(2)).squeeze(2)
        losses = (logits.logsumexp(dim=2) - at_target).cpu().masked_fill(~real, 0.0)
        yield rows[part], Answers(logits.argmax(dim=2).cpu(), targets, places, real, losses)


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
def _evaluating(model: LanguageModel, factor: float) -> Generator[None]:
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
