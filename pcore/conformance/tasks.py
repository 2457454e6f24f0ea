"""Rules for tasks, checked on the task with its default options."""

from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from itertools import islice

import torch

from pcore.config import TrialConfig, flatten, make_generator, unflatten
from pcore.conformance.bench import (
    NUM_STEPS,
    Broken,
    Check,
    Measure,
    run_checks,
    tiny_config,
    train_tiny,
)
from pcore.conformance.contents import hold_layout, is_possible, require_batch
from pcore.registry import resolve
from pcore.tasks import TASKS, Batch, Task


def check_task(name: str, answers: Iterable[tuple[str, str]] = ()) -> list[Check]:
    """Every rule for tasks, on the task with its default options.

    answers: queries and the responses that they should have, as tokens stand; a rule for each.
    """
    made: list[Task] = []
    lengths: list[int] = []

    def constructs() -> str:
        made.append(resolve(name, TASKS, "task")())
        return _options(made[0])

    def poses() -> str:
        lengths.extend(_short_lengths(made[0]))
        if len(lengths) < 3:
            raise Broken("check_length admits fewer than 3 of the lengths 1-29")
        return f"uses lengths {', '.join(map(str, lengths))}"

    needed: dict[str, Measure] = {
        "constructs with defaults": constructs,
        "poses lengths": poses,
        "contents hold the layout": lambda: hold_layout(made[0], lengths),
    }
    others: dict[str, Measure] = {
        rule: lambda check=check: check(made[0], lengths) for rule, check in RULES.items()
    }
    for query, answer in answers:
        others[f"{query}={answer}"] = lambda q=query, a=answer: _answer(made[0], q, a)
    return run_checks(needed, others)


def _short_lengths(task: Task) -> list[int]:
    """The first three lengths that it admits, fewer if there are not so many below 30."""
    return list(islice((n for n in range(1, 30) if is_possible(task, n)), 3))


def _options(task: Task) -> str:
    """The task can be part of a configuration, which survives the flat dictionary."""
    hash(task)
    config = TrialConfig(task=task)
    if unflatten(flatten(config)) != config:
        raise Broken("flatten and unflatten do not give the same task back")
    return f"options: {', '.join(f.name for f in fields(task)) or 'none'}"


def _sample(task: Task, lengths: list[int]) -> str:
    """Examples are what `draw` makes, in the order of `layout`, between BOS and EOS, whose targets
    are the response and EOS: what `Task` does unless a class does it otherwise.
    """
    posed = task.at_test()
    for length in lengths:
        sizes = torch.tensor([task.sizes_at(length)]).expand(32, -1)
        found = posed.sample(sizes, make_generator("conformance"))
        plain = Task.sample(posed, sizes, make_generator("conformance"))
        for name, one, other in zip(Batch._fields, found, plain, strict=True):
            if not torch.equal(one, other):
                raise Broken(f"length {length}: sample has other {name} than layout says")
    return "BOS, query, '=', response, EOS, PAD"


def _limits(task: Task, lengths: list[int]) -> str:
    """No example is larger than stated; the statement decides what `validate` lets through."""
    details: list[str] = []
    rng = make_generator("conformance")
    for length in lengths:
        stated, largest = task.num_tokens(length), task.max_relative_ids(length)
        if len(largest) != task.num_levels:
            raise Broken(
                f"max_relative_ids has {len(largest)} entries for {task.num_levels} level(s)"
            )
        for batch in (task.sample_length(64, length, rng), _mixture_up_to(task, lengths, length)):
            seen = tuple(int(n) for n in batch.relative_ids.amax(dim=(0, 1)))
            if batch.tokens.shape[1] > stated:
                longest = batch.tokens.shape[1]
                raise Broken(f"length {length}: {longest} tokens, num_tokens={stated}")
            if any(s > limit for s, limit in zip(seen, largest, strict=True)):
                raise Broken(f"length {length}: IDs up to {seen}, max_relative_ids={largest}")
        details.append(f"{length}: {stated} tokens, IDs {','.join(map(str, largest))}")
    sizes = [task.num_tokens(length) for length in lengths]
    if sizes != sorted(set(sizes)):
        raise Broken(f"numbers of tokens {sizes} do not rise with lengths {lengths}")
    return "; ".join(details)


def _mixture_up_to(task: Task, lengths: list[int], length: int) -> Batch:
    return task.sample_mixture(64, lengths[0], length, make_generator("conformance", length))


def _one_answer(task: Task, lengths: list[int]) -> str:
    """Nothing but the query, as its tokens stand, decides the answer."""
    answers: dict[str, str] = {}
    for length in lengths:
        batch = task.at_test().sample_length(256, length, make_generator("conformance"))
        for query, answer in map(task.decode, batch.tokens):
            if (other := answers.setdefault(query, answer)) != answer:
                raise Broken(
                    f"{query}= has the answers {other} and {answer}: is all that they depend on "
                    "in the layout?"
                )
    return f"{len(answers)} queries"


def _round_trip(task: Task, lengths: list[int]) -> str:
    """What `decode` shows of an example, typed into `encode`, is that example again.

    A text may fit several shapes (a board without its line breaks): read with another shape, only
    the query must come back.
    """
    query, examples = "", dict[int, str]()
    for length in lengths:
        batch = task.sample_length(16, length, make_generator("conformance"))
        for tokens, relative_ids in zip(batch.tokens, batch.relative_ids, strict=True):
            query, response = task.decode(tokens)
            typed = _type(task, query)
            shown = task.decode(typed.tokens[0])
            if shown[0] != query:
                raise Broken(f"the query {query} comes back as {shown[0]}")
            real = tokens != 0
            if not torch.equal(typed.relative_ids[0], relative_ids[real]):
                continue
            if shown[1] != response or not torch.equal(typed.tokens[0], tokens[real]):
                raise Broken(f"{query}={response} comes back as {'='.join(shown)}")
            examples[length] = f"{query}={response}"
    if not examples:
        raise Broken(f"no query is read with the shape it was written in, such as {query}")
    return ", ".join(examples.values())


def _type(task: Task, query: str) -> Batch:
    """The example that a user gets who types this query."""
    posed = task.for_query(query).at_test()
    require_batch(posed.parse(query), "parse")
    return posed.encode(query)


def _answer(task: Task, query: str, expected: str) -> str:
    """The task gives the answer that the user expects of this query."""
    if not task.separator and (unknown := sorted({*expected} - {*task.vocab.symbols})):
        raise Broken(f"expected {expected}, but {' '.join(unknown)} is no symbol of the task")
    shown, answer = task.decode(_type(task, query).tokens[0])
    if answer == expected:
        return "as expected" if shown == query else f"as expected; the model sees {shown}={answer}"
    hint = ""
    if answer == expected[::-1]:
        hint = ", the same backwards: which order is meant?"
    elif len(answer) != len(expected):
        hint = f", {len(answer)} symbols instead of {len(expected)}"
    raise Broken(f"expected {expected}, but the task says {shown}={answer}{hint}")


def example_of(task: Task) -> Batch:
    """A short random example."""
    length = _short_lengths(task)[-1]
    return task.at_test().sample_length(1, length, make_generator("conformance"))


def _apart(task: Task, lengths: list[int]) -> str:
    """An example drawn beside longer ones has its own length, and the answer it has alone."""
    shortest, longest = lengths[0], lengths[-1]
    sizes = torch.tensor([task.sizes_at(shortest), task.sizes_at(longest)])
    pair = task.at_test().sample(sizes, make_generator("conformance"))
    tokens, most = int((pair.tokens[0] != 0).sum()), task.num_tokens(shortest)
    if tokens > most:
        raise Broken(
            f"an example of length {shortest} has {tokens} tokens beside one of length {longest}, "
            f"and at most {most} alone: does draw give each example the size that is asked for?"
        )
    batch = _mixture_up_to(task, lengths, longest)
    count = 0
    for tokens, relative_ids in zip(batch.tokens, batch.relative_ids, strict=True):
        query, response = task.decode(tokens)
        try:
            typed = _type(task, query)
        except ValueError:
            continue  # formats of training that nobody types
        again, alone = task.decode(typed.tokens[0])
        if again != query or not torch.equal(typed.relative_ids[0], relative_ids[tokens != 0]):
            continue
        if alone != response:
            raise Broken(
                f"{query}={response} in a batch of several lengths, {query}={alone} alone: what "
                "lies beyond an example's size must not change its answer"
            )
        count += 1
    if not count:
        return "not checked: none of the examples drawn is read back as it was typed"
    return f"{count} of {len(batch.tokens)} examples drawn beside longer ones, answered alone"


def _task_deterministic(task: Task, lengths: list[int]) -> str:
    """Examples depend on the given generator alone, and leave the global one untouched."""

    def draw(seed: int) -> tuple[Batch, Batch]:
        rng = make_generator("conformance", seed)
        mixture = task.sample_mixture(32, lengths[0], lengths[-1], rng)
        return mixture, task.sample_length(32, lengths[-1], rng)

    with torch.random.fork_rng():
        torch.manual_seed(1)
        before = torch.get_rng_state()
        first = draw(0)
        if not torch.equal(before, torch.get_rng_state()):
            raise Broken("sampling draws from the global random state")
        torch.manual_seed(2)
        again, other = draw(0), draw(1)
    if not all(_same(a, b) for a, b in zip(first, again, strict=True)):
        raise Broken("the same seed gives different examples")
    if all(_same(a, b) for a, b in zip(first, other, strict=True)):
        raise Broken("another seed gives the same examples")
    return "same seed, same examples; another seed, others"


def _same(a: Batch, b: Batch) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def _trains(task: Task, lengths: list[int]) -> str:
    """A tiny trial of the task trains, and is evaluated at a length that it has not seen."""
    *trained, beyond = lengths
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


RULES: dict[str, Callable[[Task, list[int]], str]] = {
    "sample = layout": _sample,
    "num_tokens and max_relative_ids": _limits,
    "one answer per query": _one_answer,
    "encode and decode": _round_trip,
    "examples apart": _apart,
    "deterministic under seed": _task_deterministic,
    "trains and evaluates": _trains,
}
