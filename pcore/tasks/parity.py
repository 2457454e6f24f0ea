"""Parity of a bit string, directly or through all its prefixes.

Source: Cho et al., Position Coupling (arXiv 2405.20671), appendix. Without a scratchpad the
response is the XOR of all bits; every bit and the answer share one ID. With a scratchpad the
response is the XOR of every prefix, coupled with the bit that it takes in:

    1011    tok  $ 1 0 1 1 = 1 $        scratchpad    tok  $ 1 0 1 1 = 1 1 0 1 $
            rel  . 0 0 0 0 1 0 .                      rel  . 1 2 3 4 0 1 2 3 4 .
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
from pcore.vocab import BOUNDARY, Vocab, make_vocab

if TYPE_CHECKING:
    from jaxtyping import Int, UInt8
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Parity(Task):
    """XOR of bits. scratchpad: respond with the XOR of every prefix instead of the whole alone."""

    scratchpad: bool = False

    @property
    def vocab(self) -> Vocab:
        return make_vocab(("0", "1", "=", BOUNDARY))

    # Contents: field 0 the bits, field 1 the XOR of the bits up to and including each index.

    def draw(self, sizes: Int[Tensor, "B S"], rng: torch.Generator) -> Contents:
        bits = draw_small_integers(0, 1, (len(sizes), int(sizes.max())), rng)
        return self._contents(bits, sizes)

    def parse(self, query: str) -> Contents:
        bits = [int(bit) for bit in parse_digits(query, "the string", alphabet="01")]
        return self._contents(
            torch.tensor([bits], dtype=torch.uint8), torch.tensor([self.sizes_at(len(bits))])
        )

    def _contents(self, bits: UInt8[Tensor, "B W"], sizes: Int[Tensor, "B S"]) -> Contents:
        prefixes = bits.cumsum(dim=1, dtype=torch.uint8) & 1  # wrapping at 256 keeps the parity
        return Contents(torch.stack([bits, prefixes], dim=1) + self.vocab.index["0"], sizes)

    def layout(self, shape: tuple[int, ...]) -> Layout:
        (length,) = shape
        layout = Layout()
        for i in range(length):
            layout.add(Symbol(0, i), i + 1 if self.scratchpad else 0)
        layout.add("=", 0 if self.scratchpad else 1)
        layout.end_query()
        if not self.scratchpad:
            layout.add(Symbol(1, length - 1), 0)
            return layout
        for i in range(length):
            layout.add(Symbol(1, i), i + 1)
        return layout
