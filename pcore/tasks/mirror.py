"""Mirror: each digit minus its mirror image; a task that no single coupling fits (ours).

The query is a string of uniform digits, as in `copy`; response digit i is query digit i minus query
digit L - 1 - i, modulo 10:

    471        tok  $ 4 7 1 = 3 0 7 $      4-1 = 3, 7-7 = 0, 1-4 = 7 (mod 10)
               rel  . 0 0 0 0 0 0 0 .

A response digit depends on two query digits, one at the same index and one at the mirrored index. A
single ID per token can couple it with either, not with both and tell which is which; two levels of
IDs can. So the task states no coupling (`has_coupling` is False, all IDs are equal), and whatever
generalizes on it was not designed: it was put here for attempts to *find* a coupling.
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
    from jaxtyping import Int, UInt8
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Mirror(Task):
    """Differences of a string of digits and its mirror image."""

    @property
    def has_coupling(self) -> bool:
        return False

    @property
    def vocab(self) -> Vocab:
        return make_vocab((*DIGITS, "=", BOUNDARY))

    # Contents: field 0 the digits, field 1 the differences.

    def draw(self, sizes: Int[Tensor, "B S"], rng: torch.Generator) -> Contents:
        digits = draw_small_integers(0, 9, (len(sizes), int(sizes.max())), rng)
        return self._contents(digits, sizes)

    def parse(self, query: str) -> Contents:
        digits = [int(digit) for digit in parse_digits(query, "the string")]
        return self._contents(
            torch.tensor([digits], dtype=torch.uint8), torch.tensor([self.sizes_at(len(digits))])
        )

    def _contents(self, digits: UInt8[Tensor, "B W"], sizes: Int[Tensor, "B S"]) -> Contents:
        indices = torch.arange(digits.shape[1], device=digits.device)
        mirrored = digits.gather(1, (sizes - 1 - indices).clamp(min=0))
        differences = (digits + 10 - mirrored) % 10
        return Contents(torch.stack([digits, differences], dim=1) + self.vocab.index["0"], sizes)

    def layout(self, shape: tuple[int, ...]) -> Layout:
        (length,) = shape
        layout = Layout()
        for i in range(length):
            layout.add(Symbol(0, i), 0)
        layout.add("=", 0)
        layout.end_query()
        for i in range(length):
            layout.add(Symbol(1, i), 0)
        return layout
