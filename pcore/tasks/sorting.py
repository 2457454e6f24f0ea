"""Sorting digits: a task without a correspondence between positions (ours, not from the papers).

The query is a string of uniform digits, as in `copy`; the response is the same digits in ascending
order. The papers leave open what to couple when a task has less structure than arithmetic. Sorting
is a small such task: a response token depends on the *set* of query tokens, not on some of them.

    coupling=aligned    tok  $ 4 7 1 = 1 4 7 $        coupling=bag    tok  $ 4 7 1 = 1 4 7 $
                        rel  . 1 2 3 0 1 2 3 .                        rel  . 0 0 0 1 2 3 4 .

Why these two. `aligned` is what one would write down without thinking: index i with index i. It is
wrong (the i-th smallest digit can be anywhere), so it shows what a misleading coupling costs. `bag`
says what is true of sorting: the query has no order, so all of it shares one ID, and only the
response is counted. Neither can express which query digit a response digit comes from: that depends
on the values, and IDs which follow the values would hand the answer to the model. `bag` also says
nothing about multiplicity: a model must still count equal digits, which is known to be hard at
lengths that were not trained.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pcore import lazy_torch as torch
from pcore.tasks.base import (
    Contents,
    Layout,
    Symbol,
    Task,
    draw_small_integers,
    index_mask,
    parse_digits,
)
from pcore.vocab import BOUNDARY, DIGITS, Vocab, make_vocab

if TYPE_CHECKING:
    from jaxtyping import Int, UInt8
    from torch import Tensor

ABSENT = 10  # instead of a digit after the end of a string; sorts last


@dataclass(frozen=True, kw_only=True)
class Sorting(Task):
    """Sort a string of digits.

    coupling: aligned = index i with index i; bag = the query has no order and one ID.
    """

    coupling: Literal["aligned", "bag"] = "bag"

    @property
    def vocab(self) -> Vocab:
        return make_vocab((*DIGITS, "=", BOUNDARY))

    # Contents: field 0 the digits, field 1 the digits sorted.

    def draw(self, sizes: Int[Tensor, "B S"], rng: torch.Generator) -> Contents:
        width = int(sizes.max())
        digits = draw_small_integers(0, 9, (len(sizes), width), rng)
        return self._contents(digits.masked_fill_(~index_mask(sizes[:, 0], width), ABSENT), sizes)

    def parse(self, query: str) -> Contents:
        digits = [int(digit) for digit in parse_digits(query, "the string")]
        return self._contents(
            torch.tensor([digits], dtype=torch.uint8), torch.tensor([self.sizes_at(len(digits))])
        )

    def _contents(self, digits: UInt8[Tensor, "B W"], sizes: Int[Tensor, "B S"]) -> Contents:
        symbols = torch.stack([digits, digits.sort(dim=1).values], dim=1)
        return Contents(symbols + self.vocab.index["0"], sizes)

    def layout(self, shape: tuple[int, ...]) -> Layout:
        (length,) = shape
        aligned = self.coupling == "aligned"
        layout = Layout()
        for i in range(length):
            layout.add(Symbol(0, i), i + 1 if aligned else 0)
        layout.add("=", 0 if aligned else 1)
        layout.end_query()
        for i in range(length):
            layout.add(Symbol(1, i), i + 1 if aligned else i + 2)
        return layout
