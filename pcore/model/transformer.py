"""The decoder-only Transformer of the papers, readable top to bottom.

T5-flavoured: no biases, no dropout, RMSNorm before and after each sublayer (the second one behind
the residual sum), gated GELU, tied output, attention scores without 1/sqrt(d_head) (the small query
initialisation stands in for it).
Source: arXiv 2405.20671, appendix on architecture; checked against parameter counts in the tests.

Only targets cost more than keys and values in the last block: queries, output projection,
feed-forward and logits are computed at the places whose next token is a target. That is exact;
`tests/pcore/model/test_transformer.py` holds it against the plain model.
Right padding needs no mask of its own: under the causal mask no real token sees one behind it.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from pcore.config import ModelConfig, TrialConfig
from pcore.config.seeding import make_generator
from pcore.encodings import ENCODINGS, Encoding
from pcore.encodings.position_ids import num_levels
from pcore.model.ragged import RaggedBatch
from pcore.model.shared_tokens import SharedTokens, find_distinct
from pcore.registry import resolve

Cache: TypeAlias = list[tuple[Tensor, Tensor]]  # per layer: rotated keys and values "B H T K"


class LanguageModel(nn.Module):
    """What evaluation asks of a model, trained or constructed."""

    embedding: nn.Parameter
    attention_factor: float = 1.0  # multiplies attention logits; set by evaluation only

    def share_tokens(
        self, tokens: Int[Tensor, "B T"], ids: Int[Tensor, "B T P"]
    ) -> SharedTokens | None:
        """What equal tokens have in common, to be handed to `forward`; None = nothing."""
        del tokens, ids
        return None


class Transformer(LanguageModel):
    """B examples, T tokens, P levels, D d_model, H heads, K d_head, V vocabulary."""

    def __init__(
        self, config: ModelConfig, encoding: Encoding, vocab_size: int, rng: torch.Generator
    ):
        super().__init__()
        self.config = config
        self.encoding = encoding
        self.embedding = nn.Parameter(torch.randn(vocab_size, config.d_model, generator=rng))
        self.blocks = nn.ModuleList(Block(config, layer, rng) for layer in range(config.num_layers))
        self.final_norm = make_norm(config)
        self.attention_factor = 1.0

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        ids: Int[Tensor, "B T P"],
        places: Int[Tensor, "B R"] | None = None,
        shared: SharedTokens | None = None,
    ) -> Float[Tensor, "B R V"]:
        """Logits of the next token at `places`.

        places: indices into T, ascending; None = everywhere, R = T.
        shared: what `share_tokens` made of these tokens and IDs, which the first block reads then.
        """
        everywhere = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        if places is not None and places.shape == tokens.shape:
            places = None
        start = self.embed(tokens, ids) if shared is None else shared
        encoding, factor = self.encoding, self.attention_factor
        x = self.run_blocks(
            start,
            ids,
            places,
            lambda attention, p, chosen: attention.mix(
                p.q, p.k, p.v, ids, everywhere if chosen is None else chosen, encoding, factor
            ),
        )
        return self.read_out(x)

    def forward_ragged(self, batch: RaggedBatch) -> Float[Tensor, "M V"]:
        """Logits at the targets of a batch almost without padding."""
        start = self.share_tokens(batch.tokens, batch.ids)
        if start is None:
            start = self.embed(batch.tokens, batch.ids)
        encoding, factor = self.encoding, self.attention_factor
        x = self.run_blocks(
            start,
            batch.ids,
            batch.queries[None],
            lambda attention, p, chosen: attention.mix_parts(
                p, batch, chosen is not None, encoding, factor
            ),
        )
        return self.read_out(x)[0]

    def run_blocks(
        self,
        start: Float[Tensor, "B T D"] | SharedTokens,
        ids: Int[Tensor, "B T P"],
        chosen: Int[Tensor, "B R"] | None,
        mix: "Callable[[Attention, Projected, Tensor | None], Tensor]",
    ) -> Float[Tensor, "B R D"]:
        """The output of the last block at the chosen places (None = everywhere).

        mix: the output of a block's attention at these places, which only the last block is given.
        """
        blocks = cast("list[Block]", list(self.blocks))
        x = start
        for block in blocks:
            here = chosen if block is blocks[-1] else None
            if isinstance(x, SharedTokens):
                projected = block.look_up(x, here)
            else:
                projected = block.project(x, ids, here, self.encoding)
            x = block.finish(projected.residual, mix(block.attention, projected, here))
        return cast(Tensor, x)

    def share_tokens(
        self, tokens: Int[Tensor, "B T"], ids: Int[Tensor, "B T P"]
    ) -> SharedTokens | None:
        """What the first block computes of a token and its IDs alone, once for each distinct pair.

        None if more than half of the tokens are distinct: then there is nothing to share.
        """
        found = find_distinct(tokens, ids, self.encoding.uses_ids)
        if not found.worth_sharing:
            return None
        tokens, ids = tokens.flatten()[found.places], ids.flatten(0, 1)[found.places]
        first = cast("Block", self.blocks[0])
        return first.share(
            self.embed(tokens[None], ids[None]), ids[None], found.numbers, self.encoding
        )

    def decode_step(
        self, tokens: Int[Tensor, "B N"], ids: Int[Tensor, "B S P"], cache: Cache | None
    ) -> tuple[Float[Tensor, "B N V"], Cache]:
        """Logits at N new tokens that follow the cached ones.

        `ids` are those of all S tokens, old and new.
        """
        num_new, num_all = tokens.shape[1], ids.shape[1]
        x = self.embed(tokens, ids[:, num_all - num_new :])
        at = torch.arange(num_all - num_new, num_all, device=tokens.device).expand_as(tokens)
        new_cache: Cache = []
        for layer, block in enumerate(self.blocks):
            past = None if cache is None else cache[layer]
            x, kept = block(x, ids, at, self.encoding, self.attention_factor, past)
            new_cache.append(kept)
        return self.read_out(x), new_cache

    def embed(
        self, tokens: Int[Tensor, "B T"], ids: Int[Tensor, "B T P"]
    ) -> Float[Tensor, "B T D"]:
        x = F.embedding(tokens, self.embedding)
        positions = self.encoding.embed(ids)
        return x if positions is None else x + positions

    def read_out(self, x: Float[Tensor, "B R D"]) -> Float[Tensor, "B R V"]:
        return F.linear(self.final_norm(x) * self.config.d_model**-0.5, self.embedding)


class Projected(NamedTuple):
    """What a block hands to its attention: q and k turned by their IDs, q not yet scaled."""

    residual: Float[Tensor, "B R D"]
    q: Float[Tensor, "B H R K"]
    k: Float[Tensor, "B H N K"]
    v: Float[Tensor, "B H N K"]


class Block(nn.Module):
    """x <- norm2(x + attention(norm1(x))); x <- norm4(x + feed_forward(norm3(x)))."""

    def __init__(self, config: ModelConfig, layer: int, rng: torch.Generator):
        super().__init__()
        pre, post = config.norm_placement != "post", config.norm_placement != "pre"
        self.norm1, self.norm3 = (make_norm(config) if pre else nn.Identity() for _ in range(2))
        self.norm2, self.norm4 = (make_norm(config) if post else nn.Identity() for _ in range(2))
        self.attention = Attention(config, layer, rng)
        self.feed_forward = FeedForward(config, rng)

    def forward(
        self,
        x: Float[Tensor, "B N D"],
        ids: Int[Tensor, "B S P"],
        at: Int[Tensor, "B R"],
        encoding: Encoding,
        factor: float,
        past: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Float[Tensor, "B R D"], tuple[Tensor, Tensor]]:
        """The block's output at the places `at`.

        x holds the last N of the S tokens, `past` the keys and values before.
        """
        num_past = ids.shape[1] - x.shape[1]
        chosen = None if at.shape[1] == x.shape[1] else at - num_past
        residual, q, k, v = self.project(x, ids[:, num_past:], chosen, encoding)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        return self.finish(residual, self.attention.mix(q, k, v, ids, at, encoding, factor)), (k, v)

    def project(
        self,
        x: Float[Tensor, "B N D"],
        ids: Int[Tensor, "B N P"],
        chosen: Int[Tensor, "B R"] | None,
        encoding: Encoding,
    ) -> Projected:
        """Queries at the chosen places of x (None = everywhere), keys and values at all."""
        attention, normed = self.attention, self.norm1(x)
        residual, queries, query_ids = (take(part, chosen) for part in (x, normed, ids))
        q = attention.split(F.linear(queries, attention.q))
        k = attention.split(F.linear(normed, attention.k))
        return Projected(
            residual,
            encoding.rotate(q, query_ids, attention.layer),
            encoding.rotate(k, ids, attention.layer),
            attention.split(F.linear(normed, attention.v)),
        )

    def share(
        self,
        x: Float[Tensor, "1 U D"],
        ids: Int[Tensor, "1 U P"],
        numbers: Int[Tensor, "B T"],
        encoding: Encoding,
    ) -> SharedTokens:
        """`project` of U tokens; token t of row b is number numbers[b, t]."""
        residual, *heads = self.project(x, ids, None, encoding)
        return SharedTokens(numbers, residual[0], *(t.transpose(1, 2).flatten(2)[0] for t in heads))

    def look_up(self, shared: SharedTokens, chosen: Int[Tensor, "B R"] | None) -> Projected:
        """`project` of tokens that were shared."""
        split, all_numbers = self.attention.split, shared.numbers
        here = all_numbers if chosen is None else all_numbers.gather(1, chosen)
        return Projected(
            F.embedding(here, shared.x),
            split(F.embedding(here, shared.q)),
            split(F.embedding(all_numbers, shared.k)),
            split(F.embedding(all_numbers, shared.v)),
        )

    def finish(
        self, residual: Float[Tensor, "B R D"], attended: Float[Tensor, "B R D"]
    ) -> Float[Tensor, "B R D"]:
        """The block's output, from that of attention."""
        x = self.norm2(residual + attended)
        return self.norm4(x + self.feed_forward(self.norm3(x)))


class Attention(nn.Module):
    """Multi-head causal attention; softmax in float32."""

    def __init__(self, config: ModelConfig, layer: int, rng: torch.Generator):
        super().__init__()
        d, inner = config.d_model, config.num_heads * config.d_head
        self.layer = layer
        self.num_heads, self.scale = config.num_heads, config.attention_scale
        self.q = make_weight(inner, d, 1 / (d * config.d_head), rng)
        self.k = make_weight(inner, d, 1 / d, rng)
        self.v = make_weight(inner, d, 1 / d, rng)
        self.o = make_weight(d, inner, 1 / inner, rng)
        if config.query_init == "zero":  # drawn all the same: the other weights stay what they are
            nn.init.zeros_(self.q)

    def mix(
        self,
        q: Float[Tensor, "B H R K"],
        k: Float[Tensor, "B H S K"],
        v: Float[Tensor, "B H S K"],
        ids: Int[Tensor, "B S P"],
        at: Int[Tensor, "B R"],
        encoding: Encoding,
        factor: float,
    ) -> Float[Tensor, "B R D"]:
        """The output of attention from queries at the places `at` of S tokens."""
        bias = encoding.bias(take(ids, at), ids, self.layer)
        mixed = attend(self.scale_queries(q, at, factor), k, v, at, bias)
        return F.linear(mixed.transpose(1, 2).flatten(2), self.o)

    def mix_parts(
        self, p: Projected, batch: RaggedBatch, last: bool, encoding: Encoding, factor: float
    ) -> Float[Tensor, "1 Q D"]:
        """`mix`, part by part. last: queries are at the targets only."""
        places = [part.places if last else part.everywhere for part in batch.parts]
        num_queries = [at.numel() for at in places]
        num_keys = [part.num_rows * part.num_tokens for part in batch.parts]
        # Cut tokens first, as they lie in memory: then the backward pass copies no pieces.
        pieces = [
            whole.squeeze(0).split(sizes)
            for whole, sizes in (
                (p.q.transpose(1, 2), num_queries),
                (p.k.transpose(1, 2), num_keys),
                (p.v.transpose(1, 2), num_keys),
                (batch.ids, num_keys),
            )
        ]
        mixed = list[Tensor]()
        for part, at, *own in zip(batch.parts, places, *pieces, strict=True):
            *heads, ids = (piece.unflatten(0, (part.num_rows, -1)) for piece in own)
            q, k, v = (t.transpose(1, 2) for t in heads)
            mixed.append(self.mix(q, k, v, ids, at, encoding, factor).flatten(0, 1))
        return torch.cat(mixed)[None]

    def scale_queries(
        self, q: Float[Tensor, "B H R K"], at: Int[Tensor, "B R"], factor: float
    ) -> Float[Tensor, "B H R K"]:
        if self.scale == "log-length":
            q = q * (at + 1).log().to(q.dtype)[:, None, :, None]
        return q * factor if factor != 1.0 else q

    def split(self, x: Float[Tensor, "B N I"]) -> Float[Tensor, "B H N K"]:
        return x.unflatten(2, (self.num_heads, -1)).transpose(1, 2)


class FeedForward(nn.Module):
    """Gated GELU: W_o(gelu(W_0 x) * W_1 x)."""

    def __init__(self, config: ModelConfig, rng: torch.Generator):
        super().__init__()
        self.w0 = make_weight(config.d_ff, config.d_model, 1 / config.d_model, rng)
        self.w1 = make_weight(config.d_ff, config.d_model, 1 / config.d_model, rng)
        self.wo = make_weight(config.d_model, config.d_ff, 1 / config.d_ff, rng)

    def forward(self, x: Float[Tensor, "B R D"]) -> Float[Tensor, "B R D"]:
        return F.linear(
            F.gelu(F.linear(x, self.w0), approximate="tanh") * F.linear(x, self.w1), self.wo
        )


def take(x: Tensor, at: Int[Tensor, "B R"] | None) -> Tensor:
    """x "B T ..." at some places of each row, "B R ..."; None = everywhere."""
    return x if at is None else x.gather(1, at.unsqueeze(2).expand(-1, -1, x.shape[2]))


def attend(
    q: Float[Tensor, "B H R K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S K"],
    at: Int[Tensor, "B R"],
    bias: Float[Tensor, "B H R S"] | None,
) -> Float[Tensor, "B H R K"]:
    """Values mixed by the softmax over the keys 0..at of each query; scores are not scaled.

    The fused kernel knows no gradient of a bias, so an encoding with one takes the plain way.
    """
    if bias is None and q.shape[2] == k.shape[2]:  # a query at every place
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0)
    visible = (torch.arange(k.shape[2], device=k.device) <= at.unsqueeze(2)).unsqueeze(1)
    if bias is None:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=visible, scale=1.0)
    scores = (q @ k.transpose(2, 3)).float() + bias
    return scores.masked_fill(~visible, -math.inf).softmax(dim=3).to(v.dtype) @ v


def make_norm(config: ModelConfig) -> nn.Module:
    """RMSNorm, or LayerNorm without a bias; gain 1 at first, eps 1e-6."""
    if config.norm == "rms":
        return nn.RMSNorm(config.d_model, eps=1e-6)
    return nn.LayerNorm(config.d_model, eps=1e-6, bias=False)


def make_weight(rows: int, columns: int, variance: float, rng: torch.Generator) -> nn.Parameter:
    """A matrix of N(0, variance)."""
    return nn.Parameter(torch.randn(rows, columns, generator=rng) * math.sqrt(variance))


def make_model(config: TrialConfig) -> Transformer:
    """The model of a trial with its initial weights, on the CPU.

    The encoding draws from a generator of its own.
    """
    encoding_class = resolve(config.position.encoding, ENCODINGS, "encoding")
    encoding = encoding_class(
        config.position,
        config.model,
        num_levels(config.task, config.position),
        make_generator("init/encoding", config.seed),
    )
    return Transformer(
        config.model, encoding, len(config.task.vocab), make_generator("init/model", config.seed)
    )
