"""Predicted symbols at the targets of test examples, one by one, for whoever asks why they fail."""

import dataclasses
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from pcore.config import TrialConfig
from pcore.evaluate import TOKENS_PER_BATCH
from pcore.model import Transformer, target_places
from pcore.tasks.base import Batch


class Answers(NamedTuple):
    """Symbols at the targets of some examples, on the CPU.

    places: whose tokens predict, one before each target. real: False beside targets.
    """

    predicted: Int[Tensor, "B R"]
    targets: Int[Tensor, "B R"]
    places: Int[Tensor, "B R"]
    real: Bool[Tensor, "B R"]

    @property
    def wrong(self) -> Bool[Tensor, "B R"]:
        return (self.predicted != self.targets) & self.real


def with_examples(config: TrialConfig, num_examples: int | None) -> TrialConfig:
    """The trial with so many test examples; None = as many as it was evaluated on."""
    if num_examples is None:
        return config
    if num_examples < 1:
        raise ValueError(f"--examples {num_examples} is below 1")
    evaluation = dataclasses.replace(config.eval, num_examples=num_examples)
    return dataclasses.replace(config, eval=evaluation)


@torch.no_grad()
def predict_targets(
    model: Transformer,
    batch: Batch,
    ids: Int[Tensor, "B T P"],
    config: TrialConfig,
    dtype: torch.dtype | None = None,
) -> Answers:
    """Arg-max symbols under teacher forcing, with the attention factor of evaluation.

    dtype: of autocast; None = as in evaluation.
    """
    device, was_training, old = model.embedding.device, model.training, model.attention_factor
    model.eval()
    model.attention_factor = config.eval.attention_factor
    if dtype is None:
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    lower = dtype != torch.float32
    places, real = target_places(batch.response_mask)
    found: list[Tensor] = []
    for rows in torch.arange(len(ids)).split(max(1, TOKENS_PER_BATCH // ids.shape[1])):
        parts = (part[rows].to(device) for part in (batch.tokens[:, :-1], ids[:, :-1], places))
        with torch.autocast(device.type, dtype=dtype if lower else torch.bfloat16, enabled=lower):
            logits = model(*parts)
        found.append(logits.float().argmax(dim=2).cpu())
    model.attention_factor = old
    model.train(was_training)
    return Answers(torch.cat(found), batch.tokens.gather(1, places + 1), places, real)
