"""What a task is: contents (numbers, boards, strings) and layouts (the order of tokens and who shares an ID).

A task answers *which tokens share a position ID*. It never knows where counting starts or how an ID acts in the model.

- `draw` makes the random contents of many examples at once: a tensor of tokens with axes (example, field, index), for
  instance field 0 = first operand, index k = its digit of significance k.
- `layout` says in plain Python, for one shape (digit counts, board sides ...), which content symbol stands at each place
  and which relative ID it carries on each level.

`sample` and `encode` combine the two, so the readable layout is the only definition of the format, and a batch costs a few
table look-ups. Source of all formats: Cho et al. (arXiv 2405.20671 and 2410.15787).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, NamedTuple, Self

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from pcore.vocab import BOUNDARY, PAD, Vocab

NO_ID = -1  # the relative ID of a token that carries none


class Batch(NamedTuple):
    """Examples, right-padded. B examples, T tokens, P levels.

    tokens: vocabulary indices, PAD = 0 behind the last token.
    relative_ids: coupling index per level, -1 where a token has none (BOS, EOS, PAD).
    response_mask: True on the targets: every response token and the final EOS.
    """

    tokens: Int[Tensor, "B T"]
    relative_ids: Int[Tensor, "B T P"]
    response_mask: Bool[Tensor, "B T"]


class Symbol(NamedTuple):
    """The content symbol at (field, place) of an example."""

    field: int
    place: int


@dataclass(slots=True)
class Layout:
    """One format for one shape: what stands at each place, in the order of the tokens."""

    sources: list[str | Symbol] = field(default_factory=list)
    relative_ids: list[tuple[int, ...]] = field(default_factory=list)
    num_query: int = 0  # tokens up to and including '='

    def add(self, source: str | Symbol, *ids: int) -> None:
        """Append a constant symbol or a content symbol with its relative ID on each level."""
        self.sources.append(source)
        self.relative_ids.append(ids)

    def end_query(self) -> None:
        """Everything added from here on is response."""
        self.num_query = len(self.sources)

    @property
    def max_relative_ids(self) -> tuple[int, ...]:
        return tuple(max(level) for level in zip(*self.relative_ids, strict=True))


class Contents(NamedTuple):
    """Drawn or parsed examples: symbols (tokens) "B F W" and the layout shape of each example "B Z"."""

    symbols: Int[Tensor, "B F W"]
    shapes: Int[Tensor, "B Z"]


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """Base of all tasks. A task is its own frozen configuration; its fields are the options of `task.*`.

    Sizes are the lengths an example is made from, one column per independent length ("B S"): digit counts of every
    operand, string length, height and width. `size_names` names what `length` and `second_length` mean.
    """

    size_names: ClassVar[tuple[str, ...]] = ("length",)

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

    # What a task defines -------------------------------------------------------------------------------------------

    @abstractmethod
    def draw_sizes(
        self, count: int, low: int, high: int, rng: torch.Generator
    ) -> Int[Tensor, "B S"]:
        """Training mixture: sizes of `count` examples with lengths in [low, high]."""

    @abstractmethod
    def sizes_at(self, length: int, second: int | None = None) -> tuple[int, ...]:
        """The sizes of a test example of exactly this length (and second length; None is the task's default)."""

    @abstractmethod
    def draw(self, sizes: Int[Tensor, "B S"], rng: torch.Generator) -> Contents:
        """Random contents of the given sizes, on the device of `rng`."""

    @abstractmethod
    def parse(self, query: str) -> Contents:
        """Contents of the one example that a person would type as `query`. Raises ValueError with the rule broken."""

    @abstractmethod
    def layout(self, shape: tuple[int, ...]) -> Layout:
        """The format of one shape, without BOS and EOS."""

    @abstractmethod
    def largest_shape(self, length: int, second: int | None = None) -> tuple[int, ...]:
        """The shape with the largest IDs and most tokens that an example of this length can have."""

    def default_second(self, length: int) -> int | None:
        """The second length of a test example when none is asked for; None for tasks with one length."""
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
        """The task with those options that a typed query decides by itself (number of operands, for instance)."""
        del query
        return self

    # What follows from it ------------------------------------------------------------------------------------------

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
        """The one example (B = 1) that a person would type as `query`, e.g. "653+49"."""
        return self._assemble(self.parse(query))

    def decode(self, tokens: Int[Tensor, " T"]) -> tuple[str, str]:
        """(query, response) as the tokens stand, without BOS, EOS and PAD."""
        symbols = [
            s for s in self.vocab.decode(tokens.tolist()) if s not in (PAD, self.bos, self.eos)
        ]
        cut = symbols.index("=")
        return "".join(symbols[:cut]), "".join(symbols[cut + 1 :])

    def num_tokens(self, length: int, second: int | None = None) -> int:
        """T of the longest example of this length, BOS and EOS included."""
        return len(self.layout(self.largest_shape(length, second)).sources) + 2

    def max_relative_ids(self, length: int, second: int | None = None) -> tuple[int, ...]:
        """Largest relative ID per level at this length."""
        return self.layout(self.largest_shape(length, second)).max_relative_ids

    def _assemble(self, contents: Contents) -> Batch:
        symbols, shapes = contents
        num_rows, num_fields, width = symbols.shape
        table = _layout_table(self, num_fields, width, str(symbols.device))
        rows = table.rows_of(shapes)
        num_tokens = int(table.num_tokens[rows].max())
        constants = torch.arange(len(self.vocab), device=symbols.device).expand(num_rows, -1)
        pool = torch.cat([symbols.reshape(num_rows, -1), constants], dim=1)
        return Batch(
            pool.gather(1, table.sources[:, :num_tokens].index_select(0, rows)),
            table.relative_ids[:, :num_tokens].index_select(0, rows),
            table.response_mask[:, :num_tokens].index_select(0, rows),
        )


class _LayoutTable:
    """Layouts of a task as rows of tensors, built on first use of a shape."""

    def __init__(self, task: Task, num_fields: int, width: int, device: str):
        self.task, self.width, self.device = task, width, device
        self.first_constant = num_fields * width
        self.row_of: dict[tuple[int, ...], int] = {}
        self.sources = torch.zeros(0, 0, dtype=torch.long, device=device)
        self.relative_ids = torch.zeros(0, 0, task.num_levels, dtype=torch.long, device=device)
        self.response_mask = torch.zeros(0, 0, dtype=torch.bool, device=device)
        self.num_tokens = torch.zeros(0, dtype=torch.long, device=device)

    def rows_of(self, shapes: Int[Tensor, "B Z"]) -> Int[Tensor, " B"]:
        """The table row of each example's shape."""
        radix = int(shapes.max()) + 1
        key = shapes[:, 0]
        for column in range(1, shapes.shape[1]):
            key = key * radix + shapes[:, column]
        keys, inverse = torch.unique(key, return_inverse=True)
        distinct = []
        for value in keys.tolist():
            shape = []
            for _ in range(shapes.shape[1]):
                value, digit = divmod(value, radix)
                shape.append(digit)
            distinct.append(tuple(reversed(shape)))
        if missing := [shape for shape in distinct if shape not in self.row_of]:
            self._extend(missing)
        rows = torch.tensor([self.row_of[shape] for shape in distinct], device=self.device)
        return rows[inverse]

    def _extend(self, shapes: Sequence[tuple[int, ...]]) -> None:
        layouts = [self.task.layout(shape) for shape in shapes]
        old, num_levels = self.sources.shape[1], self.task.num_levels
        num_tokens = max(old, *(len(layout.sources) + 2 for layout in layouts))
        pad = self._column(PAD)
        sources, relative_ids, response_mask, lengths = [], [], [], []
        for layout in layouts:
            length = len(layout.sources)
            fill = num_tokens - length - 2
            columns = [self._column(source) for source in layout.sources]
            sources.append(
                [self._column(self.task.bos), *columns, self._column(self.task.eos), *[pad] * fill]
            )
            none = [(NO_ID,) * num_levels]
            relative_ids.append([*none, *layout.relative_ids, *none * (fill + 1)])
            num_targets = length - layout.num_query + 1
            response_mask.append(
                [False] * (layout.num_query + 1) + [True] * num_targets + [False] * fill
            )
            lengths.append(length + 2)
        for shape in shapes:
            self.row_of[shape] = len(self.row_of)
        grow = num_tokens - old
        pad_last = torch.nn.functional.pad
        device = self.device
        self.sources = torch.cat(
            [pad_last(self.sources, (0, grow), value=pad), torch.tensor(sources, device=device)]
        )
        self.relative_ids = torch.cat(
            [
                pad_last(self.relative_ids, (0, 0, 0, grow), value=NO_ID),
                torch.tensor(relative_ids, device=device),
            ]
        )
        self.response_mask = torch.cat(
            [pad_last(self.response_mask, (0, grow)), torch.tensor(response_mask, device=device)]
        )
        self.num_tokens = torch.cat([self.num_tokens, torch.tensor(lengths, device=device)])

    def _column(self, source: str | Symbol) -> int:
        if isinstance(source, str):
            return self.first_constant + self.task.vocab.index[source]
        return source.field * self.width + source.place


@lru_cache(maxsize=256)
def _layout_table(task: Task, num_fields: int, width: int, device: str) -> _LayoutTable:
    return _LayoutTable(task, num_fields, width, device)


def draw_integers(low: int, high: int, shape: tuple[int, ...], rng: torch.Generator) -> Tensor:
    """Uniform integers in [low, high], both ends included, on the device of `rng`."""
    return torch.randint(low, high + 1, shape, generator=rng, device=rng.device)


def add_digits(digits: Int[Tensor, "B M W"]) -> Int[Tensor, "B W"]:
    """Decimal digits of the sum of M numbers, ones digit at index 0; W must hold the result."""
    columns = digits.sum(dim=1).t().contiguous()
    carry = torch.zeros_like(columns[0])
    for column in columns:
        column += carry
        torch.div(column, 10, rounding_mode="floor", out=carry)
        column -= carry * 10
    return columns.t()


def draw_numbers(
    num_digits: Int[Tensor, "B M"], width: int, rng: torch.Generator
) -> Int[Tensor, "B M W"]:
    """Uniform numbers of exactly these digit counts (one-digit numbers may be 0), ones digit at index 0."""
    batch, count = num_digits.shape
    digits = draw_integers(0, 9, (batch, count, width), rng)
    leading = draw_integers(1, 9, (batch, count, 1), rng)
    last = (num_digits - 1).clamp(min=0).unsqueeze(2)
    digits.scatter_(2, last, torch.where(last > 0, leading, digits[:, :, :1]))
    return digits * (torch.arange(width, device=rng.device) < num_digits.unsqueeze(2))


def parse_number(text: str, what: str) -> str:
    """`text` as decimal digits without leading zeros. Raises ValueError if it is anything else."""
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{what} must be a non-negative decimal number, got {text!r}")
    return text.lstrip("0") or "0"


def digit_row(text: str, width: int) -> list[int]:
    """Digits of a decimal number, ones digit first, filled with zeros to `width`."""
    return [int(d) for d in reversed(text)] + [0] * (width - len(text))
