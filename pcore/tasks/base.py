"""What a task is: contents (numbers, boards, strings) and layouts (order of tokens, shared IDs).

A task decides *which tokens share a position ID*, not where counting starts or how an ID acts in
the model.

- `draw` makes the random contents of many examples at once: a tensor of tokens with axes (example,
  field, index), for instance field 0 = first operand, index k = its digit of significance k.
- `layout` lists in plain Python, for one shape (digit counts, board sides ...), the symbols in
  order and the relative ID of each on each level.

`sample` and `encode` combine the two, so the readable layout is the only definition of the format,
and a batch costs a few table look-ups. Tokens fit in a byte (`vocab.MAX_SYMBOLS`), so contents are
computed in uint8, which is fast; `Batch` is int64, as the model needs it.
Source of all formats: Cho et al. (arXiv 2405.20671 and 2410.15787).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

from pcore import lazy_torch as torch
from pcore.tasks.digits import draw_integers
from pcore.vocab import BOUNDARY, PAD, Vocab

if TYPE_CHECKING:
    from jaxtyping import Bool, Int, Int64, UInt8
    from torch import Tensor

NO_ID = -1  # the relative ID of a token that carries none


class Batch(NamedTuple):
    """Examples, right-padded. B examples, T tokens, P levels."""

    tokens: Int64[Tensor, "B T"]  # vocabulary indices, PAD = 0 after the last token
    relative_ids: Int64[Tensor, "B T P"]  # -1 where a token has none (BOS, EOS, PAD)
    response_mask: Bool[Tensor, "B T"]  # True on targets: every response token and the final EOS


@dataclass(frozen=True, slots=True)
class Symbol:
    """The content symbol of an example at (field, index)."""

    field: int
    index: int


@dataclass(slots=True)
class Layout:
    """One format for one shape, in the order of the tokens, without BOS and EOS."""

    sources: list[str | Symbol] = field(default_factory=list)  # constant and content symbols
    relative_ids: list[tuple[int, ...]] = field(default_factory=list)  # by level
    num_query: int = 0  # tokens up to and including '='

    def add(self, source: str | Symbol, *ids: int) -> None:
        """Append a constant symbol or a content symbol with its relative ID on each level."""
        self.sources.append(source)
        self.relative_ids.append(ids)

    def end_query(self) -> None:
        """Everything added from here on is response."""
        self.num_query = len(self.sources)


class Contents(NamedTuple):
    """Drawn or parsed examples.

    F and W may differ between calls (they follow the largest example); `layout` must not use them.
    """

    symbols: UInt8[Tensor, "B F W"]  # tokens by field and index
    shapes: Int[Tensor, "B Z"]  # what `layout` takes


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """Base of all tasks. A task is its own frozen configuration: its fields are `task.*` options.

    Sizes are the lengths an example is made from, one column per independent length ("B S"): digit
    counts of every operand, string length, height and width. `size_names` names what `length` and
    `second_length` mean.
    """

    size_names: ClassVar[tuple[str, ...]] = ("length",)
    separator: ClassVar[str] = ""  # between the symbols of decoded text

    @property
    @abstractmethod
    def vocab(self) -> Vocab:
        """All symbols of the task, PAD first."""

    @property
    def bos(self) -> str:
        return BOUNDARY

    @property
    def eos(self) -> str:
        return BOUNDARY

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of the independent streams of IDs."""
        return ("position",)

    @property
    def has_coupling(self) -> bool:
        """False for formats that are only meant for sequential IDs or none (index hints)."""
        return True

    @property
    def num_levels(self) -> int:
        """P, the number of independent streams of IDs."""
        return len(self.levels)

    # What a task defines ------------------------------------------------------------------------

    @abstractmethod
    def draw(self, sizes: Int[Tensor, "B S"], rng: torch.Generator) -> Contents:
        """Random contents of the given sizes, on the device of `rng`."""

    @abstractmethod
    def parse(self, query: str) -> Contents:
        """Contents of the single example that a user would type as `query`.

        Raises ValueError with the rule broken.
        """

    @abstractmethod
    def layout(self, shape: tuple[int, ...]) -> Layout:
        """The format of one shape, without BOS and EOS."""

    # What a task with more than one size overrides ---------------------------------------------

    def draw_sizes(
        self, count: int, low: int, high: int, rng: torch.Generator
    ) -> Int[Tensor, "B S"]:
        """Training mixture: sizes of `count` examples with lengths in [low, high]."""
        return draw_integers(low, high, (count, 1), rng)

    def sizes_at(self, length: int, second: int | None = None) -> tuple[int, ...]:
        """The sizes of a test example of exactly this length.

        second: its second length (operands, board width ...); None is the task's default.
        """
        del second
        return (length,)

    def largest_shape(self, length: int, second: int | None = None) -> tuple[int, ...]:
        """The shape with the largest IDs and most tokens that an example of this length has."""
        return self.sizes_at(length, second)

    def default_second(self, length: int) -> int | None:
        """The second length of a test example if none is asked for; None if there is only one."""
        del length
        return None

    def trained_seconds(self, low: int, high: int) -> range | None:
        """Second lengths that training on [low, high] covers; None for tasks with one length."""
        del low, high
        return None

    def check_length(self, length: int) -> None:
        """Raise ValueError if the task cannot pose examples of this length."""
        if length < 1:
            raise ValueError(f"{self.size_names[0]}={length} is below 1")

    def at_test(self) -> Self:
        """The task as evaluation poses it, for tasks whose tokens are randomised in training."""
        return self

    def for_query(self, query: str) -> Self:
        """The task with the options that a typed query decides itself (number of operands ...)."""
        del query
        return self

    # What follows from it -----------------------------------------------------------------------

    def sample(self, sizes: Int[Tensor, "B S"], rng: torch.Generator) -> Batch:
        """Random examples of the given sizes: a mixture in training, a constant in evaluation."""
        return self._assemble(self.draw(sizes, rng))

    def sample_mixture(self, count: int, low: int, high: int, rng: torch.Generator) -> Batch:
        """`count` training examples with lengths in [low, high]."""
        return self.sample(self.draw_sizes(count, low, high, rng), rng)

    def sample_length(
        self, count: int, length: int, rng: torch.Generator, second: int | None = None
    ) -> Batch:
        """`count` test examples of exactly this length."""
        sizes = torch.tensor(self.sizes_at(length, second), device=rng.device).expand(count, -1)
        return self.at_test().sample(sizes, rng)

    def encode(self, query: str) -> Batch:
        """The single example (B = 1) that a user would type as `query`, e.g. "653+49"."""
        return self._assemble(self.parse(query))

    def decode(self, tokens: Int[Tensor, " T"]) -> tuple[str, str]:
        """(query, response) as the tokens stand, without BOS, EOS and PAD."""
        symbols = [
            s for s in self.vocab.decode(tokens.tolist()) if s not in (PAD, self.bos, self.eos)
        ]
        cut = symbols.index("=")
        join = self.separator.join
        return join(symbols[:cut]), join(symbols[cut + 1 :])

    def num_tokens(self, length: int, second: int | None = None) -> int:
        """T of the longest example of this length, BOS and EOS included."""
        return len(self.layout(self.largest_shape(length, second)).sources) + 2

    def max_relative_ids(self, length: int, second: int | None = None) -> tuple[int, ...]:
        """Largest relative ID per level at this length."""
        layout = self.layout(self.largest_shape(length, second))
        return tuple(max(level) for level in zip(*layout.relative_ids, strict=True))

    def _assemble(self, contents: Contents) -> Batch:
        symbols, shapes = contents
        batch, num_fields, width = symbols.shape
        table = _layout_table(self, num_fields, width, str(symbols.device))
        rows, num_tokens = table.find(shapes)
        constants = torch.arange(len(self.vocab), dtype=torch.uint8, device=symbols.device)
        pool = torch.cat([constants.expand(batch, -1), symbols.reshape(batch, -1)], dim=1)
        sources = table.sources[:, :num_tokens].index_select(0, rows)
        return Batch(
            pool.gather(1, sources).long(),
            table.relative_ids[:, :num_tokens].index_select(0, rows),
            table.response_mask[:, :num_tokens].index_select(0, rows),
        )


class _LayoutTable:
    """Layouts of a task as rows of tensors, built on first use of a shape.

    sources: column of an example's pool (all constants, then its content symbols) that each token
    is copied from.
    """

    sources: Int64[Tensor, "R T"]
    relative_ids: Int64[Tensor, "R T P"]
    response_mask: Bool[Tensor, "R T"]

    def __init__(self, task: Task, num_fields: int, width: int, device: str):
        self.task, self.vocab = task, task.vocab
        self.num_fields, self.width, self.device = num_fields, width, device
        self.row_of: dict[tuple[int, ...], int] = {}
        self.rows: list[tuple[Tensor, Tensor, Tensor]] = []

    def find(self, shapes: Int[Tensor, "B Z"]) -> tuple[Int64[Tensor, " B"], int]:
        """The table row of each example's shape, and T of the longest of them."""
        distinct, inverse = _distinct_rows(shapes)
        missing = [shape for shape in distinct if shape not in self.row_of]
        if missing:
            self._extend(missing)
        rows = [self.row_of[shape] for shape in distinct]
        num_tokens = max(len(self.rows[row][0]) for row in rows)
        return torch.tensor(rows, device=self.device)[inverse], num_tokens

    def _extend(self, shapes: list[tuple[int, ...]]) -> None:
        from torch.nn.utils.rnn import pad_sequence

        for shape in shapes:
            self.row_of[shape] = len(self.rows)
            self.rows.append(self._make_row(self.task.layout(shape)))
        sources, relative_ids, masks = (list(column) for column in zip(*self.rows, strict=True))
        pad = self._column(PAD)
        self.sources = pad_sequence(sources, True, pad).to(self.device)
        self.relative_ids = pad_sequence(relative_ids, True, NO_ID).to(self.device)
        self.response_mask = pad_sequence(masks, True, False).to(self.device)

    def _make_row(self, layout: Layout) -> tuple[Tensor, Tensor, Tensor]:
        sources = [self.task.bos, *layout.sources, self.task.eos]
        none = (NO_ID,) * self.task.num_levels
        num_context = 1 + layout.num_query  # BOS and the query, '=' included
        return (
            torch.tensor([self._column(source) for source in sources]),
            torch.tensor([none, *layout.relative_ids, none]),
            torch.arange(len(sources)) >= num_context,
        )

    def _column(self, source: str | Symbol) -> int:
        if isinstance(source, str):
            return self.vocab.index[source]
        assert source.field < self.num_fields, source
        assert source.index < self.width, source
        return len(self.vocab) + source.field * self.width + source.index


@lru_cache(maxsize=256)
def _layout_table(task: Task, num_fields: int, width: int, device: str) -> _LayoutTable:
    return _LayoutTable(task, num_fields, width, device)


def _distinct_rows(
    table: Int[Tensor, "B Z"],
) -> tuple[list[tuple[int, ...]], Int64[Tensor, " B"]]:
    """The distinct rows of a table of small non-negative numbers, and which of them each row is.

    The same as `torch.unique(dim=0)`, an order of magnitude faster.
    """
    radix = table.max() + 1
    inverse = torch.zeros(len(table), dtype=torch.long, device=table.device)
    for column in table.unbind(dim=1):
        _, inverse = torch.unique(inverse * radix + column, return_inverse=True)
    some_row = torch.zeros(int(inverse.max()) + 1, dtype=torch.long, device=table.device)
    some_row[inverse] = torch.arange(len(table), device=table.device)
    return [tuple(row) for row in table[some_row].tolist()], inverse
