"""Which heads and layers a trained model needs: exact match with the output of each set to zero.

Zeros in the output projection silence a head (its columns) or a whole sublayer without touching
the forward pass. Zero is one choice of many: a part that only adds a constant looks needed too.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

import torch
from torch import Tensor

from pcore.config import TrialConfig
from pcore.evaluation.evaluate import evaluate
from pcore.evaluation.judge import Counts
from pcore.model.transformer import Block, Transformer
from pcore.tasks.base import Batch

Part: TypeAlias = Literal["nothing", "head", "attention", "feed-forward", "layer"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ablation:
    """Counts with one part of the model silenced; layer and head count from 0, -1 = none."""

    part: Part
    layer: int = -1
    head: int = -1
    counts: Counts


def ablate(model: Transformer, batch: Batch, config: TrialConfig) -> Iterator[Ablation]:
    """Counts of the model as it is, then without each head, attention, feed-forward and layer."""
    factor = config.eval.attention_factor
    yield Ablation(part="nothing", counts=evaluate(model, batch, config, factor))
    for layer, block in enumerate(cast(list[Block], list(model.blocks))):
        for part, head, outputs in _parts(block, config.model.d_head):
            with silenced(*outputs):
                counts = evaluate(model, batch, config, factor)
            yield Ablation(part=part, layer=layer, head=head, counts=counts)


@contextmanager
def silenced(*outputs: Tensor) -> Generator[None]:
    """Views of weights set to zero for the block of a `with` statement."""
    kept = [output.clone() for output in outputs]
    with torch.no_grad():
        for output in outputs:
            output.zero_()
        try:
            yield
        finally:
            for output, values in zip(outputs, kept, strict=True):
                output.copy_(values)


def _parts(block: Block, d_head: int) -> Iterator[tuple[Part, int, list[Tensor]]]:
    """(part, head, the weights that carry its output)."""
    attention, feed_forward = block.attention.o.detach(), block.feed_forward.wo.detach()
    for head, columns in enumerate(attention.split(d_head, dim=1)):
        yield "head", head, [columns]
    yield "attention", -1, [attention]
    yield "feed-forward", -1, [feed_forward]
    yield "layer", -1, [attention, feed_forward]
