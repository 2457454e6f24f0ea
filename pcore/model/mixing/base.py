"""The interfaces of attention and mixers.

An `Attention` turns scores into weights over the keys that a query sees; projections, encoding,
sink and cache stay those of the Transformer. A `Mixer` replaces the sublayer as a whole.

Shapes as in `pcore.model.transformer`: B examples, R queries, S keys, N new tokens, T tokens, P
levels of IDs, D d_model, H heads, K d_head.
"""

import math
from typing import ClassVar, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from pcore.config import ModelConfig
from pcore.encodings import Encoding

Scores: TypeAlias = Float[Tensor, "B H R S"]
Visible: TypeAlias = Bool[Tensor, "B 1 R S"]  # which keys a query sees
Queries: TypeAlias = Float[Tensor, "B H R K"]
State: TypeAlias = tuple[Tensor, ...]  # what a layer remembers of the tokens so far; B comes first


class Part(nn.Module):
    """What attentions and mixers have in common.

    separable: every row and every query is computed independently. Rows may then be split and
        rearranged (`pcore.model.ragged`, `shared_tokens`) and queries computed in chunks; otherwise
        rows are padded to the longest and computed in one piece.
    The checks compare what it enables with the plain path.
    """

    separable: ClassVar[bool] = False

    def __init__(self, config: ModelConfig, layer: int, rng: torch.Generator):
        """layer: its number, from 0. rng: that of the model's weights, for initial values."""
        del config, rng
        super().__init__()
        self.layer = layer

    @classmethod
    def check(cls, config: ModelConfig) -> None:
        """Raise ValueError, in one sentence, for settings that this does not support."""
        del config


class Attention(Part):
    """How scores become weights: the interface of `model.attention`."""

    def forward(self, scores: Scores, visible: Visible, queries: Queries) -> Scores:
        """The weight of every key for every query, 0 where it is not visible.

        scores: dot products and the encoding's bias, in float32; anything where not visible. The
        keys stand in the order of the tokens, the last visible one is the query's own token.
        queries: as they met the keys, rotated and scaled.
        """
        raise NotImplementedError


class Mixer(Part):
    """Replaces the attention sublayer: the interface of `model.mixer`.

    A subclass defines `mix`, or `step` if it remembers less than all inputs.
    """

    def forward(
        self,
        x: Float[Tensor, "B N D"],
        ids: Int[Tensor, "B S P"],
        encoding: Encoding,
        factor: float,
        at: Int[Tensor, "B R"] | None = None,
        past: State | None = None,
    ) -> tuple[Float[Tensor, "B R D"], State]:
        """The update of the stream at the indices `at` of x (None = everywhere), and the state.

        x: the last N of S tokens, normed; past: the state after those before. factor: on attention
        logits in evaluation.
        """
        del factor
        mixed, state = self.step(x, ids, encoding, past)
        return take(mixed, at), state

    def step(
        self,
        x: Float[Tensor, "B N D"],
        ids: Int[Tensor, "B S P"],
        encoding: Encoding,
        past: State | None,
    ) -> tuple[Float[Tensor, "B N D"], State]:
        """The output at N new tokens and the state after them; here all inputs are remembered."""
        whole = x if past is None else torch.cat([past[0], x], dim=1)
        return self.mix(whole, ids, encoding)[:, whole.shape[1] - x.shape[1] :], (whole,)

    def mix(
        self, x: Float[Tensor, "B T D"], ids: Int[Tensor, "B T P"], encoding: Encoding
    ) -> Float[Tensor, "B T D"]:
        """The output at every token, from itself and those before it."""
        raise NotImplementedError


def take(x: Tensor, at: Int[Tensor, "B R"] | None) -> Tensor:
    """x "B T ..." at some indices of each row, "B R ..."; None = everywhere."""
    return x if at is None else x.gather(1, at.unsqueeze(2).expand(-1, -1, x.shape[2]))


def make_weight(rows: int, columns: int, variance: float, rng: torch.Generator) -> nn.Parameter:
    """A matrix of N(0, variance)."""
    return nn.Parameter(torch.randn(rows, columns, generator=rng) * math.sqrt(variance))
