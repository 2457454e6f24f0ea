"""Encodings that add a vector per position ID at the input; levels are summed."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pcore.config import ModelConfig, PositionConfig
from pcore.encodings.base import Encoding


class Learned(Encoding):
    """A learned vector per position ID, one table for all levels or one for each.

    Coupled IDs make it position coupling (arXiv 2405.20671), sequential IDs with a random start
    random-start APE, abacus IDs Abacus embeddings (arXiv 2405.17399).
    """

    uses_ids = True
    bounded = True
    offset = "dependent"
    at_test = "the rows of the test IDs; an ID beyond max_position is refused before training"
    first_rows: Tensor

    def __init__(
        self, position: PositionConfig, model: ModelConfig, num_levels: int, rng: torch.Generator
    ):
        super().__init__(position, model, num_levels, rng)
        rows = [limit + 1 for limit in position.level_limits(num_levels)]
        first_rows = [0] * num_levels
        if position.level_tables == "separate":
            first_rows = [sum(rows[:level]) for level in range(num_levels)]
        else:
            rows = [max(rows)]
        tables = [make_table(position.table_init, n, model.d_model, rng) for n in rows]
        self.table = nn.Parameter(torch.cat(tables), requires_grad=not position.freeze_table)
        self.register_buffer("first_rows", torch.tensor(first_rows), persistent=False)

    @classmethod
    def check(cls, position: PositionConfig, model: ModelConfig, num_levels: int) -> None:
        largest = max(position.level_limits(num_levels))
        if position.table_init == "orthogonal" and largest >= model.d_model:
            raise ValueError(
                "position.table_init=orthogonal needs max_position < d_model, "
                f"got {largest} and {model.d_model}"
            )

    def embed(self, ids: Int[Tensor, "B T P"]) -> Float[Tensor, "B T D"]:
        return nn.functional.embedding(ids + self.first_rows, self.table).sum(dim=2)


class Sinusoidal(Encoding):
    """sin and cos of the ID at d_model / 2 frequencies, interleaved (arXiv 1706.03762, sec. 3.5).

    All levels use the same frequencies, so their sum cannot tell levels apart.
    """

    uses_ids = True
    offset = "dependent"
    at_test = "the formula goes on without limit; IDs never seen in training give new vectors"
    frequencies: Tensor

    def __init__(
        self, position: PositionConfig, model: ModelConfig, num_levels: int, rng: torch.Generator
    ):
        super().__init__(position, model, num_levels, rng)
        self.register_buffer("frequencies", make_frequencies(model.d_model, 1e4), persistent=False)

    @classmethod
    def check(cls, position: PositionConfig, model: ModelConfig, num_levels: int) -> None:
        if model.d_model % 2:
            raise ValueError(
                f"position.encoding=sinusoidal needs an even model.d_model, got {model.d_model}"
            )

    def embed(self, ids: Int[Tensor, "B T P"]) -> Float[Tensor, "B T D"]:
        angles = ids.unsqueeze(3) * self.frequencies
        return torch.stack([angles.sin(), angles.cos()], dim=4).flatten(3).sum(dim=2)


def make_frequencies(width: int, base: float) -> Float[Tensor, " N"]:
    """base ** (-2k / width) for k = 0, 1, ..., width / 2 - 1."""
    exponents = torch.arange(0, width, 2, dtype=torch.float64) / width
    return (base**-exponents).float()


def make_table(
    init: str, num_rows: int, width: int, rng: torch.Generator
) -> Float[Tensor, "rows width"]:
    """Initial rows of a position table, each of mean square about 1."""
    if init == "normal":
        return torch.randn(num_rows, width, generator=rng)
    if init == "orthogonal":
        assert num_rows <= width
        return make_orthogonal(width, rng)[:num_rows] * math.sqrt(width)
    # Powers of one rotation. Evenly spaced frequencies make different rows orthogonal as well, so
    # that no two IDs resemble each other by chance, however far apart they are.
    frequencies = (torch.arange(width // 2) + 0.5) * (math.pi / (width // 2))
    phases = torch.rand(width // 2, generator=rng) * 2 * math.pi
    angles = torch.arange(num_rows)[:, None] * frequencies + phases
    rows = torch.zeros(num_rows, width)
    rows[:, : 2 * (width // 2)] = torch.cat([angles.cos(), angles.sin()], dim=1) * math.sqrt(2)
    return rows @ make_orthogonal(width, rng)


def make_orthogonal(width: int, rng: torch.Generator) -> Float[Tensor, "width width"]:
    """A random orthogonal matrix."""
    q, r = torch.linalg.qr(torch.randn(width, width, generator=rng))
    return q * r.diagonal().sign()
