"""The interface of all encodings, and NoPE, which does nothing.

An encoding may add a vector to each token at the input (`embed`), rotate queries and keys
(`rotate`) and add a bias to attention scores (`bias`). Every method must treat each token by its
own ID: T, Q and the other tokens of a batch differ between training, evaluation and decoding.
"""

from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pcore.settings import ModelConfig, PositionConfig


class Encoding(nn.Module):
    """The interface of all encodings; by itself it adds no positional signal.

    uses_ids: False if IDs have no effect. bounded: True if no ID may exceed max_position.
    needs: settings by dotted name whose defaults do not work with this encoding, with values for a
        small model and IDs up to 2,100 (`pcore check-encoding` uses them).
    """

    uses_ids: ClassVar[bool] = False
    bounded: ClassVar[bool] = False
    needs: ClassVar[dict[str, Any]] = {}

    def __init__(
        self, position: PositionConfig, model: ModelConfig, num_levels: int, rng: torch.Generator
    ):
        """`rng` is a separate CPU generator, so an encoding never changes the model's weights."""
        del rng
        super().__init__()
        self.check(position, model, num_levels)

    @classmethod
    def check(cls, position: PositionConfig, model: ModelConfig, num_levels: int) -> None:
        """Raise ValueError, in one sentence, for settings that this encoding does not support."""
        del position, model, num_levels

    def embed(self, ids: Int[Tensor, "B T P"]) -> Float[Tensor, "B T D"] | None:
        """The vectors added to the token embeddings, or None."""
        del ids
        return None

    def rotate(
        self, x: Float[Tensor, "B H T K"], ids: Int[Tensor, "B T P"], layer: int
    ) -> Float[Tensor, "B H T K"]:
        """Queries or keys of one layer, rotated by their IDs."""
        del ids, layer
        return x

    def bias(
        self, query_ids: Int[Tensor, "B Q P"], key_ids: Int[Tensor, "B T P"], layer: int
    ) -> Float[Tensor, "B H Q T"] | None:
        """The bias added to the attention scores of one layer, in float32, or None."""
        del query_ids, key_ids, layer
        return None


class NoPE(Encoding):
    """No positional encoding: the causal mask is the only source of order."""


def num_sets(position: PositionConfig, num_levels: int) -> int:
    """The number of tables or sets of weights that `level_tables` needs."""
    return num_levels if position.level_tables == "separate" else 1
