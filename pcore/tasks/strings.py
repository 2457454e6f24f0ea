"""Tasks on a string of symbols: copy, reverse, parity, sorting, mirror. `StringTask` is their base.

**Copy and reverse** (Cho et al., Position Coupling, arXiv 2405.20671, appendix): a string of
digits, uniform; leading zeros and repeats are allowed. Copy couples index i with index i; reverse
counts the response downward, and `=` is always the neighbour of the first response token:

    copy 471       tok  $ 4 7 1 = 4 7 1 $        reverse 471    tok  $ 4 7 1 = 1 7 4 $
                   rel  . 1 2 3 0 1 2 3 .                       rel  . 0 1 2 3 2 1 0 .

**Parity** (the same): the response is the XOR of all bits, every bit and the answer share one ID;
with a scratchpad it is the XOR of every prefix, coupled with the bit that it takes in:

    1011           tok  $ 1 0 1 1 = 1 $          scratchpad     tok  $ 1 0 1 1 = 1 1 0 1 $
                   rel  . 0 0 0 0 1 0 .                         rel  . 1 2 3 4 0 1 2 3 4 .

**Sorting** (ours): the digits in ascending order, a task without a correspondence between
positions. The papers leave open what to couple when a task has less structure than arithmetic: here
a response token depends on the *set* of query tokens, not on some of them.

    aligned        tok  $ 4 7 1 = 1 4 7 $        bag            tok  $ 4 7 1 = 1 4 7 $
                   rel  . 1 2 3 0 1 2 3 .                       rel  . 0 0 0 1 2 3 4 .

`aligned` is what one would write down without thinking. It is wrong (the i-th smallest digit can be
anywhere), so it shows what a misleading coupling costs. `bag` says what is true of sorting: the
query has no order, so all of it shares one ID. Neither can express which query digit a response
digit comes from: IDs which follow the values would hand the answer to the model. A model must still
count equal digits, which is known to be hard at lengths that were not trained.

**Mirror** (ours): response digit i is query digit i minus query digit L - 1 - i, modulo 10.

    471            tok  $ 4 7 1 = 3 0 7 $        4-1 = 3, 7-7 = 0, 1-4 = 7 (mod 10)
                   rel  . 0 0 0 0 0 0 0 .

A response digit depends on two query digits, at the same and at the mirrored index. A single ID per
token can couple it with either, not with both and tell which is which; two levels can. So the task
states no coupling, and whatever generalizes on it was not designed: it was put here for attempts to
*find* a coupling.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from pcore import lazy_torch as torch
from pcore.tasks.base import Contents, Layout, Symbol, Task
from pcore.tasks.digits import draw_small_integers, index_mask, parse_digits
from pcore.vocab import BOUNDARY, DIGITS, Vocab, make_vocab

if TYPE_CHECKING:
    from jaxtyping import Int, UInt8
    from torch import Tensor

ABSENT = 10  # instead of a digit after the end of a string; sorts last

# Of the query tokens, of '=', and index and ID of the response tokens in their order.
Ids: TypeAlias = tuple[Sequence[int], int, Sequence[tuple[int, int]]]


@dataclass(frozen=True, kw_only=True)
class StringTask(Task):
    """The query is a string of uniform symbols of an alphabet, the response follows from it."""

    alphabet: ClassVar[str] = DIGITS

    @property
    def vocab(self) -> Vocab:
        return make_vocab((*self.alphabet, "=", BOUNDARY))

    @abstractmethod
    def respond(
        self, symbols: UInt8[Tensor, "B W"], sizes: Int[Tensor, "B S"]
    ) -> UInt8[Tensor, "B W"]:
        """The response to strings, as indices into the alphabet like the strings."""

    @abstractmethod
    def ids(self, length: int) -> Ids:
        """The relative IDs at this length; which symbols of `respond` are the response."""

    def draw(self, sizes: Int[Tensor, "B S"], rng: torch.Generator) -> Contents:
        shape = (len(sizes), int(sizes.max()))
        return self._contents(draw_small_integers(0, len(self.alphabet) - 1, shape, rng), sizes)

    def parse(self, query: str) -> Contents:
        symbols = [int(symbol) for symbol in parse_digits(query, "the string", self.alphabet)]
        sizes = torch.tensor([self.sizes_at(len(symbols))])
        return self._contents(torch.tensor([symbols], dtype=torch.uint8), sizes)

    def _contents(self, symbols: UInt8[Tensor, "B W"], sizes: Int[Tensor, "B S"]) -> Contents:
        """Field 0 the string, field 1 the response."""
        fields = torch.stack([symbols, self.respond(symbols, sizes)], dim=1)
        return Contents(fields + self.vocab.index[self.alphabet[0]], sizes)

    def layout(self, shape: tuple[int, ...]) -> Layout:
        query, equals, response = self.ids(shape[0])
        layout = Layout()
        for index, number in enumerate(query):
            layout.add(Symbol(0, index), number)
        layout.add("=", equals)
        layout.end_query()
        for index, number in response:
            layout.add(Symbol(1, index), number)
        return layout


@dataclass(frozen=True, kw_only=True)
class Copy(StringTask):
    """Repeat a string of digits."""

    def respond(
        self, symbols: UInt8[Tensor, "B W"], sizes: Int[Tensor, "B S"]
    ) -> UInt8[Tensor, "B W"]:
        del sizes
        return symbols

    def ids(self, length: int) -> Ids:
        return aligned(length)


@dataclass(frozen=True, kw_only=True)
class Reverse(Copy):
    """Repeat a string of digits back to front."""

    def ids(self, length: int) -> Ids:
        return range(length), length, [(i, i) for i in reversed(range(length))]


@dataclass(frozen=True, kw_only=True)
class Parity(StringTask):
    """XOR of bits. scratchpad: respond with the XOR of every prefix instead of the whole alone."""

    scratchpad: bool = False

    alphabet: ClassVar[str] = "01"

    def respond(
        self, symbols: UInt8[Tensor, "B W"], sizes: Int[Tensor, "B S"]
    ) -> UInt8[Tensor, "B W"]:
        del sizes
        return symbols.cumsum(dim=1, dtype=torch.uint8) & 1  # wrapping at 256 keeps the parity

    def ids(self, length: int) -> Ids:
        return aligned(length) if self.scratchpad else ([0] * length, 1, [(length - 1, 0)])


@dataclass(frozen=True, kw_only=True)
class Sorting(StringTask):
    """Sort a string of digits.

    coupling: aligned = index i with index i; bag = the query has no order and one ID.
    """

    coupling: Literal["aligned", "bag"] = "bag"

    def respond(
        self, symbols: UInt8[Tensor, "B W"], sizes: Int[Tensor, "B S"]
    ) -> UInt8[Tensor, "B W"]:
        inside = index_mask(sizes[:, 0], symbols.shape[1])
        return symbols.masked_fill(~inside, ABSENT).sort(dim=1).values

    def ids(self, length: int) -> Ids:
        if self.coupling == "aligned":
            return aligned(length)
        return [0] * length, 1, [(i, i + 2) for i in range(length)]


@dataclass(frozen=True, kw_only=True)
class Mirror(StringTask):
    """Differences of a string of digits and its mirror image."""

    @property
    def has_coupling(self) -> bool:
        return False

    def respond(
        self, symbols: UInt8[Tensor, "B W"], sizes: Int[Tensor, "B S"]
    ) -> UInt8[Tensor, "B W"]:
        indices = torch.arange(symbols.shape[1], device=symbols.device)
        mirrored = symbols.gather(1, (sizes - 1 - indices).clamp(min=0))
        return (symbols + 10 - mirrored) % 10

    def ids(self, length: int) -> Ids:
        return [0] * length, 0, [(i, 0) for i in range(length)]


def aligned(length: int) -> Ids:
    """Index i with index i, '=' before both."""
    return range(1, length + 1), 0, [(i, i + 1) for i in range(length)]
