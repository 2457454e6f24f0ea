"""Multiplication N x M: with M fixed, or with both lengths free and a scratchpad.

Source: Cho et al., Position Coupling (arXiv 2405.20671), for M = 1 and 2; scratchpad: Arithmetic
Transformers Can Length-Generalize ... (arXiv 2410.15787), appendix.

Without a scratchpad, B is a string of exactly M digits (leading zeros count), and the product is
padded to N + M and reversed. `*` and `=` get 0, the digit of significance k gets k + 1:

    7595*79    tok  $ 7 5 9 5 * 7 9 = 5 0 0 0 0 6 $
               rel  . 4 3 2 1 0 2 1 0 1 2 3 4 5 6 .

With a scratchpad, the response holds the products A * b_j for the digits b_j of B from its ones
digit up, then `=` and the running sums of A * b_j * 10^j, all reversed. L1 couples the digits of A
and of the products, L2 digit j of B with product j and sum j, L3 true significance across products
(moved by j) and sums; a token may have no ID on a level:

    595*79     tok  $ 5 9 5 * 7 9 = 5 5 3 5 + 5 6 1 4 = 5 5 3 5 0 > 5 0 0 7 4 $
               L1   . 3 2 1 . . . 0 1 2 3 4 0 1 2 3 4 . . . . . . . . . . . . .
               L2   . . . . . 1 0 0 0 0 0 0 1 1 1 1 1 0 0 0 0 0 0 1 1 1 1 1 1 .
               L3   . . . . . . . 0 1 2 3 4 1 2 3 4 5 0 1 2 3 4 5 0 1 2 3 4 5 .
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from pcore import lazy_torch as torch
from pcore.tasks.base import NO_ID, Contents, Layout, Symbol, Task
from pcore.tasks.digits import (
    carry_digits,
    digit_row,
    draw_integers,
    draw_numbers,
    draw_small_integers,
    index_mask,
    parse_digits,
    parse_number,
)
from pcore.vocab import BOUNDARY, DIGITS, Vocab, make_vocab

if TYPE_CHECKING:
    from jaxtyping import Int, UInt8
    from torch import Tensor

DEFAULT_SECOND = 2


@dataclass(frozen=True, kw_only=True)
class Multiplication(Task):
    """Product of two numbers A and B. Sizes: digits of A, digits of B.

    second_length: M, the digits of B. With a scratchpad B varies in length as A does, so leave it.
    scratchpad: respond with all partial products and their running sums.
    reverse_query: A and B ones digit first, as the response always is (an ablation; the papers'
        results are without it).
    """

    second_length: int = DEFAULT_SECOND
    scratchpad: bool = False
    reverse_query: bool = False

    size_names: ClassVar[tuple[str, ...]] = ("digits", "second digits")

    def __post_init__(self) -> None:
        if self.second_length < 1:
            raise ValueError(f"second_length={self.second_length} is below 1")
        if self.scratchpad and self.second_length != DEFAULT_SECOND:
            raise ValueError(
                f"second_length={self.second_length} means nothing with scratchpad=True, "
                "where both lengths vary: leave it out"
            )

    @property
    def levels(self) -> tuple[str, ...]:
        return ("first", "second", "significance") if self.scratchpad else ("significance",)

    @property
    def vocab(self) -> Vocab:
        return make_vocab((*DIGITS, "*", *("+>" if self.scratchpad else ""), "=", BOUNDARY))

    def draw_sizes(
        self, count: int, low: int, high: int, rng: torch.Generator
    ) -> Int[Tensor, "B S"]:
        sizes = draw_integers(low, high, (count, 2), rng)
        if not self.scratchpad:
            sizes[:, 1] = self.second_length
        return sizes

    def sizes_at(self, length: int, second: int | None = None) -> tuple[int, ...]:
        return (length, second or self.default_second(length) or self.second_length)

    def default_second(self, length: int) -> int | None:
        return length if self.scratchpad else None

    def trained_seconds(self, low: int, high: int) -> range:
        if self.scratchpad:
            return range(low, high + 1)
        return range(self.second_length, self.second_length + 1)

    # Contents, by significance: field 0 is A, field 1 is B; then the product, or with a scratchpad
    # product j and running sum j for every digit j of B. The shape is (digits of A, digits of B).

    def draw(self, sizes: Int[Tensor, "B S"], rng: torch.Generator) -> Contents:
        first, second = sizes.amax(dim=0).tolist()
        if self.scratchpad:
            numbers = draw_numbers(sizes, max(first, second), rng)
            return self._contents(numbers[:, 0, :first], numbers[:, 1, :second], sizes)
        a = draw_numbers(sizes[:, :1], first, rng)[:, 0]
        b = draw_small_integers(0, 9, (len(sizes), second), rng) * index_mask(sizes[:, 1], second)
        return self._contents(a, b, sizes)

    def parse(self, query: str) -> Contents:
        parts = query.replace(" ", "").split("*")
        if len(parts) != 2:
            raise ValueError(f"multiplication needs two numbers like 7595*79, got {query!r}")
        a = parse_number(parts[0], "the first number")
        if self.scratchpad:
            b = parse_number(parts[1], "the second number")
        else:
            b = parse_digits(parts[1], "the second number")
            if len(b) != self.second_length:
                raise ValueError(
                    f"the second number of {query!r} has {len(b)} digits, "
                    f"second_length={self.second_length}"
                )
        digits = [torch.tensor([digit_row(n, len(n))], dtype=torch.uint8) for n in (a, b)]
        return self._contents(digits[0], digits[1], torch.tensor([[len(a), len(b)]]))

    def for_query(self, query: str) -> Self:
        second_length = len(query.replace(" ", "").partition("*")[2])
        if self.scratchpad or not second_length:
            return self
        return replace(self, second_length=second_length)

    def _contents(
        self, a: UInt8[Tensor, "B N"], b: UInt8[Tensor, "B M"], sizes: Int[Tensor, "B S"]
    ) -> Contents:
        """Digits to symbols; N and M are the largest sizes of the batch."""
        (batch, first), second = a.shape, b.shape[1]
        fields = a.new_zeros(batch, 3 if not self.scratchpad else 2 + 2 * second, first + second)
        fields[:, 0, :first], fields[:, 1, :second] = a, b
        partial = a.t().unsqueeze(1) * b.t().unsqueeze(0).to(torch.int32)  # index, j, example
        if self.scratchpad:
            products = carry_digits(torch.cat([partial, torch.zeros_like(partial[:1])]))
            sums = carry_digits(_shift(products.int(), second - 1).cumsum(dim=1))
            fields[:, 2::2, : first + 1] = products.permute(2, 1, 0)
            fields[:, 3::2] = sums.permute(2, 1, 0)
        else:
            fields[:, 2] = carry_digits(_shift(partial, second).sum(dim=1)).t()
        return Contents(fields + self.vocab.index["0"], sizes)

    def layout(self, shape: tuple[int, ...]) -> Layout:
        first, second = shape
        if self.scratchpad:
            return self._layout_scratchpad(first, second)
        layout = Layout()
        for k in self._order(first):
            layout.add(Symbol(0, k), k + 1)
        layout.add("*", 0)
        for k in self._order(second):
            layout.add(Symbol(1, k), k + 1)
        layout.add("=", 0)
        layout.end_query()
        for k in range(first + second):
            layout.add(Symbol(2, k), k + 1)
        return layout

    def _layout_scratchpad(self, first: int, second: int) -> Layout:
        layout = Layout()
        for k in self._order(first):
            layout.add(Symbol(0, k), k + 1, NO_ID, NO_ID)
        layout.add("*", NO_ID, NO_ID, NO_ID)
        for j in self._order(second):
            layout.add(Symbol(1, j), NO_ID, j, NO_ID)
        for j in range(second):
            layout.add("+" if j else "=", 0, j, j)
            if j == 0:
                layout.end_query()
            for k in range(first + 1):
                layout.add(Symbol(2 + 2 * j, k), k + 1, j, j + k + 1)
        for j in range(second):
            layout.add(">" if j else "=", NO_ID, j, 0)
            for k in range(first + second):
                layout.add(Symbol(3 + 2 * j, k), NO_ID, j, k + 1)
        return layout

    def _order(self, num_digits: int) -> range:
        """Significances of a number of the query in the order of its tokens."""
        return range(num_digits) if self.reverse_query else range(num_digits - 1, -1, -1)


def _shift(columns: Int[Tensor, "W M B"], room: int) -> Int[Tensor, "V M B"]:
    """Row j times 10^j: moved up by j digits, of V = W + room digits."""
    width, count, batch = columns.shape
    shifted = columns.new_zeros(width + room, count, batch)
    for j in range(count):
        shifted[j : j + width, j] = columns[:, j]
    return shifted
