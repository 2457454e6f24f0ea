"""Residue rings: an ID as a sum of rows from small tables, one per coprime modulus."""

import itertools
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pcore.config import ModelConfig, PositionConfig
from pcore.encodings.base import Encoding, num_sets
from pcore.encodings.embeddings import make_orthogonal


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
    offset = "dependent"
    at_test = "the sum of the rows of ID mod m; an ID beyond max_position is refused"
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
        check_moduli(moduli, "position.moduli")
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


def check_moduli(moduli: Sequence[int], name: str) -> None:
    """Raise ValueError unless they are above 1 and pairwise coprime; name: what holds them."""
    text = ",".join(map(str, moduli))
    if min(moduli) < 2:
        raise ValueError(f"{name}={text} holds {min(moduli)}, which is below 2")
    for first, second in itertools.combinations(moduli, 2):
        if (factor := math.gcd(first, second)) > 1:
            raise ValueError(
                f"{name}={text}: {first} and {second} have the factor {factor} in common, so "
                "together they tell fewer IDs apart than their product"
            )


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
