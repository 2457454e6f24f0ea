"""Rules for tasks, checked on the task with its default options."""

from dataclasses import fields, replace
from functools import cached_property
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from pcore.config import TrialConfig, flatten, make_generator, unflatten
from pcore.conformance.bench import NUM_STEPS, Broken, tiny_config, train_tiny
from pcore.registry import describe_error, resolve
from pcore.tasks import TASKS, Batch, Contents, Layout, Symbol, Task
from pcore.tasks.base import NO_ID

LONGER = 12  # a length at which a response may have another number of digits


class TaskBench:
    """The task of a name, made when a rule first needs it, and the lengths that rules use."""

    def __init__(self, name: str):
        self.name = name

    @cached_property
    def task(self) -> Task:
        return resolve(self.name, TASKS, "task")()

    @cached_property
    def lengths(self) -> list[int]:
        """The first three lengths that it admits, fewer if there are not so many below 30."""
        return list(islice((n for n in range(1, 30) if is_possible(self.task, n)), 3))


def is_possible(task: Task, length: int) -> bool:
    try:
        task.check_length(length)
    except ValueError:
        return False
    return True


def constructs(bench: TaskBench) -> str:
    """The task can be part of a configuration, which survives the flat dictionary."""
    hash(bench.task)
    config = TrialConfig(task=bench.task)
    if unflatten(flatten(config)) != config:
        raise Broken("flatten and unflatten do not give the same task back")
    return f"options: {', '.join(f.name for f in fields(bench.task)) or 'none'}"


def poses(bench: TaskBench) -> str:
    if len(bench.lengths) < 3:
        raise Broken("check_length admits fewer than 3 of the lengths 1-29")
    return f"uses lengths {', '.join(map(str, bench.lengths))}"


def hold_layout(bench: TaskBench) -> str:
    """What `draw` makes has every symbol that `layout` places, and each is one of contents: in the
    vocabulary, neither BOS nor EOS, nor a separator that `layout` places itself. Of an answer
    nothing is left out.
    """
    task, posed, largest = bench.task, bench.task.at_test(), (0, 0)
    if missing := [s for s in (task.bos, task.eos, "=") if s not in task.vocab.index]:
        raise Broken(f"the vocabulary lacks {', '.join(map(repr, missing))}")
    for length in bench.lengths + [LONGER] * is_possible(task, LONGER):
        sizes = torch.tensor(task.sizes_at(length)).expand(32, -1)
        symbols, shapes = require_batch(posed.draw(sizes, make_generator("conformance")), "draw")
        for shape in {tuple(shape) for shape in shapes.tolist()}:
            alike = symbols[(shapes == torch.tensor(shape)).all(dim=1)]
            layout, what = call_layout(posed, shape, "shapes of draw"), f"length {length}"
            for tokens in alike:
                _require_contents(task, layout, tokens, f"{what}: the layout of shape {shape}")
            _require_whole(layout, alike, f"{what}: shape {shape}")
        method = "`largest_shape(self, length, second=None)`"
        source = f"{method} (override it if shapes have more numbers)"
        call_layout(posed, posed.largest_shape(length), source)
        largest = max(largest, (symbols.shape[1], symbols.shape[2]))
    return f"up to {largest[0]} fields of {largest[1]} symbols"


def require_batch(contents: Contents, method: str) -> Contents:
    """Contents with the numbers of dimensions that `Task` documents."""
    for name, tensor, letters in zip(Contents._fields, contents, ("B F W", "B Z"), strict=True):
        if tensor.ndim != len(letters.split()):
            shape = tuple(tensor.shape)
            raise Broken(f"{method} returned {name} of shape {shape}, expected {letters}")
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


def _require_contents(task: Task, layout: Layout, tokens: Tensor, what: str) -> None:
    """The symbols of one example, by field and index, at the places of its layout."""
    separators = {source for source in layout.sources if isinstance(source, str)}
    if unknown := separators - {*task.vocab.symbols}:
        raise Broken(f"{what} has {min(unknown)!r}, which is not in the vocabulary")
    num_fields, width = tokens.shape
    for place, symbol in enumerate(layout.sources):
        if isinstance(symbol, str):
            continue
        where = f"{what} has {symbol!r}"
        if not (0 <= symbol.field < num_fields and 0 <= symbol.index < width):
            raise Broken(f"{where}, but draw makes {num_fields} fields of {width} symbols")
        token = int(tokens[symbol.field, symbol.index])
        where = f"{where}, where draw puts {token}"
        if not 0 < token < len(task.vocab):
            raise Broken(f"{where}; 0 is PAD, symbols are 1-{len(task.vocab) - 1}")
        if (text := task.vocab.symbols[token]) in (task.bos, task.eos):
            raise Broken(f"{where}, which is {text!r}, the first or last token of an example")
        if text in separators:
            part = "query" if place < layout.num_query else "answer"
            raise Broken(
                f"{where}: the {part} holds {text!r}, which layout places as a separator. Are "
                "digits larger than the vocabulary has them? A sign needs a symbol of its own"
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


def limits(bench: TaskBench) -> str:
    """No example is larger than stated; the statement decides what `validate` lets through."""
    task, lengths, rng = bench.task, bench.lengths, make_generator("conformance")
    details: list[str] = []
    for length in lengths:
        stated, largest = task.num_tokens(length), task.max_relative_ids(length)
        mixture = task.sample_mixture(64, lengths[0], length, rng)
        for batch in (task.sample_length(64, length, rng), mixture):
            seen = tuple(int(n) for n in batch.relative_ids.amax(dim=(0, 1)))
            if (longest := batch.tokens.shape[1]) > stated:
                raise Broken(f"length {length}: {longest} tokens, num_tokens={stated}")
            if any(s > limit for s, limit in zip(seen, largest, strict=True)):
                raise Broken(f"length {length}: IDs up to {seen}, max_relative_ids={largest}")
        details.append(f"{length}: {stated} tokens, IDs {','.join(map(str, largest))}")
    sizes = [task.num_tokens(length) for length in lengths]
    if sizes != sorted(set(sizes)):
        raise Broken(f"numbers of tokens {sizes} do not rise with lengths {lengths}")
    if len(task.size_names) > 1:
        _require_seconds(task, lengths)
    return "; ".join(details)


def _require_seconds(task: Task, lengths: list[int]) -> None:
    """Test examples have the second length that is asked for, trained or not."""
    length, trained = lengths[-1], task.trained_seconds(lengths[0], lengths[-1])
    if not trained:
        raise Broken("trained_seconds(low, high) names no second lengths, and the task has two")
    last = max(trained)
    if task.sizes_at(length, last) == (same := task.sizes_at(length, last + 1)):
        raise Broken(f"sizes_at({length}, second) is {same} for second = {last} and {last + 1}")
    for second in (last, last + 1):
        batch = task.sample_length(8, length, make_generator("conformance"), second)
        longest, stated = batch.tokens.shape[1], task.num_tokens(length, second)
        if longest > stated:
            where = f"lengths {length} and {second}"
            raise Broken(f"{where}: {longest} tokens, num_tokens={stated}")


def drawn_as_typed(bench: TaskBench) -> str:
    """An example drawn alone or beside longer ones is the one that a user gets who types what
    `decode` shows of its query: nothing but the query, as its tokens stand, decides the answer.

    A text may fit several shapes (a board without its line breaks): read with another shape, only
    the query must come back.
    """
    posed, answers, examples = bench.task.at_test(), dict[str, str](), dict[int, str]()
    for lengths in (*([length] for length in bench.lengths), bench.lengths):
        asked = [length for _ in range(64) for length in lengths]
        sizes = torch.tensor([posed.sizes_at(length) for length in asked])
        drawn = posed.sample(sizes, make_generator("conformance"))
        shown = [posed.decode(tokens) for tokens in drawn.tokens]
        for query, answer in shown:
            if (other := answers.setdefault(query, answer)) != answer:
                raise Broken(
                    f"{query}= has the answers {other} and {answer}: is all that they depend on "
                    "in the layout? What lies beyond an example's size must not change its answer"
                )
        for length, (query, answer), *parts in zip(asked, shown, *drawn, strict=True):
            real = parts[0] != 0
            if (count := int(real.sum())) > (most := posed.num_tokens(length)):
                raise Broken(
                    f"an example of length {length} has {count} tokens beside one of length "
                    f"{max(lengths)}, and at most {most} alone: does draw give each example the "
                    "size that is asked for?"
                )
            typed = type_query(posed, query)
            again = posed.decode(typed.tokens[0])
            if again[0] != query:
                raise Broken(f"the query {query} comes back as {again[0]}")
            if not torch.equal(typed.relative_ids[0], parts[1][real]):
                continue
            for name, one, part in zip(Batch._fields, typed, parts, strict=True):
                if not torch.equal(one[0], part[real]):
                    raise Broken(
                        f"{query}={answer} comes back as {'='.join(again)}: typed it has other "
                        f"{name} than drawn, alone or beside longer ones"
                    )
            examples[length] = f"{query}={answer}"
    if not examples:
        raise Broken(f"no query is read with the shape it was written in, such as {min(answers)}")
    return f"{len(answers)} queries, as {', '.join(examples.values())}"


def type_query(task: Task, query: str) -> Batch:
    """The example that a user gets who types this query."""
    posed = task.for_query(query).at_test()
    require_batch(posed.parse(query), "parse")
    return posed.encode(query)


def expect_answer(bench: TaskBench, query: str, expected: str) -> str:
    """The task gives the answer that the user expects of this query."""
    task = bench.task
    if not task.separator and (unknown := sorted({*expected} - {*task.vocab.symbols})):
        raise Broken(f"expected {expected}, but {' '.join(unknown)} is no symbol of the task")
    shown, answer = task.decode(type_query(task, query).tokens[0])
    if answer == expected:
        return "as expected" if shown == query else f"as expected; the model sees {shown}={answer}"
    hint = ""
    if answer == expected[::-1]:
        hint = ", the same backwards: which order is meant?"
    elif len(answer) != len(expected):
        hint = f", {len(answer)} symbols instead of {len(expected)}"
    raise Broken(f"expected {expected}, but the task says {shown}={answer}{hint}")


def deterministic(bench: TaskBench) -> str:
    """Examples depend on the given generator alone, and leave the global one untouched."""

    def draw(seed: int) -> Tensor:
        rng = make_generator("conformance", seed)
        batch = bench.task.sample_mixture(32, bench.lengths[0], bench.lengths[-1], rng)
        return torch.cat([part.flatten() for part in batch])

    with torch.random.fork_rng():
        torch.manual_seed(1)
        before = torch.get_rng_state()
        first = draw(0)
        if not torch.equal(before, torch.get_rng_state()):
            raise Broken("sampling draws from the global random state")
        torch.manual_seed(2)
        if not torch.equal(first, draw(0)):
            raise Broken("the same seed gives different examples")
    if torch.equal(first, draw(1)):
        raise Broken("another seed gives the same examples")
    return "same seed, same examples; another seed, others"


def tell_nothing(bench: TaskBench) -> str:
    """Queries with the same separators and IDs have responses with the same IDs, as far as both
    go: a model that decodes is told them.
    """
    known: dict[tuple[Any, ...], tuple[list[Any], str]] = {}
    task, letters = bench.task, [s.isalnum() for s in bench.task.vocab.symbols]
    for length in bench.lengths:
        batch = task.sample_length(200, length, make_generator("conformance"))
        for tokens, ids, mask in zip(*(part.tolist() for part in batch), strict=True):
            begin, end = mask.index(True), len(mask) - mask[::-1].index(True)
            seen = tuple(0 if letters[token] else token for token in tokens[:begin])
            text = "=".join(task.decode(batch.tokens.new_tensor(tokens)))
            query = seen, tuple(map(tuple, ids[:begin]))
            others, other = known.setdefault(query, (ids[begin:end], text))
            if any(a != b for a, b in zip(ids[begin : end - 1], others[:-1], strict=False)):
                raise Broken(f"{text} and {other} have the same IDs up to the response, and others")
    return f"{len(known)} kinds of queries"


def trains(bench: TaskBench) -> str:
    """A tiny trial of the task trains, and is evaluated at a length that it has not seen."""
    task, (*trained, beyond) = bench.task, bench.lengths
    changes = {
        "position.encoding": "learned" if task.has_coupling else "none",
        "position.max_position": 1 + max(task.max_relative_ids(beyond)),
        "data.min_length": trained[0],
        "data.max_length": trained[-1],
        "eval.train_lengths": (trained[-1],),
        "eval.test_lengths": (beyond,),
    }
    train_tiny(replace(tiny_config(changes), task=task))
    return f"{NUM_STEPS} steps at length {trained[0]}-{trained[-1]}, then tested at {beyond}"


NEEDED = {
    "constructs with defaults": constructs,
    "poses lengths": poses,
    "contents hold the layout": hold_layout,
}
RULES = {
    "num_tokens and max_relative_ids": limits,
    "drawn = typed": drawn_as_typed,
    "IDs tell nothing of the response": tell_nothing,
    "deterministic under seed": deterministic,
    "trains and evaluates": trains,
}
