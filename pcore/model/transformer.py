"""The decoder-only Transformer of the papers, readable top to bottom.

T5-flavoured: no biases, no dropout, RMSNorm before and after each sublayer (the second one after
the residual sum), gated GELU, tied output, attention scores without 1/sqrt(d_head) (the small query
initialisation replaces it).
Source: arXiv 2405.20671, appendix on architecture; checked against parameter counts in the tests.

This file, `mixing/self_attention.py` and the encoding of the trial (`pcore.encodings`) are the
whole model; how it is trained is told in `pcore.training.train`. Two helpers: `make_weight` draws a
normal matrix, `take` picks some places of each row (both in `mixing/base.py`). The same forward
pass without options, in one function of plain tensor operations: `tests/support/obvious.py`.

The plain case, with one loop (`num_loops=1`), every place (`at=None`) and no cache (`past=None`):

    x = embedding[tokens] + encoding.embed(ids)
    for block in blocks:                                 # `passes`; `enter` changes nothing
        x = norm2(x + attention(norm1(x), ids))          # `Block.forward`
        x = norm4(x + feed_forward(norm3(x)))            # `Block.finish`
    logits = final_norm(x) / sqrt(d_model) @ embedding.T

`ragged` (training on a CPU), `shared_tokens` (equal tokens once), `static` and `compiled` (GPUs)
compute the same function faster. Other attention and mixers, not from the papers, are in `mixing`
too.

Shapes: B examples, T tokens, P levels of IDs, D d_model, H heads, K d_head, V vocabulary, R places
whose next token is predicted. In decoding, S tokens so far, the last N of them new, the others in
the cache; elsewhere N = S = T. Right padding needs no mask: under the causal mask no token sees a
later one.
"""

from typing import TypeAlias, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from pcore.config import ModelConfig, TrialConfig
from pcore.config.seeding import make_generator
from pcore.encodings import ENCODINGS, Encoding
from pcore.encodings.position_ids import num_levels
from pcore.model.mixing import State, find_mixer, make_weight, mixing_parts, take
from pcore.registry import resolve

Cache: TypeAlias = list[State]  # of each pass through a block


class LanguageModel(nn.Module):
    """What evaluation needs of a model, trained or constructed: `model(tokens, ids, at)`."""

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
        self.separable = all(p.separable for p in mixing_parts(config).values())

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        ids: Int[Tensor, "B T P"],
        at: Int[Tensor, "B R"] | None = None,
    ) -> Float[Tensor, "B R V"]:
        """Logits of the token after each of those `at` some indices.

        at: ascending indices into T; None = everywhere, R = T. The last block has queries there
        only: nothing else of its output is read. `passes` and `enter` matter only with several
        loops.
        """
        x = embedded = self.embed(tokens, ids)
        for number, block in enumerate(self.passes):
            x = self.enter(x, embedded, number)
            last = number == len(self.passes) - 1
            x, _ = block(x, ids, self.encoding, self.attention_factor, at if last else None)
        return self.read_out(x)

    def decode_step(
        self, tokens: Int[Tensor, "B N"], ids: Int[Tensor, "B S P"], cache: Cache | None
    ) -> tuple[Float[Tensor, "B N V"], Cache]:
        """Logits after N new tokens that follow the cached ones; the cache with the new ones.

        `forward` at every place, with a cache: the logits are the same. ids: those of all S tokens,
        cached and new.
        """
        x = embedded = self.embed(tokens, ids[:, ids.shape[1] - tokens.shape[1] :])
        new_cache: Cache = []
        for number, block in enumerate(self.passes):
            x = self.enter(x, embedded, number)
            past = cache[number] if cache else None
            x, state = block(x, ids, self.encoding, self.attention_factor, past=past)
            new_cache.append(state)
        return self.read_out(x), new_cache

    def embed(
        self, tokens: Int[Tensor, "B T"], ids: Int[Tensor, "B T P"]
    ) -> Float[Tensor, "B T D"]:
        x = F.embedding(tokens, self.embedding)
        positions = self.encoding.embed(ids)
        return x if positions is None else x + positions

    def enter(
        self, x: Float[Tensor, "B N D"], embedded: Float[Tensor, "B N D"], number: int
    ) -> Float[Tensor, "B N D"]:
        """What pass `number` reads: x, plus the embedded tokens where a loop begins again, if
        `input_injection` is on.
        """
        again = number > 0 and number % len(self.blocks) == 0
        return x + embedded if again and self.config.input_injection else x

    def read_out(self, x: Float[Tensor, "B R D"]) -> Float[Tensor, "B R V"]:
        return F.linear(self.final_norm(x) * self.config.d_model**-0.5, self.embedding)

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
        past: State | None = None,
    ) -> tuple[Float[Tensor, "B R D"], State]:
        """The block's output at the indices `at` of x (None = everywhere), and the layer's state.

        x holds the last N of the S tokens, `past` the state after those before.
        """
        attended, state = self.attention(self.norm1(x), ids, encoding, factor, at, past)
        return self.finish(take(x, at), attended), state

    def finish(
        self, x: Float[Tensor, "B R D"], attended: Float[Tensor, "B R D"]
    ) -> Float[Tensor, "B R D"]:
        """The block's output, from its input and that of attention."""
        x = self.norm2(x + attended)
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


def make_norm(config: ModelConfig) -> nn.Module:
    """RMSNorm, or LayerNorm without a bias; gain 1 at first, eps 1e-6."""
    if config.norm == "rms":
        return nn.RMSNorm(config.d_model, eps=1e-6)
    return nn.LayerNorm(config.d_model, eps=1e-6, bias=False)


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
