"""The decoder-only Transformer of the papers, readable top to bottom.

T5-flavoured: no biases, no dropout, RMSNorm before and after each sublayer (the second one after
the residual sum), gated GELU, tied output, attention scores without 1/sqrt(d_head) (the small query
initialisation stands in for it).
Source: arXiv 2405.20671, appendix on architecture; checked against parameter counts in the tests.

This file is the whole model. The same function is computed faster, with equal results, by
`ragged` (training on a CPU), `shared_tokens` (equal tokens once), `static` and `compiled` (GPUs)
beside it; no other file is needed to know what is trained.

Shapes: B examples, T tokens, P levels of IDs, D d_model, H heads, K d_head, V vocabulary, R tokens
whose next token is asked for. Right padding needs no mask: under the causal mask no token sees a
later one.
"""

import math
from typing import TypeAlias, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from pcore.config import ModelConfig, TrialConfig
from pcore.config.seeding import make_generator
from pcore.encodings import ENCODINGS, Encoding
from pcore.encodings.position_ids import num_levels
from pcore.registry import resolve

# Of attention scores at once without gradients: 30,000 tokens never have all of theirs.
SCORE_BYTES = {"cpu": 2**26, "gpu": 2**30}

KeysValues: TypeAlias = tuple[Tensor, Tensor]  # of one layer, "B H T K" each, keys rotated
Cache: TypeAlias = list[KeysValues]  # one per layer


class LanguageModel(nn.Module):
    """What evaluation asks of a model, trained or constructed: `model(tokens, ids, at)`."""

    embedding: nn.Parameter
    attention_factor: float = 1.0  # multiplies attention logits; set by evaluation only


class Transformer(LanguageModel):
    """Embed, run the blocks, read out."""

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
        at: Int[Tensor, "B R"] | None = None,
    ) -> Float[Tensor, "B R V"]:
        """Logits of the token after each of those `at` some indices.

        at: ascending indices into T; None = everywhere, R = T. The last block has queries there
        only: nothing else of its output is read.
        """
        x = self.embed(tokens, ids)
        for layer, block in enumerate(self.layers):
            last = layer == len(self.layers) - 1
            x, _ = block(x, ids, self.encoding, self.attention_factor, at if last else None)
        return self.read_out(x)

    def decode_step(
        self, tokens: Int[Tensor, "B N"], ids: Int[Tensor, "B S P"], cache: Cache | None
    ) -> tuple[Float[Tensor, "B N V"], Cache]:
        """Logits after N new tokens that follow the cached ones; the cache with the new ones.

        ids: those of all S tokens, cached and new.
        """
        x = self.embed(tokens, ids[:, ids.shape[1] - tokens.shape[1] :])
        new_cache: Cache = []
        for layer, block in enumerate(self.layers):
            past = cache[layer] if cache else None
            x, keys_values = block(x, ids, self.encoding, self.attention_factor, past=past)
            new_cache.append(keys_values)
        return self.read_out(x), new_cache

    def embed(
        self, tokens: Int[Tensor, "B T"], ids: Int[Tensor, "B T P"]
    ) -> Float[Tensor, "B T D"]:
        x = F.embedding(tokens, self.embedding)
        positions = self.encoding.embed(ids)
        return x if positions is None else x + positions

    def read_out(self, x: Float[Tensor, "B R D"]) -> Float[Tensor, "B R V"]:
        return F.linear(self.final_norm(x) * self.config.d_model**-0.5, self.embedding)

    @property
    def layers(self) -> "list[Block]":
        """The blocks with their type, which a `ModuleList` forgets."""
        return cast("list[Block]", list(self.blocks))


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
        encoding: Encoding,
        factor: float,
        at: Int[Tensor, "B R"] | None = None,
        past: KeysValues | None = None,
    ) -> tuple[Float[Tensor, "B R D"], KeysValues]:
        """The block's output at the indices `at` of x (None = everywhere), and all keys and values.

        x holds the last N of the S tokens, `past` the keys and values of those before.
        """
        num_past = ids.shape[1] - x.shape[1]
        normed = self.norm1(x)
        q, k, v = self.attention.project(
            normed, ids[:, num_past:], take(normed, at), take(ids[:, num_past:], at), encoding
        )
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        everywhere = torch.arange(x.shape[1], device=x.device).expand(len(x), -1)
        positions = num_past + (everywhere if at is None else at)
        attended = self.attention.mix(q, k, v, ids, positions, encoding, factor)
        return self.finish(take(x, at), attended), (k, v)

    def finish(
        self, x: Float[Tensor, "B R D"], attended: Float[Tensor, "B R D"]
    ) -> Float[Tensor, "B R D"]:
        """The block's output, from its input and that of attention."""
        x = self.norm2(x + attended)
        return self.norm4(x + self.feed_forward(self.norm3(x)))


class Attention(nn.Module):
    """Multi-head causal attention; softmax in float32."""

    def __init__(self, config: ModelConfig, layer: int, rng: torch.Generator):
        super().__init__()
        d, inner = config.d_model, config.num_heads * config.d_head
        self.layer = layer
        self.num_heads, self.scale = config.num_heads, config.attention_scale
        self.log_base = config.log_base
        self.q = make_weight(inner, d, 1 / (d * config.d_head), rng)
        self.k = make_weight(inner, d, 1 / d, rng)
        self.v = make_weight(inner, d, 1 / d, rng)
        self.o = make_weight(d, inner, 1 / inner, rng)
        if config.query_init == "zero":  # drawn all the same: the other weights stay what they are
            nn.init.zeros_(self.q)
        # Zero, not drawn: at first a key like any other on average, which moves no other weight.
        sink = torch.zeros(config.num_heads, config.d_head)
        self.sink = nn.Parameter(sink) if config.attention_sink == "learned" else None

    def project(
        self,
        x: Float[Tensor, "B N D"],
        ids: Int[Tensor, "B N P"],
        queries: Float[Tensor, "B R D"],
        query_ids: Int[Tensor, "B R P"],
        encoding: Encoding,
    ) -> tuple[Float[Tensor, "B H R K"], Float[Tensor, "B H N K"], Float[Tensor, "B H N K"]]:
        """q of the queries, k and v of x; q and k rotated by their IDs, q not yet scaled."""
        q = encoding.rotate(self.split(F.linear(queries, self.q)), query_ids, self.layer)
        k = encoding.rotate(self.split(F.linear(x, self.k)), ids, self.layer)
        return q, k, self.split(F.linear(x, self.v))

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
        """The output of attention from queries at the indices `at` of S tokens."""
        q = self.scale_queries(q, at, factor)
        size = q.shape[2] if torch.is_grad_enabled() else self.queries_at_once(q, k, encoding)
        mixed: list[Tensor] = []
        for first in range(0, q.shape[2], size):
            some, q_part = at[:, first : first + size], q[:, :, first : first + size]
            seen = k.shape[2] if size >= q.shape[2] else int(some.max()) + 1
            bias = encoding.bias(take(ids, some), ids[:, :seen], self.layer)
            mixed.append(attend(q_part, k[:, :, :seen], v[:, :, :seen], some, bias, self.sink))
        whole = mixed[0] if len(mixed) == 1 else torch.cat(mixed, dim=2)
        return F.linear(whole.transpose(1, 2).flatten(2), self.o)

    def queries_at_once(
        self, q: Float[Tensor, "B H R K"], k: Float[Tensor, "B H S K"], encoding: Encoding
    ) -> int:
        """Queries whose scores fit into SCORE_BYTES; all of them where a kernel keeps no scores."""
        has_bias = type(encoding).bias is not Encoding.bias
        if q.shape[2] == k.shape[2] and not has_bias and self.sink is None:
            return q.shape[2]
        kind = "cpu" if k.device.type == "cpu" else "gpu"
        return max(1, SCORE_BYTES[kind] // (4 * len(k) * self.num_heads * k.shape[2]))

    def scale_queries(
        self, q: Float[Tensor, "B H R K"], at: Int[Tensor, "B R"], factor: float
    ) -> Float[Tensor, "B H R K"]:
        """attention_scale=log-length: times the logarithm of the number of visible keys."""
        if self.scale == "log-length":
            logs = (at + 1).log() / (math.log(self.log_base) if self.log_base else 1.0)
            q = q * logs.to(q.dtype)[:, None, :, None]
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
    """x "B T ..." at some indices of each row, "B R ..."; None = everywhere."""
    return x if at is None else x.gather(1, at.unsqueeze(2).expand(-1, -1, x.shape[2]))


def attend(
    q: Float[Tensor, "B H R K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S K"],
    at: Int[Tensor, "B R"],
    bias: Float[Tensor, "B H R S"] | None,
    sink: Float[Tensor, "H K"] | None = None,
) -> Float[Tensor, "B H R K"]:
    """Values mixed by the softmax over the keys 0..at of each query; scores are not scaled.

    sink: one more key that every query sees, with the value 0 and without a bias.
    The fused kernel knows no gradient of a bias, so an encoding with one takes the plain way.
    """
    if sink is not None:
        k = torch.cat([sink[:, None].to(k.dtype).expand(len(k), -1, -1, -1), k], dim=2)
        v = F.pad(v, (0, 0, 1, 0))
        at = at + 1
        bias = None if bias is None else F.pad(bias, (1, 0))
    elif bias is None and q.shape[2] == k.shape[2]:  # a query at every token
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
