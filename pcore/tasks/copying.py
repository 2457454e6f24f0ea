"""Copy and reverse: the response is the query, or the query reversed.

Source: Cho et al., Position Coupling (arXiv 2405.20671), appendix. The query is a string of uniform
digits; leading zeros and repeats are allowed. Copy couples index i with index i; reverse counts the
response downward, and `=` is always the neighbour of the first response token:

    copy 471       tok  $ 4 7 1 = 4 7 1 $
                   rel  . 1 2 3 0 1 2 3 .
    reverse 471    tok  $ 4 7 1 = 1 7 4 $
                   rel  . 0 1 2 3 2 1 0 .
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pcore import lazy_torch as torch
from pcore.tasks.base import (
    Contents,
    Layout,
    Symbol,
    Task,
    draw_small_integers,
    parse_digits,
)
from pcore.vocab import BOUNDARY, DIGITS, Vocab, make_vocab

if TYPE_CHECKING:
    from jaxtyping import Int
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Copy(Task):
    """Repeat a string of digits."""

    @property
    def vocab(self) -> Vocab:
        return make_vocab((*DIGITS, "=", BOUNDARY))

    def draw(self, sizes: Int[Tensor, "B S"], rng: torch.Generator) -> Contents:
        digits = draw_small_integers(0, 9, (len(sizes), 1, int(sizes.max())), rng)
        return Contents(digits + self.vocab.index["0"], sizes)

    def parse(self, query: str) -> Contents:
        tokens = self.vocab.encode(parse_digits(query, "the string"))
        return Contents(
            torch.tensor([[tokens]], dtype=torch.uint8), torch.tensor([self.sizes_at(len(tokens))])
        )

    def layout(self, shape: tuple[int, ...]) -> Layout:
        (length,) = shape
        layout = Layout()
        for i in range(length):
            layout.add(Symbol(0, i), i + 1)
        layout.add("=", 0)
        layout.end_query()
        for i in range(length):
            layout.add(Symbol(0, i), i + 1)
        return layout


@dataclass(frozen=True, kw_only=True)
class Reverse(Copy):
    """Repeat a string of digits back to front."""

    def layout(self, shape: tuple[int, ...]) -> Layout:
        (length,) = shape
        layout = Layout()
        for i in range(length):
            layout.add(Symbol(0, i), i)
        layout.add("=", length)
        layout.end_query()
        for i in reversed(range(length)):
            layout.add(Symbol(0, i), i)
        return layout
