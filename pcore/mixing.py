"""How tokens mix: the interfaces `Attention` and `Mixer`, and what is not the papers' softmax.

An `Attention` turns scores into weights over the keys that a query sees; projections, encoding,
sink and cache stay those of the Transformer. A `Mixer` replaces the sublayer as a whole; the one of
the papers is `pcore.model.SelfAttention`. To use your own, name a subclass as
`package.module:Class` in `model.attention` or `model.mixer`; `pcore check-attention` and
`pcore check-mixer` check it.

Shapes as in `pcore.model`: B examples, R queries, S keys, N new tokens, T tokens, P levels of IDs,
D d_model, H heads, K d_head; C tokens of a chunk.
"""

import math
from collections.abc import Sequence
from typing import ClassVar, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from pcore.batch import Part
from pcore.encodings import Encoding
from pcore.registry import resolve
from pcore.settings import ModelConfig

Scores: TypeAlias = Float[Tensor, "B H R S"]
Visible: TypeAlias = Bool[Tensor, "B 1 R S"]  # which keys a query sees
Queries: TypeAlias = Float[Tensor, "B H R K"]
State: TypeAlias = tuple[Tensor, ...]  # what a layer remembers of the tokens so far; B comes first

NEWTON_STEPS = 8  # to the threshold of entmax in float32: 3,000 keys of any scores need no more
MAX_CONTEXTUAL = 64  # positions that `Contextual` tells apart, as published
CHUNK = 128  # tokens whose pairs are computed at once; between chunks only the state goes on
SLOWNESS = 16  # of forgetting, as published: the gate's logarithm is divided by it


class Mixing(nn.Module):
    """What attentions and mixers have in common.

    separable: every row and every query is computed independently. A batch may then be cut into
        parts, equal tokens be computed once and queries in chunks; otherwise rows are padded to the
        longest and computed in one piece. The checks compare what it enables with the plain path.
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


class Attention(Mixing):
    """How scores become weights: the interface of `model.attention`."""

    def forward(self, scores: Scores, visible: Visible, queries: Queries) -> Scores:
        """The weight of every key for every query, 0 where it is not visible.

        scores: dot products and the encoding's bias, in float32; anything where not visible. The
        keys stand in the order of the tokens, the last visible one is the query's own token.
        queries: as they met the keys, rotated and scaled.
        """
        raise NotImplementedError


class Mixer(Mixing):
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
        parts: Sequence[Part] | None = None,
    ) -> tuple[Float[Tensor, "B R D"], State]:
        """The update of the stream at the indices `at` of x (None = everywhere), and the state.

        x: the last N of S tokens, normed; past: the state after those before. factor: on attention
        logits in evaluation. parts: of the one row of a cut batch, each mixed by itself.
        """
        if parts is None:
            whole, state = self.step(x, ids, encoding, past)
            return take(whole, at), state
        sizes = [part.num_rows * part.num_tokens for part in parts]
        mixed: list[Tensor] = []
        for part, *pieces in zip(parts, x[0].split(sizes), ids[0].split(sizes), strict=True):
            rows, row_ids = (piece.unflatten(0, (part.num_rows, -1)) for piece in pieces)
            places = None if at is None else part.places
            output, _ = self(rows, row_ids, encoding, factor, places)
            mixed.append(output.flatten(0, 1))
        return torch.cat(mixed)[None], ()

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


# Attentions ---------------------------------------------------------------------------------------


def softmax(scores: Scores, visible: Visible) -> Scores:
    """The softmax over visible keys."""
    return scores.masked_fill(~visible, -math.inf).softmax(dim=3)


class Softmax(Attention):
    """Weights that add up to 1; where nobody looks at scores, fused kernels compute it."""

    separable = True

    def forward(self, scores: Scores, visible: Visible, queries: Queries) -> Scores:
        del queries
        return softmax(scores, visible)


class LearnedScale(Attention):
    """Softmax of scores times s log(number of visible keys), s learned for each head, at first 1.

    Attention can thus stay as sharp among many keys as among few; `attention_scale=log-length`
    is s = 1. Source: scalable softmax (Nakanishi 2025, arXiv 2501.19399).
    """

    separable = True

    def __init__(self, config: ModelConfig, layer: int, rng: torch.Generator):
        super().__init__(config, layer, rng)
        self.scale = nn.Parameter(torch.ones(config.num_heads))

    @classmethod
    def check(cls, config: ModelConfig) -> None:
        if config.attention_scale != "none":
            raise ValueError(
                f"model.attention_scale={config.attention_scale} and model.attention=learned-scale "
                "both scale by length: leave the former at none"
            )

    def forward(self, scores: Scores, visible: Visible, queries: Queries) -> Scores:
        del queries
        factor = self.scale[:, None, None] * visible.sum(dim=3, keepdim=True).log()
        return softmax(scores * factor, visible)


class Entmax(Attention):
    """Weights max(score / 2 - t, 0)^2 with the threshold t at which they add up to 1.

    Keys far below the best get no weight, so many of them do not make attention diffuse. Source:
    1.5-entmax (Peters et al. 2019, arXiv 1905.05702); on long contexts: Vasylenko et al. 2025
    (arXiv 2506.16640).
    """

    separable = True

    def forward(self, scores: Scores, visible: Visible, queries: Queries) -> Scores:
        del queries
        z = scores.masked_fill(~visible, -math.inf) / 2
        z = (z - z.amax(dim=3, keepdim=True).detach()).clamp(min=-1)  # below, the weight is 0
        threshold = torch.full_like(z[..., :1], -1)
        with torch.no_grad():  # convex and falling: Newton's method comes from one side
            for _ in range(NEWTON_STEPS):
                over = (z - threshold).clamp(min=0)
                norm = over.norm(dim=3, keepdim=True)
                threshold = threshold + (norm - 1) * norm / over.sum(dim=3, keepdim=True)
        over = (z - threshold).clamp(min=0)
        excess = over.square().sum(dim=3, keepdim=True) - 1  # 0, with the gradient of the threshold
        threshold = threshold + excess / (2 * over.sum(dim=3, keepdim=True)).detach()
        return (z - threshold).clamp(min=0).square()


class StickBreaking(Attention):
    """Each key takes the share sigmoid(score) of what later keys left over; some may remain.

    So near keys come first, whatever the length, and no position encoding is needed. Source: Tan et
    al. 2024 (arXiv 2410.17980); here a query's own token is the first key that takes.
    """

    separable = True

    def forward(self, scores: Scores, visible: Visible, queries: Queries) -> Scores:
        del queries
        left = F.logsigmoid(-scores).masked_fill(~visible, 0.0)  # by each key, as a logarithm
        left = left.flip(3).cumsum(dim=3).flip(3)  # by it and all keys after it
        return (scores + left).masked_fill(~visible, -math.inf).exp()


class Contextual(Attention):
    """Softmax of scores plus a learned logit by contextual position (CoPE).

    The position of a key counts the keys from it to the query, each as much as a gate says: the
    sigmoid of its score. Between whole positions logits are interpolated; from MAX_CONTEXTUAL on
    all are one. Source: Golovneva et al. 2024 (arXiv 2405.18719).
    """

    separable = True

    def __init__(self, config: ModelConfig, layer: int, rng: torch.Generator):
        super().__init__(config, layer, rng)
        self.table = nn.Parameter(torch.zeros(config.d_head, MAX_CONTEXTUAL))

    def forward(self, scores: Scores, visible: Visible, queries: Queries) -> Scores:
        gates = scores.sigmoid().masked_fill(~visible, 0.0)
        positions = gates.flip(3).cumsum(dim=3).flip(3).clamp(max=MAX_CONTEXTUAL - 1)
        by_position = (queries @ self.table.to(queries.dtype)).float()
        low, high = positions.floor(), positions.ceil()
        share = positions - low
        below, above = (p.long().clamp(0, MAX_CONTEXTUAL - 1) for p in (low, high))  # nan too
        logits = (1 - share) * by_position.gather(3, below)
        logits = logits + share * by_position.gather(3, above)
        return softmax(scores + logits, visible)


ATTENTIONS: dict[str, type[Attention]] = {
    "softmax": Softmax,
    "learned-scale": LearnedScale,
    "entmax": Entmax,
    "stick-breaking": StickBreaking,
    "contextual": Contextual,
}


def find_attention(name: str) -> type[Attention]:
    """The class of a value of `model.attention`. Raises ValueError if there is none."""
    return resolve(name, ATTENTIONS, "attention")


# A mixer ------------------------------------------------------------------------------------------


class GatedLinear(Mixer):
    """State <- gate * state + key value^T; output = query state, normed, gated, projected.

    The gate is a sigmoid of the token, one for each head, so a head forgets by content and knows
    order without positions. IDs do not act. Sources: gated linear attention (Yang et al. 2023,
    arXiv 2312.06635), with one gate for a head as in Mamba-2 (Dao & Gu 2024, arXiv 2405.21060).
    """

    separable = True

    def __init__(self, config: ModelConfig, layer: int, rng: torch.Generator):
        super().__init__(config, layer, rng)
        d, inner = config.d_model, config.num_heads * config.d_head
        self.num_heads = config.num_heads
        self.q = make_weight(inner, d, 1 / d, rng)
        self.k = make_weight(inner, d, 1 / d, rng)
        self.v = make_weight(inner, d, 1 / d, rng)
        self.o = make_weight(d, inner, 1 / inner, rng)
        self.gate = make_weight(config.num_heads, d, 1 / d, rng)
        self.output_gate = make_weight(inner, d, 1 / d, rng)

    def step(
        self,
        x: Float[Tensor, "B N D"],
        ids: Int[Tensor, "B S P"],
        encoding: Encoding,
        past: State | None,
    ) -> tuple[Float[Tensor, "B N D"], State]:
        """As of `Mixer`; the state is "B H K K"."""
        del ids, encoding
        q, k, v = (self._split(F.linear(x, w)).float() for w in (self.q, self.k, self.v))
        log_gates = F.logsigmoid(F.linear(x, self.gate).float()).transpose(1, 2) / SLOWNESS
        state = past[0] if past else q.new_zeros(*q.shape[:2], q.shape[3], v.shape[3])
        mixed: list[Tensor] = []
        for first in range(0, q.shape[2], CHUNK):
            some = slice(first, first + CHUNK)
            parts = q[:, :, some], k[:, :, some], v[:, :, some]
            output, state = _mix_chunk(*parts, log_gates[:, :, some], state)
            mixed.append(output)
        heads = F.rms_norm(torch.cat(mixed, dim=2), q.shape[3:], eps=1e-6)
        gated = heads.transpose(1, 2).flatten(2) * F.silu(F.linear(x, self.output_gate))
        return F.linear(gated, self.o), (state,)

    def _split(self, x: Float[Tensor, "B N I"]) -> Float[Tensor, "B H N K"]:
        return x.unflatten(2, (self.num_heads, -1)).transpose(1, 2)


def _mix_chunk(
    q: Float[Tensor, "B H C K"],
    k: Float[Tensor, "B H C K"],
    v: Float[Tensor, "B H C K"],
    log_gates: Float[Tensor, "B H C"],
    state: Float[Tensor, "B H K K"],
) -> tuple[Float[Tensor, "B H C K"], Float[Tensor, "B H K K"]]:
    """The outputs at a chunk of tokens, and the state after it."""
    passed = log_gates.cumsum(dim=2)  # of what came before the chunk, how much is left: logarithm
    between = passed.unsqueeze(3) - passed.unsqueeze(2)
    later = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).triu(1)
    kept = between.masked_fill(later, -math.inf).exp()
    inside = (q @ k.transpose(2, 3) * kept) @ v
    before = passed.exp().unsqueeze(3) * (q @ state)
    whole = passed[:, :, -1:]
    new = (k * (whole - passed).exp().unsqueeze(3)).transpose(2, 3) @ v
    return inside + before, whole.exp().unsqueeze(3) * state + new
