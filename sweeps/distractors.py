"""Tasks that show a model far IDs without other problems: controls for packed rows.

Both are sums of two numbers and tested as such; only training differs. Their IDs lie so far apart
that they need residue rings (`position.moduli`), and a wrapped start. Part of their trials'
identity is this file, so a change in it means new runs.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import torch
from jaxtyping import Int
from torch import Tensor

from pcore.tasks import Contents, Layout, Symbol
from pcore.tasks.addition import Addition
from pcore.tasks.digits import draw_integers

STRIDE = 701  # coprime to all moduli in use
NUM_GAPS = 60  # each a multiple of STRIDE, so that there are few layouts


@dataclass(frozen=True, kw_only=True)
class _FarSums(Addition):
    """Sums whose layout has two more numbers in its shape: how much, and a far ID.

    most: of what the subclass draws at random; 0, as in tests, for plain sums.
    """

    most: int = 7

    def draw(self, sizes: Int[Tensor, "B S"], rng: torch.Generator) -> Contents:
        symbols, shapes = super().draw(sizes, rng)
        much = draw_integers(0, self.most, (len(sizes), 1), rng)
        gap = draw_integers(1, NUM_GAPS, (len(sizes), 1), rng) * (much > 0)
        return Contents(symbols, torch.cat([shapes, much, gap], dim=1))

    def parse(self, query: str) -> Contents:
        symbols, shapes = super().parse(query)
        return Contents(symbols, torch.cat([shapes, shapes.new_zeros(1, 2)], dim=1))

    def largest_shape(self, length: int, second: int | None = None) -> tuple[int, ...]:
        return (*super().largest_shape(length, second), *(self.largest if self.most else (0, 0)))

    @property
    @abstractmethod
    def largest(self) -> tuple[int, int]:
        """What makes most tokens and the largest ID."""

    def at_test(self) -> Self:
        return replace(self, most=0)


@dataclass(frozen=True, kw_only=True)
class Gaps(_FarSums):
    """IDs above a random one, at most `most`, have jumped by a random gap, in all numbers alike
    (skipped IDs as in PoSE, Zhu et al., arXiv 2309.10400).
    """

    most: int = 12

    @property
    def largest(self) -> tuple[int, int]:
        return 1, NUM_GAPS

    def layout(self, shape: tuple[int, ...]) -> Layout:
        *plain, above, gap = shape
        layout = super().layout(tuple(plain))
        layout.relative_ids = [
            (i + STRIDE * gap if i > above else i,) for (i,) in layout.relative_ids
        ]
        return layout


@dataclass(frozen=True, kw_only=True)
class Distractors(_FarSums):
    """In front of the query stand up to `most` pieces of random digits, each at far IDs.

    piece: digits of each; 30 tokens has a sum of 1 to 12 digits on average.
    """

    piece: int = 30

    @property
    def largest(self) -> tuple[int, int]:
        return self.most, NUM_GAPS - 1

    def draw(self, sizes: Int[Tensor, "B S"], rng: torch.Generator) -> Contents:
        symbols, shapes = super().draw(sizes, rng)
        if not self.most:
            return Contents(symbols, shapes)
        digits = draw_integers(0, 9, (len(sizes), self.most, self.piece), rng)
        digits += self.vocab.index["0"]
        width = max(self.piece, symbols.shape[2])
        fields = [symbols, digits.to(torch.uint8)]
        padded = [torch.nn.functional.pad(f, (0, width - f.shape[2])) for f in fields]
        return Contents(torch.cat(padded, dim=1), shapes)

    def layout(self, shape: tuple[int, ...]) -> Layout:
        *plain, pieces, gap = shape
        layout, problem = Layout(), super().layout(tuple(plain))
        for piece in range(pieces):
            first = STRIDE * (1 + (gap + 7 * piece) % NUM_GAPS)
            for k in range(self.piece):
                layout.add(Symbol(1 + self.num_operands + piece, k), first + k)
        for place, (source, ids) in enumerate(
            zip(problem.sources, problem.relative_ids, strict=True), 1
        ):
            layout.add(source, *ids)
            if place == problem.num_query:
                layout.end_query()
        return layout
