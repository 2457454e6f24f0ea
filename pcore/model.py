"""The decoder-only Transformer of the papers, and the one forward pass of training, evaluation and
decoding on every device.

T5-flavoured: no biases, no dropout, RMSNorm before and after each sublayer (the second one after
the residual sum), gated GELU, tied output, attention scores without 1/sqrt(d_head) (the small query
initialisation replaces it).
Source: arXiv 2405.20671, appendix on architecture; checked against parameter counts in the tests.

The plain case, with one loop and a query at every place:

    x = embedding[tokens] + encoding.embed(ids)
    for block in blocks:
        x = norm2(x + attention(norm1(x), ids))
        x = norm4(x + feed_forward(norm3(x)))
    logits = final_norm(x) / sqrt(d_model) @ embedding.T

What `Transformer.forward` can do besides, without another result: compute the last block where
targets follow only (`at`); read a batch cut into parts of similar length, in which only attention
sees rows (`parts`, `pcore.batch`: what a CPU trains on); look up what the first block computes of
equal tokens (`shared`); go on after cached tokens (`cache`, in decoding). The same without any of
it, in one function of plain tensor operations, is `tests/support/obvious.py`.

Shapes: B examples, T tokens, P levels of IDs, D d_model, H heads, K d_head, I = H K, V vocabulary,
R places whose next token is predicted; of a batch cut into parts B = 1, T = N tokens and R = M
places in all. In decoding, S tokens so far, the last N of them new; elsewhere N = S = T. Right
padding needs no mask: under the causal mask no token sees a later one.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from pcore.batch import Part
from pcore.config import TrialConfig, make_generator
from pcore.encodings import Encoding, find_encoding
from pcore.encodings.position_ids import num_levels
from pcore.mixing import (
    Attention,
    GatedLinear,
    Mixer,
    Mixing,
    Softmax,
    State,
    find_attention,
    make_weight,
    softmax,
    take,
)
from pcore.registry import resolve
from pcore.settings import ModelConfig

Cache: TypeAlias = dict[int, State]  # of each pass through a block
# Of attention scores at once without gradients: 30,000 tokens never have all of theirs.
SCORE_BYTES = {"cpu": 2**26, "gpu": 2**30}


class Shared(NamedTuple):
    """What the first block computes of U distinct tokens.

    numbers: the row of each token. x: input of the block. q, k: rotated by their IDs, not scaled.
    """

    numbers: Int[Tensor, "B T"]
    x: Float[Tensor, "U D"]
    q: Float[Tensor, "U I"]
    k: Float[Tensor, "U I"]
    v: Float[Tensor, "U I"]

    def take(self, rows: slice, num_tokens: int) -> "Shared":
        """The same for the first tokens of some examples."""
        return self._replace(numbers=self.numbers[rows, :num_tokens])


class LanguageModel(nn.Module):
    """What evaluation needs of a model, trained or constructed: `model(tokens, ids, at)`."""

    embedding: nn.Parameter
    attention_factor: float = 1.0  # multiplies attention logits; set by evaluation only

    def share(self, tokens: Int[Tensor, "B T"], ids: Int[Tensor, "B T P"]) -> Shared | None:
        """What may be computed once for equal tokens; None if that does not pay or work."""
        del tokens, ids
        return None


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
        self.separable = all(p.separable for p in mixing_parts(config).values())

    def forward(
        self,
        tokens: Int[Tensor, "B N"],
        ids: Int[Tensor, "B S P"],
        at: Int[Tensor, "B R"] | None = None,
        *,
        parts: Sequence[Part] | None = None,
        shared: Shared | None = None,
        cache: Cache | None = None,
    ) -> Float[Tensor, "B R V"]:
        """Logits of the token after each of those `at` some indices.

        at: ascending indices into N; None = everywhere, R = N. The last block has queries there
        only: nothing else of its output is read. parts: how the one row of a cut batch is divided.
        shared: of `share`. cache: what the blocks remember of the S - N tokens before, here brought
        up to all S.
        """
        x = embedded = self.embed(tokens, ids) if shared is None else None
        for number, block in enumerate(self.passes):
            here = at if number == len(self.passes) - 1 else None
            if x is None:
                assert shared is not None
                x = self._enter_shared(block, shared, ids, here, parts)
                continue
            if embedded is not None and self._injects(number):
                x = x + embedded
            past = None if cache is None else cache.get(number)
            x, state = block(x, ids, self.encoding, self.attention_factor, here, parts, past)
            if cache is not None:
                cache[number] = state
        assert x is not None
        return self.read_out(x)

    def read_out(self, x: Float[Tensor, "B R D"]) -> Float[Tensor, "B R V"]:
        return F.linear(self.final_norm(x) * self.config.d_model**-0.5, self.embedding)

    def embed(
        self, tokens: Int[Tensor, "B N"], ids: Int[Tensor, "B S P"]
    ) -> Float[Tensor, "B N D"]:
        """The vectors of the last N of S tokens."""
        x = F.embedding(tokens, self.embedding)
        positions = self.encoding.embed(ids[:, ids.shape[1] - tokens.shape[1] :])
        return x if positions is None else x + positions

    def share(self, tokens: Int[Tensor, "B T"], ids: Int[Tensor, "B T P"]) -> Shared | None:
        """What the first block computes of a token and its IDs alone, once for each distinct pair:
        before attention, all tokens with the same symbol and ID are identical.

        None if more than half of the tokens are distinct, so that looking them up costs more than
        it saves, or the model has a forward pass or a mixer of its own, or reads the embedded
        tokens again.
        """
        if type(self).forward is not Transformer.forward or not self.separable:
            return None
        block = self.passes[0]
        if self.config.input_injection or type(block.attention) is not SelfAttention:
            return None
        numbers, examples = find_distinct(tokens, ids, self.encoding.uses_ids)
        if 2 * len(examples) > numbers.numel():
            return None
        ids = ids.flatten(0, 1)[examples][None]
        x = self.embed(tokens.flatten()[examples][None], ids)
        heads = block.attention.project(block.norm1(x), ids, None, self.encoding)
        q, k, v = (t.transpose(1, 2).flatten(2)[0] for t in heads)
        return Shared(numbers, x[0], q, k, v)

    def _enter_shared(
        self,
        block: "Block",
        shared: Shared,
        ids: Int[Tensor, "B T P"],
        at: Int[Tensor, "B R"] | None,
        parts: Sequence[Part] | None,
    ) -> Float[Tensor, "B R D"]:
        """The output of the first block, whose tokens are looked up."""
        attention, numbers = block.attention, shared.numbers
        assert isinstance(attention, SelfAttention)
        asked = numbers if at is None else numbers.gather(1, at)
        x = F.embedding(asked, shared.x)
        q, k, v = (
            attention.split(F.embedding(which, table))
            for which, table in ((asked, shared.q), (numbers, shared.k), (numbers, shared.v))
        )
        rest = self.encoding, self.attention_factor, at, parts
        return block.finish(x, attention.attend_parts(q, k, v, ids, *rest))

    def _injects(self, number: int) -> bool:
        """Whether pass `number` begins a loop again and reads the embedded tokens once more."""
        return self.config.input_injection and number > 0 and number % len(self.blocks) == 0

    @property
    def layers(self) -> "list[Block]":
        """The blocks with their type, which a `ModuleList` forgets."""
        return cast("list[Block]", list(self.blocks))

    @property
    def passes(self) -> "list[Block]":
        """The blocks in the order in which they run: all of them, `num_loops` times."""
        return self.layers * self.config.num_loops


class Block(nn.Module):
    """x <- norm2(x + attention(norm1(x))); x <- norm4(x + feed_forward(norm3(x)))."""

    def __init__(self, config: ModelConfig, layer: int, rng: torch.Generator):
        super().__init__()
        pre, post = config.norm_placement != "post", config.norm_placement != "pre"
        self.norm1, self.norm3 = (make_norm(config) if pre else nn.Identity() for _ in range(2))
        self.norm2, self.norm4 = (make_norm(config) if post else nn.Identity() for _ in range(2))
        mixer = find_mixer(config.mixer[layer % len(config.mixer)])
        self.attention = mixer(config, layer, rng)  # the name that weights on disk have
        self.feed_forward = FeedForward(config, rng)

    def forward(
        self,
        x: Float[Tensor, "B N D"],
        ids: Int[Tensor, "B S P"],
        encoding: Encoding,
        factor: float,
        at: Int[Tensor, "B R"] | None = None,
        parts: Sequence[Part] | None = None,
        past: State | None = None,
    ) -> tuple[Float[Tensor, "B R D"], State]:
        """The block's output at the indices `at` of x (None = everywhere), and the layer's state.

        x holds the last N of the S tokens, `past` the state after those before. parts: of the one
        row of a cut batch, which leaves no state.
        """
        mixed, state = self.attention(self.norm1(x), ids, encoding, factor, at, past, parts)
        return self.finish(take(x, at), mixed), state

    def finish(
        self, x: Float[Tensor, "B R D"], mixed: Float[Tensor, "B R D"]
    ) -> Float[Tensor, "B R D"]:
        """The block's output, from its input and that of attention."""
        x = self.norm2(x + mixed)
        return self.norm4(x + self.feed_forward(self.norm3(x)))


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


class SelfAttention(Mixer):
    """Multi-head causal attention; softmax in float32, or another way from scores to weights."""

    separable = True

    def __init__(self, config: ModelConfig, layer: int, rng: torch.Generator):
        super().__init__(config, layer, rng)
        d, inner = config.d_model, config.num_heads * config.d_head
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
        self.weigh = find_attention(config.attention)(config, layer, rng)

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
        """As of `Mixer`, but all tokens of a cut batch are projected at once; the state is keys and
        values of all tokens, "B H S K", keys rotated.
        """
        if parts is not None and type(self) is not SelfAttention:  # it may mix otherwise
            return super().forward(x, ids, encoding, factor, at, past, parts)
        num_past = ids.shape[1] - x.shape[1]
        q, k, v = self.project(x, ids[:, num_past:], at, encoding)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        if at is None and num_past:
            at = torch.arange(x.shape[1], device=x.device).expand(len(x), -1)
        places = None if at is None else num_past + at
        return self.attend_parts(q, k, v, ids, encoding, factor, places, parts), (k, v)

    def project(
        self,
        x: Float[Tensor, "B N D"],
        ids: Int[Tensor, "B N P"],
        at: Int[Tensor, "B R"] | None,
        encoding: Encoding,
    ) -> tuple[Float[Tensor, "B H R K"], Float[Tensor, "B H N K"], Float[Tensor, "B H N K"]]:
        """q at some indices, k and v everywhere; q and k rotated by their IDs, q not yet scaled."""
        q = self.split(F.linear(take(x, at), self.q))
        q = encoding.rotate(q, take(ids, at), self.layer)
        k = encoding.rotate(self.split(F.linear(x, self.k)), ids, self.layer)
        return q, k, self.split(F.linear(x, self.v))

    def attend_parts(
        self,
        q: Float[Tensor, "B H R K"],
        k: Float[Tensor, "B H T K"],
        v: Float[Tensor, "B H T K"],
        ids: Int[Tensor, "B T P"],
        encoding: Encoding,
        factor: float,
        at: Int[Tensor, "B R"] | None,
        parts: Sequence[Part] | None,
    ) -> Float[Tensor, "B R D"]:
        """`attend` of each part of a batch, or of its rows if it is not cut."""
        if parts is None:
            at = torch.arange(k.shape[2], device=k.device).expand(len(k), -1) if at is None else at
            return self.attend(q, k, v, ids, at, encoding, factor)
        places = [part.everywhere if at is None else part.places for part in parts]
        sizes = [part.num_rows * part.num_tokens for part in parts]
        num_queries = [at.numel() for at in places]
        # Cut tokens first, as they lie in memory: then the backward pass copies no pieces.
        pieces = [
            whole.squeeze(0).split(count)
            for whole, count in (
                (q.transpose(1, 2), num_queries),
                (k.transpose(1, 2), sizes),
                (v.transpose(1, 2), sizes),
                (ids, sizes),
            )
        ]
        mixed: list[Tensor] = []
        for part, where, *own in zip(parts, places, *pieces, strict=True):
            q, k, v, row_ids = (piece.unflatten(0, (part.num_rows, -1)) for piece in own)
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
            mixed.append(self.attend(q, k, v, row_ids, where, encoding, factor).flatten(0, 1))
        return torch.cat(mixed)[None]

    def attend(
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
            keys, values = k[:, :, :seen], v[:, :, :seen]
            mixed.append(attend(q_part, keys, values, some, bias, self.sink, self.weigh))
        whole = mixed[0] if len(mixed) == 1 else torch.cat(mixed, dim=2)
        return F.linear(whole.transpose(1, 2).flatten(2), self.o)

    def queries_at_once(
        self, q: Float[Tensor, "B H R K"], k: Float[Tensor, "B H S K"], encoding: Encoding
    ) -> int:
        """Queries whose scores fit into SCORE_BYTES; all of them where a kernel keeps no scores,
        or where they do not count each by itself.
        """
        has_bias = type(encoding).bias is not Encoding.bias
        fused = type(self.weigh) is Softmax and not has_bias and self.sink is None
        if (q.shape[2] == k.shape[2] and fused) or not self.weigh.separable:
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


def attend(
    q: Float[Tensor, "B H R K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S K"],
    at: Int[Tensor, "B R"],
    bias: Float[Tensor, "B H R S"] | None,
    sink: Float[Tensor, "H K"] | None = None,
    weigh: Attention | None = None,
) -> Float[Tensor, "B H R K"]:
    """Values mixed by the softmax over the keys 0..at of each query; scores are not scaled.

    sink: an extra key that every query sees, with value 0 and without a bias. weigh: makes the
    weights instead of softmax. The fused kernel supports only softmax and no gradient of a bias, so
    everything else takes the plain path.
    """
    fused = bias is None and (weigh is None or type(weigh) is Softmax)
    if sink is not None:
        k = torch.cat([sink[:, None].to(k.dtype).expand(len(k), -1, -1, -1), k], dim=2)
        v = F.pad(v, (0, 0, 1, 0))
        at = at + 1
        bias = None if bias is None else F.pad(bias, (1, 0))
    elif fused and q.shape[2] == k.shape[2]:  # a query at every token
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0)
    visible = (torch.arange(k.shape[2], device=k.device) <= at.unsqueeze(2)).unsqueeze(1)
    if fused:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=visible, scale=1.0)
    scores = (q @ k.transpose(2, 3)).float()
    scores = scores if bias is None else scores + bias
    weights = softmax(scores, visible) if weigh is None else weigh(scores, visible, q)
    return weights.to(v.dtype) @ v


MIXERS: dict[str, type[Mixer]] = {"attention": SelfAttention, "gated-linear": GatedLinear}


def find_mixer(name: str) -> type[Mixer]:
    """The class of an entry of `model.mixer`. Raises ValueError if there is none."""
    return resolve(name, MIXERS, "mixer")


def mixing_parts(config: ModelConfig) -> dict[str, type[Mixing]]:
    """The mixers by setting, and the attention if one of them uses it."""
    parts: dict[str, type[Mixing]] = {f"model.mixer={n}": find_mixer(n) for n in config.mixer}
    if any(issubclass(part, SelfAttention) for part in parts.values()):
        parts[f"model.attention={config.attention}"] = find_attention(config.attention)
    return parts


def find_distinct(
    tokens: Int[Tensor, "B T"], ids: Int[Tensor, "B T P"], uses_ids: bool = True
) -> tuple[Int[Tensor, "B T"], Int[Tensor, " U"]]:
    """The number of each token among the U distinct ones (the same symbol, with the same IDs on all
    levels if IDs have any effect), and for each of these the index of one such token in the
    flattened "B T".
    """
    keys = tokens.flatten()
    for level in ids.flatten(0, 1).unbind(1) if uses_ids else ():
        keys = keys.unique(return_inverse=True)[1] * (level.max() + 1) + level
    distinct, index = keys.unique(return_inverse=True)
    examples = torch.empty_like(distinct)
    examples[index] = torch.arange(len(keys), device=keys.device)
    return index.view(tokens.shape), examples


def make_norm(config: ModelConfig) -> nn.Module:
    """RMSNorm, or LayerNorm without a bias; gain 1 at first, eps 1e-6."""
    if config.norm == "rms":
        return nn.RMSNorm(config.d_model, eps=1e-6)
    return nn.LayerNorm(config.d_model, eps=1e-6, bias=False)


def make_model(config: TrialConfig) -> Transformer:
    """The model of a trial with its initial weights, on the CPU.

    The encoding draws from a generator of its own.
    """
    encoding = find_encoding(config.position.encoding)(
        config.position,
        config.model,
        num_levels(config.task, config.position),
        make_generator("init/encoding", config.seed),
    )
    return Transformer(
        config.model, encoding, len(config.task.vocab), make_generator("init/model", config.seed)
    )
