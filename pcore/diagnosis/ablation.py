"""Which heads and layers a trained model needs: exact match with the output of each set to zero.

Zeros in the output projection silence a head (its columns) or a whole sublayer without touching the
forward pass. Zero is one choice of many: a component that only adds a constant looks needed too.
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
from pcore.model.mixing import SelfAttention
from pcore.model.transformer import Block, Transformer
from pcore.tasks.base import Batch

Component: TypeAlias = Literal["nothing", "head", "attention", "feed-forward", "layer"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ablation:
    """Counts with one component of the model silenced."""

    component: Component
    layer: int = -1  # from 0; -1 = none
    head: int = -1  # from 0; -1 = none
    counts: Counts

    @property
    def name(self) -> str:
        """For people, who count from 1."""
        if self.component == "nothing":
            return "the whole model"
        name = f"head {self.head + 1}" if self.component == "head" else self.component
        layer = f"without layer {self.layer + 1}"
        return layer if self.component == "layer" else f"{layer}, {name}"


def ablate(model: Transformer, batch: Batch, config: TrialConfig) -> Iterator[Ablation]:
    """Counts of the model as it is, then without each head, attention, feed-forward and layer."""
    factor = config.eval.attention_factor
    yield Ablation(component="nothing", counts=evaluate(model, batch, config, factor))
    for layer, block in enumerate(cast(list[Block], list(model.blocks))):
        for component, head, outputs in _components(block, config.model.d_head):
            with silenced(*outputs):
                counts = evaluate(model, batch, config, factor)
            yield Ablation(component=component, layer=layer, head=head, counts=counts)


@contextmanager
def silenced(*outputs: Tensor) -> Generator[None]:
    """Views of weights set to zero for the block of a `with` statement."""
    saved = [output.clone() for output in outputs]
    with torch.no_grad():
        for output in outputs:
            output.zero_()
        try:
            yield
        finally:
            for output, values in zip(outputs, saved, strict=True):
                output.copy_(values)


def _components(block: Block, d_head: int) -> Iterator[tuple[Component, int, list[Tensor]]]:
    """(component, head, the weights that carry its output); heads where there is attention."""
    feed_forward = block.feed_forward.wo.detach()
    if not isinstance(block.attention, SelfAttention):
        yield "feed-forward", -1, [feed_forward]
        return
    attention = block.attention.o.detach()
    for head, columns in enumerate(attention.split(d_head, dim=1)):
        yield "head", head, [columns]
    yield "attention", -1, [attention]
    yield "feed-forward", -1, [feed_forward]
    yield "layer", -1, [attention, feed_forward]
