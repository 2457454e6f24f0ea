"""Addition of two or more operands: six formats, index hints, and the follow-up's scratchpad.

Source: Cho et al., Position Coupling (arXiv 2405.20671), section 3 and appendix; scratchpad: arXiv
2410.15787. `+` and `=` get relative ID 0, the digit of significance k (ones = 0) gets k + 1, in
operands and response alike:

    653+49    tok  $ 6 5 3 + 0 4 9 = 2 0 7 0 $
              rel  . 3 2 1 0 3 2 1 0 1 2 3 4 .

With index hints, every digit follows the hint of its own significance:

    653+49    tok  $ a 0 b 6 c 5 d 3 + a 0 b 0 c 4 d 9 = d 2 c 0 b 7 a 0 $

With a scratchpad the response is the running sums, and a second level tells operands and steps
apart:

    57+48+96  tok  $ 0 5 7 + 0 4 8 + 0 9 6 = 0 0 0 > 7 5 0 > 5 0 1 > 1 0 2 $
              L1   . 3 2 1 0 3 2 1 0 3 2 1 0 1 2 3 0 1 2 3 0 1 2 3 0 1 2 3 .
              L2   . 0 0 0 0 1 1 1 1 2 2 2 0 0 0 0 1 1 1 1 2 2 2 2 3 3 3 3 .
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from string import ascii_lowercase
from typing import TYPE_CHECKING, ClassVar, Self

from pcore import lazy_torch as torch
from pcore.tasks.base import Contents, Layout, Symbol, Task
from pcore.tasks.digits import (
    add_digits,
    carry_digits,
    digit_row,
    draw_integers,
    draw_numbers,
    parse_number,
)
from pcore.vocab import BOUNDARY, DIGITS, Vocab, make_vocab

if TYPE_CHECKING:
    from jaxtyping import Int, UInt8
    from torch import Tensor

MAX_HINTS = 240  # beside the other symbols in a vocabulary of bytes


@dataclass(frozen=True, kw_only=True)
class Addition(Task):
    """Sum of `num_operands` numbers. Sizes: digits of every operand, 0 for an absent one.

    num_operands: operands of an example; with `min_operands`, the most that training draws.
    min_operands: the fewest operands that training draws; 0 means always `num_operands`.
    zero_pad: pad operands to the longest one and the response to its largest possible width.
    reverse_query, reverse_response: ones digit first.
    index_hints: a hint symbol before every digit (baseline of the paper); NoPE or sequential IDs.
    num_hints: size of the hint alphabet.
    random_hints: first hint drawn at random (training) or always the first (evaluation).
    scratchpad: respond with all running sums. In training half of the examples then have one digit
        count for all operands (the follow-up's "partially uniform" sampling).
    """

    num_operands: int = 2
    min_operands: int = 0
    zero_pad: bool = True
    reverse_query: bool = False
    reverse_response: bool = True
    index_hints: bool = False
    num_hints: int = 102
    random_hints: bool = True
    scratchpad: bool = False

    size_names: ClassVar[tuple[str, ...]] = ("digits", "operands")

    def __post_init__(self) -> None:
        if self.num_operands < 2:
            raise ValueError(f"num_operands={self.num_operands} is below 2")
        if self.min_operands and not 2 <= self.min_operands <= self.num_operands:
            raise ValueError(
                f"min_operands={self.min_operands} must be 0 or between 2 and "
                f"num_operands={self.num_operands}"
            )
        if self.reverse_query and not self.reverse_response:
            raise ValueError(
                "reverse_query=True needs reverse_response=True: formats are none, response, all"
            )
        plain = self.zero_pad and self.reverse_response and not self.reverse_query
        for option in ("scratchpad", "index_hints"):
            if getattr(self, option) and not plain:
                raise ValueError(
                    f"{option}=True needs zero_pad=True, reverse_response=True, reverse_query=False"
                )
        if self.index_hints and not 1 <= self.num_hints <= MAX_HINTS:
            raise ValueError(f"num_hints={self.num_hints} is not between 1 and {MAX_HINTS}")
        if self.scratchpad and self.index_hints:
            raise ValueError("scratchpad=True and index_hints=True cannot be combined")
        if self.min_operands and not self.zero_pad:
            raise ValueError("min_operands needs zero_pad=True")

    @property
    def levels(self) -> tuple[str, ...]:
        return ("significance", "operand") if self.scratchpad else ("significance",)

    @property
    def has_coupling(self) -> bool:
        return not self.index_hints

    @property
    def vocab(self) -> Vocab:
        hints = tuple(_hint_name(i) for i in range(self.num_hints)) if self.index_hints else ()
        return make_vocab(
            (*DIGITS, "+", *([">"] if self.scratchpad else []), "=", BOUNDARY, *hints)
        )

    def draw_sizes(
        self, count: int, low: int, high: int, rng: torch.Generator
    ) -> Int[Tensor, "B S"]:
        sizes = draw_integers(low, high, (count, self.num_operands), rng)
        if self.scratchpad:  # partially uniform
            common = draw_integers(low, high, (count, 1), rng)
            shared = draw_integers(0, 1, (count, 1), rng).bool()
            sizes = torch.where(shared, common, sizes)
        if self.min_operands:
            present = draw_integers(self.min_operands, self.num_operands, (count, 1), rng)
            sizes = sizes * (torch.arange(self.num_operands, device=rng.device) < present)
        return sizes

    def sizes_at(self, length: int, second: int | None = None) -> tuple[int, ...]:
        return (length,) * (second or self.num_operands)

    def largest_shape(self, length: int, second: int | None = None) -> tuple[int, ...]:
        count = second or self.num_operands
        if self.zero_pad:
            return (count, length)
        return (count, *(length,) * count, response_width(count, length))

    def trained_seconds(self, low: int, high: int) -> range:
        del low, high
        return range(self.min_operands or self.num_operands, self.num_operands + 1)

    def check_length(self, length: int) -> None:
        super().check_length(length)
        if self.index_hints and length + 1 > self.num_hints:
            raise ValueError(
                f"num_hints={self.num_hints} is below {length + 1}, "
                f"which addition at length {length} needs"
            )

    # Contents, by significance: field 0 is the response, [field 1 the hints,] then the operands;
    # with a scratchpad field 2k is running sum k and field 2k + 1 the operand added after it.
    # So no field depends on the number of operands.

    def draw(self, sizes: Int[Tensor, "B S"], rng: torch.Generator) -> Contents:
        width = response_width(sizes.shape[1], int(sizes.max()))
        operands = draw_numbers(sizes, width, rng)
        first_hint = None
        if self.index_hints:
            longest = sizes.amax(dim=1) + 1
            room = self.num_hints - longest + 1 if self.random_hints else torch.ones_like(longest)
            unit = torch.rand(len(sizes), generator=rng, device=rng.device, dtype=torch.float64)
            first_hint = (unit * room).long()
        return self._contents(operands, sizes, first_hint)

    def parse(self, query: str) -> Contents:
        parts = query.replace(" ", "").split("+")
        if len(parts) < 2:
            raise ValueError(f"addition needs operands joined by '+', like 653+49, got {query!r}")
        numbers = [parse_number(part, "an operand") for part in parts]
        if len(numbers) > self.num_operands or len(numbers) < (
            self.min_operands or self.num_operands
        ):
            raise ValueError(
                f"{query!r} has {len(numbers)} operands, num_operands={self.num_operands}"
            )
        width = response_width(len(numbers), max(map(len, numbers)))
        digits = torch.tensor([[digit_row(n, width) for n in numbers]], dtype=torch.uint8)
        sizes = torch.tensor([[len(n) for n in numbers]])
        self.check_length(int(sizes.max()))
        first_hint = torch.zeros(1, dtype=torch.long) if self.index_hints else None
        return self._contents(digits, sizes, first_hint)

    def for_query(self, query: str) -> Self:
        count = query.count("+") + 1
        return replace(self, num_operands=count, min_operands=0) if count > 1 else self

    def at_test(self) -> Self:
        return replace(self, random_hints=False) if self.random_hints else self

    def _contents(
        self,
        operands: UInt8[Tensor, "B M W"],
        sizes: Int[Tensor, "B M"],
        first_hint: Int[Tensor, " B"] | None,
    ) -> Contents:
        width, vocab = operands.shape[2], self.vocab
        zero = vocab.index["0"]
        num_operands, longest = (sizes > 0).sum(dim=1), sizes.amax(dim=1)
        padded_shapes = torch.stack([num_operands, longest], dim=1)
        if self.scratchpad:
            return Contents(_interleave_sums(operands) + zero, padded_shapes)
        total = add_digits(operands)
        fields = [total.unsqueeze(1) + zero, operands + zero]
        if first_hint is not None:
            steps = longest.unsqueeze(1) - torch.arange(width, device=sizes.device)  # W - 1 - k
            hints = (first_hint.unsqueeze(1) + steps).clamp(min=0) + vocab.index[_hint_name(0)]
            fields.insert(1, hints.unsqueeze(1).to(torch.uint8))
        symbols = torch.cat(fields, dim=1)
        if self.zero_pad:
            return Contents(symbols, padded_shapes)
        counts = torch.arange(1, width + 1, device=sizes.device)
        num_response = ((total > 0) * counts).amax(dim=1).clamp(min=1)
        return Contents(
            symbols, torch.cat([num_operands[:, None], sizes, num_response[:, None]], dim=1)
        )

    def layout(self, shape: tuple[int, ...]) -> Layout:
        if self.scratchpad:
            return self._layout_scratchpad(*shape)
        num_operands, *widths = shape
        if self.zero_pad:
            width = response_width(num_operands, shape[1])
            if self.index_hints and width > shape[1] + 1:
                raise ValueError(f"index hints do not reach: {num_operands} operands are too many")
            widths = [width if self.index_hints else shape[1]] * num_operands + [width]
        layout, operands = Layout(), 2 if self.index_hints else 1

        def add_number(field: int, width: int, is_reversed: bool) -> None:
            for k in range(width) if is_reversed else reversed(range(width)):
                if self.index_hints:
                    layout.add(Symbol(1, k), k + 1)
                layout.add(Symbol(field, k), k + 1)

        for operand in range(num_operands):
            if operand:
                layout.add("+", 0)
            add_number(operands + operand, widths[operand], self.reverse_query)
        layout.add("=", 0 if self.reverse_response else widths[-1] + 1)
        layout.end_query()
        add_number(0, widths[-1], self.reverse_response)
        return layout

    def _layout_scratchpad(self, num_operands: int, length: int) -> Layout:
        width = response_width(num_operands, length)
        layout = Layout()
        for operand in range(num_operands):
            for k in reversed(range(width)):
                layout.add(Symbol(2 * operand + 1, k), k + 1, operand)
            if operand < num_operands - 1:
                layout.add("+", 0, operand)
        for step in range(num_operands + 1):
            layout.add(">" if step else "=", 0, step)
            if step == 0:
                layout.end_query()
            for k in range(width):
                layout.add(Symbol(2 * step, k), k + 1, step)
        return layout


def _interleave_sums(operands: UInt8[Tensor, "B M W"]) -> UInt8[Tensor, "B F W"]:
    """Running sum 0 (zeros), operand 1, running sum 1, operand 2, ...: F = 2M + 1 fields."""
    batch, count, width = operands.shape
    columns = operands.permute(2, 1, 0).contiguous().cumsum(dim=1, dtype=torch.int32)
    fields = operands.new_zeros(batch, 2 * count + 1, width)
    fields[:, 1::2] = operands
    fields[:, 2::2] = carry_digits(columns).permute(2, 1, 0)
    return fields


def response_width(num_operands: int, length: int) -> int:
    """Digits of the largest sum of `num_operands` numbers of `length` digits."""
    if num_operands > 10 ** min(length, 9):
        return len(str(num_operands * (10**length - 1)))
    # M 10^L - M = (M - 1) 10^L + (10^L - M): the digits of M - 1, then L more. Python writes no
    # integer of more than 4,300 digits.
    return length + (len(str(num_operands - 1)) if num_operands > 1 else 0)


def _hint_name(index: int) -> str:
    letter, lap = ascii_lowercase[index % 26], index // 26
    return f"{letter}{lap}" if lap else letter
