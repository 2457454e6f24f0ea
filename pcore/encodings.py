"""How position IDs act inside the model: one class per encoding, one dictionary of all.

An encoding may add a vector to each token at the input (`embed`), rotate queries and keys (`rotate`) and add a bias to
attention scores (`bias`); the base class does none of these and is NoPE. At test time every encoding sees the IDs that
`pcore.positions.test_position_ids` gives; `at_test` says in words what that means for it.
"""

import math
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pcore.config import ModelConfig, PositionConfig


class Encoding(nn.Module):
    """No positional signal (NoPE), and the interface of all encodings.

    uses_ids: False if IDs have no effect. bounded: True if no ID may exceed max_position.
    """

    uses_ids: ClassVar[bool] = False
    bounded: ClassVar[bool] = False
    at_test: ClassVar[str] = "nothing to do"

    def __init__(
        self, position: PositionConfig, model: ModelConfig, num_levels: int, rng: torch.Generator
    ):
        """`rng` is a CPU generator of its own, so that an encoding never changes the initial weights of the model."""
        del position, model, num_levels, rng
        super().__init__()

    def embed(self, ids: Int[Tensor, "B T P"]) -> Float[Tensor, "B T D"] | None:
        """What is added to the token embeddings."""
        del ids
        return None

    def rotate(
        self, x: Float[Tensor, "B H T K"], ids: Int[Tensor, "B T P"], layer: int
    ) -> Float[Tensor, "B H T K"]:
        """Queries or keys of one layer, turned by their IDs."""
        del ids, layer
        return x

    def bias(
        self, query_ids: Int[Tensor, "B Q P"], key_ids: Int[Tensor, "B T P"], layer: int
    ) -> Float[Tensor, "B H Q T"] | None:
        """What is added to the attention scores of one layer."""
        del query_ids, key_ids, layer
        return None


class NoPE(Encoding):
    """No positional encoding: the causal mask is the only source of order."""


class Learned(Encoding):
    """A learned vector per position ID, summed over levels and added at the input.

    With coupled IDs this is position coupling; with sequential IDs and a random start it is random-start APE.
    """

    uses_ids = True
    bounded = True
    at_test = "rows start, start + 1, ... of the table; an ID beyond max_position is refused before training"

    def __init__(
        self, position: PositionConfig, model: ModelConfig, num_levels: int, rng: torch.Generator
    ):
        super().__init__(position, model, num_levels, rng)
        del num_levels  # one table shared by all levels
        rows = make_table(position.table_init, position.max_position + 1, model.d_model, rng)
        self.table = nn.Parameter(rows, requires_grad=not position.freeze_table)

    def embed(self, ids: Int[Tensor, "B T P"]) -> Float[Tensor, "B T D"]:
        return nn.functional.embedding(ids, self.table).sum(dim=2)


class Rotary(Encoding):
    """RoPE (arXiv 2104.09864): interleaved pairs over the full head width, in every head of every layer.

    The IDs of the first level turn queries and keys; with coupled IDs this is coupled RoPE.
    """

    uses_ids = True
    frequencies: Tensor
    at_test = "angles follow the IDs without limit; id_scale_max acts in training only"

    def __init__(
        self, position: PositionConfig, model: ModelConfig, num_levels: int, rng: torch.Generator
    ):
        super().__init__(position, model, num_levels, rng)
        if num_levels != 1:
            raise ValueError(f"encoding 'rotary' takes one level of IDs, the task has {num_levels}")
        if model.d_head % 2:
            raise ValueError(f"encoding 'rotary' needs an even d_head, got {model.d_head}")
        exponent = torch.arange(0, model.d_head, 2, dtype=torch.float64) / model.d_head
        self.register_buffer(
            "frequencies", (position.rotary_base**-exponent).float(), persistent=False
        )

    def rotate(
        self, x: Float[Tensor, "B H T K"], ids: Int[Tensor, "B T P"], layer: int
    ) -> Float[Tensor, "B H T K"]:
        del layer
        angles = ids[:, None, :, :1] * self.frequencies  # (B, 1, T, K/2)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


def make_table(
    init: str, num_rows: int, width: int, rng: torch.Generator
) -> Float[Tensor, "rows width"]:
    """Initial rows of a position table, each of mean square about 1."""
    if init == "normal":
        return torch.randn(num_rows, width, generator=rng)
    if init == "orthogonal":
        if num_rows > width:
            raise ValueError(
                f"table_init='orthogonal' needs max_position < d_model, got {num_rows - 1} and {width}"
            )
        return _orthogonal(width, rng)[:num_rows] * math.sqrt(width)
    frequencies = torch.rand(width // 2, generator=rng) * math.pi
    phases = torch.rand(width // 2, generator=rng) * 2 * math.pi
    angles = torch.arange(num_rows)[:, None] * frequencies + phases
    rows = torch.zeros(num_rows, width)
    rows[:, : 2 * (width // 2)] = torch.cat([angles.cos(), angles.sin()], dim=1) * math.sqrt(2)
    return rows @ _orthogonal(width, rng)


def _orthogonal(width: int, rng: torch.Generator) -> Tensor:
    q, r = torch.linalg.qr(torch.randn(width, width, generator=rng))
    return q * r.diagonal().sign()


ENCODINGS: dict[str, type[Encoding]] = {
    "none": NoPE,
    "learned": Learned,
    "rotary": Rotary,
}
