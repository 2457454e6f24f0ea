"""The decoder-only Transformer of the papers, readable top to bottom.

T5-flavoured: no biases, no dropout, RMSNorm before and after each sublayer (the second one behind
the residual sum), gated GELU, tied output, attention scores without 1/sqrt(d_head) (the small query
initialisation stands in for it).
Source: arXiv 2405.20671, appendix on architecture; checked against parameter counts in the tests.

Only targets cost more than keys and values in the last block: queries, output projection,
feed-forward and logits are computed at the places whose next token is a target. That is exact;
`tests/test_model.py` holds it against the plain model.
Right padding needs no mask of its own: under the causal mask no real token sees one behind it.
"""

import math
from typing import TypeAlias, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from pcore.config import ModelConfig, TrialConfig
from pcore.distinct import SharedTokens, find_distinct
from pcore.encodings import ENCODINGS, Encoding
from pcore.positions import num_levels
from pcore.registry import resolve
from pcore.seeding import make_generator

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
        at = [everywhere] * len(self.blocks)
        at[-1] = everywhere if places is None else places
        first, *others = cast("list[Block]", list(self.blocks))
        if shared is None:
            x, _ = first(self.embed(tokens, ids), ids, at[0], self.encoding, self.attention_factor)
        else:
            x = first.read_shared(shared, ids, at[0], self.encoding, self.attention_factor)
        for block, here in zip(others, at[1:], strict=True):
            x, _ = block(x, ids, here, self.encoding, self.attention_factor)
        return self.read_out(x)

    def share_tokens(
        self, tokens: Int[Tensor, "B T"], ids: Int[Tensor, "B T P"]
    ) -> SharedTokens | None:
        """What the first block computes of a token and its IDs alone, once for each distinct pair.

        None if more than half of the tokens are distinct: then there is nothing to share.
        """
        found = find_distinct(tokens, ids if self.encoding.uses_ids else ids[:, :, :0])
        if 2 * len(found.places) > tokens.numel():
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


class Block(nn.Module):
    """x <- norm2(x + attention(norm1(x))); x <- norm4(x + feed_forward(norm3(x)))."""

    def __init__(self, config: ModelConfig, layer: int, rng: torch.Generator):
        super().__init__()
        self.layer = layer
        pre, post = config.norm_placement != "post", config.norm_placement != "pre"
        self.norm1, self.norm3 = (make_norm(config) if pre else nn.Identity() for _ in range(2))
        self.norm2, self.norm4 = (make_norm(config) if post else nn.Identity() for _ in range(2))
        self.attention = Attention(config, rng)
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
        if at.shape[1] != x.shape[1]:
            residual = x.gather(1, (at - num_past).unsqueeze(2).expand(-1, -1, x.shape[2]))
            normed = self.norm1(x)
            queries = normed.gather(1, (at - num_past).unsqueeze(2).expand(-1, -1, x.shape[2]))
        else:
            residual, normed = x, self.norm1(x)
            queries = normed
        attended, kept = self.attention(
            queries, normed, ids, at, encoding, self.layer, factor, past
        )
        return self.finish(residual, attended), kept

    def finish(
        self, residual: Float[Tensor, "B R D"], attended: Float[Tensor, "B R D"]
    ) -> Float[Tensor, "B R D"]:
        x = self.norm2(residual + attended)
        return self.norm4(x + self.feed_forward(self.norm3(x)))

    def share(
        self,
        x: Float[Tensor, "1 U D"],
        ids: Int[Tensor, "1 U P"],
        index: Int[Tensor, "B T"],
        encoding: Encoding,
    ) -> SharedTokens:
        """Inputs, queries, keys and values of U tokens; token t of row b is number index[b, t]."""
        normed, attention = self.norm1(x), self.attention
        q, k = attention.turn(normed, normed, ids, ids, encoding, self.layer)
        q, k = (part.transpose(1, 2).flatten(2)[0] for part in (q, k))
        return SharedTokens(index, x[0], q, k, F.linear(normed, attention.v)[0])

    def read_shared(
        self,
        shared: SharedTokens,
        ids: Int[Tensor, "B T P"],
        at: Int[Tensor, "B R"],
        encoding: Encoding,
        factor: float,
    ) -> Float[Tensor, "B R D"]:
        """The same output as `forward`, of a whole sequence."""
        here, split = shared.numbers.gather(1, at), self.attention.split
        q = split(F.embedding(here, shared.q))
        k, v = (split(F.embedding(shared.numbers, part)) for part in (shared.k, shared.v))
        attended = self.attention.mix(q, k, v, ids, at, encoding, self.layer, factor)
        return self.finish(F.embedding(here, shared.x), attended)


class Attention(nn.Module):
    """Multi-head causal attention; softmax in float32."""

    def __init__(self, config: ModelConfig, rng: torch.Generator):
        super().__init__()
        d, inner = config.d_model, config.num_heads * config.d_head
        self.num_heads, self.scale = config.num_heads, config.attention_scale
        self.q = make_weight(inner, d, 1 / (d * config.d_head), rng)
        self.k = make_weight(inner, d, 1 / d, rng)
        self.v = make_weight(inner, d, 1 / d, rng)
        self.o = make_weight(d, inner, 1 / inner, rng)
        if config.query_init == "zero":  # drawn all the same: the other weights stay what they are
            nn.init.zeros_(self.q)

    def forward(
        self,
        queries: Float[Tensor, "B R D"],
        keys: Float[Tensor, "B N D"],
        ids: Int[Tensor, "B S P"],
        at: Int[Tensor, "B R"],
        encoding: Encoding,
        layer: int,
        factor: float,
        past: tuple[Tensor, Tensor] | None,
    ) -> tuple[Float[Tensor, "B R D"], tuple[Tensor, Tensor]]:
        query_ids = ids.gather(1, at.unsqueeze(2).expand(-1, -1, ids.shape[2]))
        key_ids = ids[:, ids.shape[1] - keys.shape[1] :]
        q, k = self.turn(queries, keys, query_ids, key_ids, encoding, layer)
        v = self.split(F.linear(keys, self.v))
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        return self.mix(q, k, v, ids, at, encoding, layer, factor), (k, v)

    def mix(
        self,
        q: Float[Tensor, "B H R K"],
        k: Float[Tensor, "B H S K"],
        v: Float[Tensor, "B H S K"],
        ids: Int[Tensor, "B S P"],
        at: Int[Tensor, "B R"],
        encoding: Encoding,
        layer: int,
        factor: float,
    ) -> Float[Tensor, "B R D"]:
        """The output of attention from queries that are not yet scaled, keys and values."""
        query_ids = ids.gather(1, at.unsqueeze(2).expand(-1, -1, ids.shape[2]))
        bias = encoding.bias(query_ids, ids, layer)
        mixed = attend(self.scale_queries(q, at, factor), k, v, at, bias)
        return F.linear(mixed.transpose(1, 2).flatten(2), self.o)

    def project(
        self,
        queries: Float[Tensor, "B R D"],
        keys: Float[Tensor, "B N D"],
        query_ids: Int[Tensor, "B R P"],
        key_ids: Int[Tensor, "B N P"],
        at: Int[Tensor, "B R"],
        encoding: Encoding,
        layer: int,
        factor: float,
    ) -> tuple[Float[Tensor, "B H R K"], Float[Tensor, "B H N K"]]:
        """Queries and keys whose dot products are the scores: rotated and scaled."""
        q, k = self.turn(queries, keys, query_ids, key_ids, encoding, layer)
        return self.scale_queries(q, at, factor), k

    def turn(
        self,
        queries: Float[Tensor, "B R D"],
        keys: Float[Tensor, "B N D"],
        query_ids: Int[Tensor, "B R P"],
        key_ids: Int[Tensor, "B N P"],
        encoding: Encoding,
        layer: int,
    ) -> tuple[Float[Tensor, "B H R K"], Float[Tensor, "B H N K"]]:
        """Queries and keys turned by their IDs."""
        q = encoding.rotate(self.split(F.linear(queries, self.q)), query_ids, layer)
        return q, encoding.rotate(self.split(F.linear(keys, self.k)), key_ids, layer)

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


def target_places(
    response_mask: Bool[Tensor, "B T"], num_places: int | None = None
) -> tuple[Int[Tensor, "B R"], Bool[Tensor, "B R"]]:
    """Places whose next token is a target, and which of them are real.

    num_places: R; None = as many as the longest row has, which waits for the device.
    Rows with fewer targets repeat their last place.
    Targets are the contiguous tail of an example, so a row is its first target and a count.
    """
    counts = response_mask.sum(dim=1, keepdim=True)
    first = response_mask.int().argmax(dim=1, keepdim=True) - 1
    num_places = int(counts.max()) if num_places is None else num_places
    steps = torch.arange(num_places, device=response_mask.device)
    return first + torch.minimum(steps, counts - 1), steps < counts


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
