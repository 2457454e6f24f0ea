"""Encodings that act on attention: rotations of queries and keys, and biases of scores.

A bias is a function of query ID i and key ID j. All three were defined for i >= j. Coupled IDs (and
wrapped or none = 0 IDs) also give i < j:

- ALiBi has nothing to learn and uses the distance |i - j|.
- T5 and FIRE are functions of i - j with its sign, so that the neighbour above and the neighbour
  below can be told apart: T5 has a second set of buckets, FIRE feeds its MLP the negative ratio.

For i >= j all of them are exactly the published ones. Levels are summed.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pcore.encodings.base import Encoding, num_sets
from pcore.encodings.embeddings import make_frequencies
from pcore.settings import ModelConfig, PositionConfig

NUM_BUCKETS, MAX_DISTANCE = 32, 128  # T5
FIRE_WIDTH, FIRE_C, FIRE_L = 32, 0.1, 256.0


class Rotary(Encoding):
    """RoPE (arXiv 2104.09864): interleaved pairs over the full head width, in every head and layer.

    With coupled IDs this is coupled RoPE. One level only: a sum of angles over levels would mix
    them up. Scores depend on differences of IDs, whatever their sign.
    """

    uses_ids = True
    frequencies: Tensor

    def __init__(
        self, position: PositionConfig, model: ModelConfig, num_levels: int, rng: torch.Generator
    ):
        super().__init__(position, model, num_levels, rng)
        frequencies = make_frequencies(model.d_head, position.rotary_base)
        self.register_buffer("frequencies", frequencies, persistent=False)

    @classmethod
    def check(cls, position: PositionConfig, model: ModelConfig, num_levels: int) -> None:
        if num_levels != 1:
            raise ValueError(
                "position.encoding=rotary takes one level of IDs, "
                f"position.ids={position.ids} has {num_levels} here: "
                "use position.ids=sequential or an encoding that sums levels"
            )
        if model.d_head % 2:
            raise ValueError(
                f"position.encoding=rotary needs an even model.d_head, got {model.d_head}"
            )

    def rotate(
        self, x: Float[Tensor, "B H T K"], ids: Int[Tensor, "B T P"], layer: int
    ) -> Float[Tensor, "B H T K"]:
        del layer
        angles = ids[:, None, :, :1] * self.frequencies  # (B, 1, T, K/2)
        turns = torch.polar(torch.ones_like(angles), angles)
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * turns).flatten(-2).to(x.dtype)


class ALiBi(Encoding):
    """-slope * |i - j|, one fixed slope per head (Press et al. 2022, arXiv 2108.12409)."""

    uses_ids = True
    slopes: Tensor

    def __init__(
        self, position: PositionConfig, model: ModelConfig, num_levels: int, rng: torch.Generator
    ):
        super().__init__(position, model, num_levels, rng)
        slopes = torch.tensor(alibi_slopes(model.num_heads))
        self.register_buffer("slopes", slopes, persistent=False)

    def bias(
        self, query_ids: Int[Tensor, "B Q P"], key_ids: Int[Tensor, "B T P"], layer: int
    ) -> Float[Tensor, "B H Q T"]:
        del layer
        distances = (query_ids.unsqueeze(2) - key_ids.unsqueeze(1)).abs().sum(dim=3)
        return -self.slopes[:, None, None] * distances.unsqueeze(1)


class T5Bias(Encoding):
    """A learned bias per bucket of i - j and head, shared by all layers (arXiv 1910.10683).

    Causal buckets, 32 up to distance 128: one each for 0-15, then logarithmic, the last one for all
    that lies beyond. The same 32 again for i < j. Initially N(0, 1/d_model), as published.
    """

    uses_ids = True
    bucket_of: Tensor

    def __init__(
        self, position: PositionConfig, model: ModelConfig, num_levels: int, rng: torch.Generator
    ):
        super().__init__(position, model, num_levels, rng)
        shape = (num_sets(position, num_levels), 2 * NUM_BUCKETS, model.num_heads)
        self.table = nn.Parameter(torch.randn(shape, generator=rng) * model.d_model**-0.5)
        buckets = [t5_bucket(n) for n in range(MAX_DISTANCE)]
        before = [NUM_BUCKETS + bucket for bucket in reversed(buckets[1:])]
        self.register_buffer("bucket_of", torch.tensor(before + buckets), persistent=False)

    def bias(
        self, query_ids: Int[Tensor, "B Q P"], key_ids: Int[Tensor, "B T P"], layer: int
    ) -> Float[Tensor, "B H Q T"]:
        del layer
        last = MAX_DISTANCE - 1
        total = query_ids.new_zeros((), dtype=torch.float32)
        for level in range(query_ids.shape[2]):
            differences = query_ids[:, :, None, level] - key_ids[:, None, :, level]
            by_difference = self.table[level % len(self.table)][self.bucket_of]
            places = differences.clamp(-last, last) + last
            total = total + nn.functional.embedding(places, by_difference)
        return total.movedim(3, 1)


class Fire(Encoding):
    """MLP(log(1 + c (i - j)) / log(1 + c max(i, L))), own parameters per layer (arXiv 2310.04418).

    One hidden layer of 32 ReLU units; c (at first 0.1) and L (at first 256, as a learned multiple
    of it) are learned. For i < j the ratio is -log(1 + c (j - i)) / log(1 + c max(i, L)). The MLP
    has no output bias: softmax cannot see it. Always float32.
    """

    uses_ids = True

    def __init__(
        self, position: PositionConfig, model: ModelConfig, num_levels: int, rng: torch.Generator
    ):
        super().__init__(position, model, num_levels, rng)
        shape, heads = (model.num_layers, num_sets(position, num_levels)), model.num_heads

        def uniform(bound: float, *sizes: int) -> nn.Parameter:
            unit = torch.rand(*shape, *sizes, generator=rng)
            return nn.Parameter((2 * unit - 1) * bound)

        self.weight_in, self.bias_in = uniform(1.0, FIRE_WIDTH), uniform(1.0, FIRE_WIDTH)
        self.weight_out = uniform(FIRE_WIDTH**-0.5, FIRE_WIDTH, heads)
        self.c = nn.Parameter(torch.full(shape, FIRE_C))
        self.length_factor = nn.Parameter(torch.ones(shape))  # L / 256

    def bias(
        self, query_ids: Int[Tensor, "B Q P"], key_ids: Int[Tensor, "B T P"], layer: int
    ) -> Float[Tensor, "B H Q T"]:
        total = query_ids.new_zeros((), dtype=torch.float32)
        with torch.autocast(query_ids.device.type, enabled=False):
            for level in range(query_ids.shape[2]):
                part = (layer, level % self.c.shape[1])
                total = total + self._by_pairs(query_ids[..., level], key_ids[..., level], part)
        return total.movedim(3, 1)

    def _by_pairs(
        self, query_ids: Int[Tensor, "B Q"], key_ids: Int[Tensor, "B T"], part: tuple[int, int]
    ) -> Float[Tensor, "B Q T H"]:
        """The bias, computed once per pair of ID values where that is less than once per token."""
        queries, keys = query_ids.unsqueeze(2), key_ids.unsqueeze(1)
        count = 1 + int(torch.maximum(query_ids.amax(), key_ids.amax()))
        if count**2 >= queries.numel() * keys.shape[2]:
            return self._function(queries, keys, part)
        values = torch.arange(count, device=queries.device)
        table = self._function(values.unsqueeze(1), values.unsqueeze(0), part)
        return nn.functional.embedding(queries * count + keys, table.flatten(0, 1))

    def _function(
        self, i: Int[Tensor, "..."], j: Int[Tensor, "..."], part: tuple[int, int]
    ) -> Float[Tensor, "... H"]:
        c, limit = self.c[part].abs(), (self.length_factor[part] * FIRE_L).abs().clamp(min=1)
        difference = i - j
        ratio = torch.log1p(c * difference.abs()) / torch.log1p(c * torch.maximum(i, limit))
        signed = (difference.sign() * ratio).unsqueeze(-1)
        hidden = torch.relu(signed * self.weight_in[part] + self.bias_in[part])
        return hidden @ self.weight_out[part]


def alibi_slopes(num_heads: int) -> list[float]:
    """2 ** (-8k / num_heads), k = 1, 2, ...; other counts borrow from the next power of two."""
    power = 2 ** int(math.log2(num_heads))
    slopes = [2 ** (-8 * k / power) for k in range(1, power + 1)]
    between = [2 ** (-8 * (k + 0.5) / power) for k in range(num_heads - power)]
    return slopes + between


def t5_bucket(distance: int) -> int:
    """The causal T5 bucket of a distance >= 0."""
    exact = NUM_BUCKETS // 2
    if distance < exact:
        return distance
    step = math.log(distance / exact) / math.log(MAX_DISTANCE / exact) * (NUM_BUCKETS - exact)
    return min(exact + int(step), NUM_BUCKETS - 1)
