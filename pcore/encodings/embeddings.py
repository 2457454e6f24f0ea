"""Encodings that add a vector per position ID at the input; levels are summed."""

import itertools
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pcore.encodings.base import Encoding, num_sets
from pcore.settings import ModelConfig, PositionConfig


class Learned(Encoding):
    """A learned vector per position ID, one table for all levels or one for each.

    Coupled IDs make it position coupling (arXiv 2405.20671), sequential IDs with a random start
    random-start APE, abacus IDs Abacus embeddings (arXiv 2405.17399).
    """

    uses_ids = True
    bounded = True
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


class Mixture(Learned):
    """`learned`, but levels are summed with weights that are trained with everything else.

    sum over levels c of w_c * row_c / norm(w), where w = softmax of one logit per level. Divided by
    the Euclidean norm, the sum of unrelated rows has the size of one row whatever the weights are,
    and a gate that has chosen one level is exactly `learned` with that level alone. All weights are
    equal at first, and move at the pace of all other parameters (ten times as fast they chose a
    wrong candidate before anything was learned). With position.ids=candidates it is an attempt to
    *find* a coupling; with coupled IDs it weighs the levels of the task. The same weights act in
    training and at test time: nothing is sharpened or cut off.
    """

    def __init__(
        self, position: PositionConfig, model: ModelConfig, num_levels: int, rng: torch.Generator
    ):
        super().__init__(position, model, num_levels, rng)
        # One level leaves nothing to weigh: no parameter that could not learn anything.
        self.gate = nn.Parameter(torch.zeros(num_levels)) if num_levels > 1 else None

    def weights(self) -> Float[Tensor, " P"]:
        """The share of each level; they add up to 1. The levels' names: `positions.level_names`."""
        if self.gate is None:
            return self.table.new_ones(1)
        return self.gate.softmax(dim=0)

    def embed(self, ids: Int[Tensor, "B T P"]) -> Float[Tensor, "B T D"]:
        rows = nn.functional.embedding(ids + self.first_rows, self.table)
        return torch.einsum("btpd,p->btd", rows, nn.functional.normalize(self.weights(), dim=0))


class Residues(Encoding):
    """The sum over rings of row ID mod m of a table of m trained rows; a row of its own for no ID.

    A residue number system: pairwise coprime moduli tell as many IDs apart as their product says
    (Chinese remainder theorem), with sum(m) rows instead of one for each ID, and every row is
    trained all the time. How far it reaches: two IDs agree in the rings whose modulus divides their
    distance. The least distance at which they agree in all rings but one is product / largest
    modulus (693 for 7, 9, 11, 13 with 9,009 IDs): there confusions begin, long before IDs repeat.
    With position.start=wrapped and max_position = product the circle closes without a seam.

    Initially a ring is the powers of one rotation: its discrete Fourier transform without the
    constant, m - 1 dimensions orthogonal to those of all other rings, seen through one random
    orthogonal matrix. Any two rows of a ring are equally far apart. A row has the norm
    sqrt(d_model / number of rings), so a sum of rows that of a row of other tables.
    """

    uses_ids = True
    bounded = True
    needs: ClassVar[dict[str, Any]] = {"position.moduli": (5, 7, 8, 9)}
    moduli: Tensor
    first_rows: Tensor
    rows_without_id: Tensor

    def __init__(
        self, position: PositionConfig, model: ModelConfig, num_levels: int, rng: torch.Generator
    ):
        super().__init__(position, model, num_levels, rng)
        moduli, width = position.moduli, model.d_model
        tables: list[Tensor] = []
        for _ in range(num_sets(position, num_levels)):
            without_id = torch.randn(1, width, generator=rng)
            tables += [without_id, make_rings(moduli, width) @ make_orthogonal(width, rng)]
        self.table = nn.Parameter(torch.cat(tables), requires_grad=not position.freeze_table)
        size = 1 + sum(moduli)  # rows of one level: no ID, then ring after ring
        starts = torch.arange(num_levels) * size * (position.level_tables == "separate")
        rings = torch.tensor([0, *itertools.accumulate(moduli[:-1])])
        for name, buffer in {
            "moduli": torch.tensor(moduli),
            "rows_without_id": starts,
            "first_rows": 1 + starts.unsqueeze(1) + rings,
        }.items():
            self.register_buffer(name, buffer, persistent=False)

    @classmethod
    def check(cls, position: PositionConfig, model: ModelConfig, num_levels: int) -> None:
        moduli, text = position.moduli, ",".join(map(str, position.moduli))
        if not moduli:
            raise ValueError(
                "position.encoding=residues needs position.moduli, for example 7,9,11,13"
            )
        if min(moduli) < 2:
            raise ValueError(f"position.moduli={text} holds {min(moduli)}, which is below 2")
        for first, second in itertools.combinations(moduli, 2):
            if (factor := math.gcd(first, second)) > 1:
                raise ValueError(
                    f"position.moduli={text}: {first} and {second} have the factor {factor} in "
                    "common, so together they tell fewer IDs apart than their product"
                )
        if (needed := sum(moduli) - len(moduli)) > model.d_model:
            raise ValueError(
                f"position.moduli={text} needs {needed} dimensions (each modulus less 1), "
                f"model.d_model={model.d_model} has fewer"
            )
        largest, product = max(position.level_limits(num_levels)), math.prod(moduli)
        if largest > product:
            raise ValueError(
                f"position.max_position={largest} is above {product}, "
                f"as many IDs as position.moduli={text} tells apart"
            )

    def embed(self, ids: Int[Tensor, "B T P"]) -> Float[Tensor, "B T D"]:
        rows = ids.unsqueeze(3) % self.moduli + self.first_rows
        rings = nn.functional.embedding(rows, self.table).sum(dim=3)
        without_id = nn.functional.embedding(self.rows_without_id, self.table)
        return torch.where((ids == 0).unsqueeze(3), without_id, rings).sum(dim=2)


class Sinusoidal(Encoding):
    """sin and cos of the ID at d_model / 2 frequencies, interleaved (arXiv 1706.03762, sec. 3.5).

    All levels use the same frequencies, so their sum cannot tell levels apart.
    """

    uses_ids = True
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


def make_rings(moduli: Sequence[int], width: int) -> Float[Tensor, "rows width"]:
    """The rows of all rings one below the other, each ring in m - 1 dimensions of its own.

    Frequencies 1, 2, ... of a ring are a plane each; half of an even modulus is a single dimension.
    """
    rows, first_row, first_column = torch.zeros(sum(moduli), width), 0, 0
    for m in moduli:
        angles = torch.arange(m).outer(torch.arange(1, (m - 1) // 2 + 1)) * (2 * math.pi / m)
        parts = [angles.cos() * math.sqrt(2), angles.sin() * math.sqrt(2)]
        if m % 2 == 0:
            parts.append(1.0 - 2.0 * (torch.arange(m) % 2).unsqueeze(1))
        ring = torch.cat(parts, dim=1) * math.sqrt(width / (len(moduli) * (m - 1)))
        rows[first_row : first_row + m, first_column : first_column + m - 1] = ring
        first_row, first_column = first_row + m, first_column + m - 1
    return rows
