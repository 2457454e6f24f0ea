"""Rules for what a task draws, and where its layout places it."""

import torch
from torch import Tensor

from pcore.config import make_generator
from pcore.conformance.bench import Broken
from pcore.registry import describe_error
from pcore.tasks import Contents, Layout, Symbol, Task
from pcore.tasks.base import NO_ID

LONGER = 12  # a length at which a response may have another number of digits


def is_possible(task: Task, length: int) -> bool:
    try:
        task.check_length(length)
    except ValueError:
        return False
    return True


def hold_layout(task: Task, lengths: list[int]) -> str:
    """What `draw` makes has every symbol that `layout` places, and each is one of contents: in the
    vocabulary, neither BOS nor EOS, nor a separator that `layout` places itself. Of an answer
    nothing is left out.
    """
    posed, largest = task.at_test(), (0, 0)
    if missing := [s for s in (task.bos, task.eos, "=") if s not in task.vocab.index]:
        raise Broken(f"the vocabulary lacks {', '.join(map(repr, missing))}")
    for length in lengths + [LONGER] * is_possible(task, LONGER):
        sizes = torch.tensor(task.sizes_at(length)).expand(32, -1)
        symbols, shapes = require_batch(posed.draw(sizes, make_generator("conformance")), "draw")
        for tokens, shape in zip(symbols, shapes.tolist(), strict=True):
            layout = call_layout(posed, tuple(shape), "shapes of draw")
            _require_contents(task, layout, tokens, f"length {length}", tuple(shape))
        for shape in {tuple(shape) for shape in shapes.tolist()}:
            alike = symbols[(shapes == torch.tensor(shape)).all(dim=1)]
            _require_whole(posed.layout(shape), alike, f"length {length}: shape {shape}")
        call_layout(
            posed,
            posed.largest_shape(length),
            "`largest_shape(self, length, second=None)` (override it if shapes have more numbers)",
        )
        largest = max(largest, (symbols.shape[1], symbols.shape[2]))
    return f"up to {largest[0]} fields of {largest[1]} symbols"


def require_batch(contents: Contents, method: str) -> Contents:
    """Contents with the numbers of dimensions that `Task` documents."""
    for name, tensor, letters in zip(Contents._fields, contents, ("B F W", "B Z"), strict=True):
        if tensor.ndim != len(letters.split()):
            raise Broken(
                f"{method} returned {name} of shape {tuple(tensor.shape)}, expected {letters}"
            )
    return contents


def call_layout(task: Task, shape: tuple[int, ...], source: str) -> Layout:
    """The layout of a shape, if its parts fit together."""
    what = f"layout({shape}), a shape from {source},"
    try:
        layout = task.layout(shape)
    except Exception as error:  # own code may raise anything
        raise Broken(f"{what} raises {describe_error(error)}") from error
    if len(layout.sources) != len(layout.relative_ids):
        raise Broken(f"{what} has other numbers of symbols and IDs")
    for symbol, ids in zip(layout.sources, layout.relative_ids, strict=True):
        if len(ids) != task.num_levels:
            raise Broken(
                f"{what} adds {symbol!r} with {len(ids)} relative IDs instead of "
                f"{task.num_levels}: add(symbol, an ID for each level)"
            )
    for level, ids in zip(task.levels, zip(*layout.relative_ids, strict=True), strict=True):
        if min(ids) < NO_ID or max(ids) < 0:
            raise Broken(
                f"{what} gives level {level!r} the relative IDs {ids}: -1 is none, 0 first"
            )
    if not 0 < layout.num_query < len(layout.sources):
        raise Broken(f"{what} does not say where the query ends: call end_query() after '='")
    if layout.sources[layout.num_query - 1] != "=":
        raise Broken(f"{what} has a query that does not end with '='")
    return layout


def _require_contents(
    task: Task, layout: Layout, tokens: Tensor, what: str, shape: tuple[int, ...]
) -> None:
    """The symbols of one example, by field and index, at the places of its layout."""
    separators = {source for source in layout.sources if isinstance(source, str)}
    num_fields, width = tokens.shape
    for place, symbol in enumerate(layout.sources):
        where = f"{what}: the layout of shape {shape} has {symbol!r}"
        if isinstance(symbol, str):
            if symbol not in task.vocab.index:
                raise Broken(f"{where}, which is not in the vocabulary")
            continue
        if not (0 <= symbol.field < num_fields and 0 <= symbol.index < width):
            raise Broken(f"{where}, but draw makes {num_fields} fields of {width} symbols")
        token = int(tokens[symbol.field, symbol.index])
        if not 0 < token < len(task.vocab):
            last = len(task.vocab) - 1
            raise Broken(f"{where}, where draw puts {token}; 0 is PAD, symbols are 1-{last}")
        if (text := task.vocab.symbols[token]) in (task.bos, task.eos):
            end = "the first or last token of an example"
            raise Broken(f"{where}, where draw puts {token}, which is {text!r}, {end}")
        if text in separators:
            part = "query" if place < layout.num_query else "answer"
            raise Broken(
                f"{what}: the {part} holds {text!r}, which layout places as a separator: draw puts "
                f"{token} at {symbol!r}. Are digits larger than the vocabulary has them? A sign "
                "needs a symbol of its own"
            )


def _require_whole(layout: Layout, alike: Tensor, what: str) -> None:
    """Of a field that the response shows, nothing is left out above what the layout places.

    Only that differs between the examples of a shape: a column that is always 0 says nothing.
    """
    placed = [source for source in layout.sources if isinstance(source, Symbol)]
    shown = {s.field for s in layout.sources[layout.num_query :] if isinstance(s, Symbol)}
    for field in shown:
        end = 1 + max(s.index for s in placed if s.field == field)
        if (alike[:, field, end:] != alike[:1, field, end:]).any():
            raise Broken(
                f"{what}: the layout ends field {field}, which the response shows, before index "
                f"{end}, where draw puts different symbols: is the end of the answer cut off?"
            )
