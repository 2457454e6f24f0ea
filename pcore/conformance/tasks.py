"""Rules for tasks, checked on the task with its default options."""

from collections.abc import Iterable
from dataclasses import fields, replace
from functools import partial
from itertools import islice

import torch
from jaxtyping import Int
from torch import Tensor

from pcore.batch import make_batch
from pcore.config import TrialConfig, flatten, make_generator, unflatten
from pcore.conformance.bench import Broken, Check, run_check, tiny_config
from pcore.conformance.contents import hold_layout, is_possible, require_batch, whole_answers
from pcore.encodings.position_ids import select_relative_ids, test_position_ids
from pcore.registry import resolve
from pcore.tasks import TASKS, Batch, Task
from pcore.training import Run

MEMORISE_STEPS = 150


def make_task(name: str) -> tuple[Check, Task | None]:
    """Whether a task can be made with its default options, and that task."""
    task: Task | None = None

    def constructs() -> str:
        nonlocal task
        task = resolve(name, TASKS, "task")()
        hash(task)
        return f"options: {', '.join(f.name for f in fields(task)) or 'none'}"

    return run_check("constructs with defaults", constructs), task


def check_task(name: str, answers: Iterable[tuple[str, str]] = ()) -> list[Check]:
    """Every rule for tasks, on the task with its default options.

    answers: queries and the responses that they should have, as tokens stand; a rule for each.
    """
    first, task = make_task(name)
    if task is None:
        return [first]
    expected = [
        run_check(f"{query}={answer}", partial(_answer, task, query, answer))
        for query, answer in answers
    ]
    return [first, *_check_rules(task), *expected]


def find_alike(name: str) -> str:
    """What one layer cannot tell apart: two queries of the same symbols with the same IDs that have
    other answers. Attention sees a set of them; only from the second layer on may a symbol know
    what came before it. Empty if none is found among short ones, or nothing is coupled.
    """
    task = make_task(name)[1]
    if task is None or not task.has_coupling:
        return ""
    seen: dict[tuple[tuple[int, ...], ...], tuple[str, str]] = {}
    rng = make_generator("conformance")
    for length in _short_lengths(task):
        batch = task.sample_length(256, length, rng)
        rows = torch.cat([batch.tokens[:, :, None], batch.relative_ids], dim=2).tolist()
        for tokens, row, mask in zip(batch.tokens, rows, batch.response_mask, strict=True):
            query, answer = task.decode(tokens)
            symbols = tuple(sorted(map(tuple, row[: int(mask.int().argmax())])))
            other, known = seen.setdefault(symbols, (query, answer))
            if known != answer:
                return (
                    f"{other}={known} and {query}={answer} have the same symbols with the same IDs "
                    "in their queries: one layer cannot tell these apart, two can by their order"
                )
    return ""


def _short_lengths(task: Task) -> list[int]:
    """The first three lengths that it admits, fewer if there are not so many below 30."""
    return list(islice((n for n in range(1, 30) if is_possible(task, n)), 3))


def _check_rules(task: Task) -> list[Check]:
    lengths: list[int] = []

    def poses() -> str:
        lengths.extend(_short_lengths(task))
        if len(lengths) < 3:
            raise Broken("check_length admits fewer than 3 of the lengths 1-29")
        return f"uses lengths {', '.join(map(str, lengths))}"

    first = run_check("poses lengths", poses)
    if len(lengths) < 3:
        return [first]
    rules = {
        "answers are whole": whole_answers,
        "flat options": _options,
        "vocabulary": _vocabulary,
        "sample = layout": _sample,
        "num_tokens and max_relative_ids": _limits,
        "sample_length": _sample_length,
        "one answer per query": _one_answer,
        "encode and decode": _round_trip,
        "examples apart": _apart,
        "deterministic under seed": _task_deterministic,
        "one batch can be memorised": _memorise,
    }
    second = run_check("contents hold the layout", partial(hold_layout, task, lengths))
    if not second.passed:  # all rules on examples would fail for the same reason
        waiting = f"{second.detail} ({len(rules)} more checks need this one first)"
        return [first, replace(second, detail=waiting)]
    checks = [run_check(rule, partial(check, task, lengths)) for rule, check in rules.items()]
    return [first, second, *checks]


def _options(task: Task, _: list[int]) -> str:
    """The configuration survives the flat dictionary."""
    config = TrialConfig(task=task)
    flat = flatten(config)
    if unflatten(flat) != config:
        raise Broken("flatten and unflatten do not give the same task back")
    num_fields = sum(key.startswith("task.") for key in flat)
    return f"{num_fields} fields survive flatten and unflatten"


def _vocabulary(task: Task, _: list[int]) -> str:
    missing = [s for s in (task.bos, task.eos, "=") if s not in task.vocab.index]
    if missing:
        raise Broken(f"the vocabulary lacks {', '.join(map(repr, missing))}")
    return f"{len(task.vocab)} symbols, PAD first"


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
    return "; ".join(details)


def _mixture_up_to(task: Task, lengths: list[int], length: int) -> Batch:
    return task.sample_mixture(64, lengths[0], length, make_generator("conformance", length))


def _sample_length(task: Task, lengths: list[int]) -> str:
    """Asked for n examples of a length, n come, and they are longer for a greater length."""
    sizes: list[int] = []
    for length in lengths:
        second = task.default_second(length)
        batch = task.sample_length(7, length, make_generator("conformance"), second)
        if len(batch.tokens) != 7:
            raise Broken(f"length {length}: {len(batch.tokens)} examples instead of 7")
        sizes.append(batch.tokens.shape[1])
    if sizes != sorted(set(sizes)):
        raise Broken(f"numbers of tokens {sizes} do not rise with lengths {lengths}")
    return f"{', '.join(map(str, sizes))} tokens"


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


def _memorise(task: Task, lengths: list[int]) -> str:
    """A small model learns eight examples by heart."""
    first, last = memorise(task, lengths[0], "learned" if task.has_coupling else "none")
    if not last < 0.2 * first:
        raise Broken(f"the loss on 8 examples only went from {first:.2f} to {last:.2f}")
    return f"loss {first:.2f} -> {last:.3f} in at most {MEMORISE_STEPS} steps"


def memorise(
    task: Task, length: int, encoding: str, goal: float = 0.1, max_steps: int = MEMORISE_STEPS
) -> tuple[float, float]:
    """First and last training loss on eight fixed examples; stops when it falls below `goal`."""
    changes = {
        "model.d_model": 64,
        "model.d_head": 32,
        "model.d_ff": 128,
        "optim.learning_rate": 3e-3,
        "position.encoding": encoding,
        "position.max_position": max(task.max_relative_ids(length)) + 1,
    }
    base = tiny_config(changes)
    config = TrialConfig(
        task=task, position=base.position, model=base.model, data=base.data, optim=base.optim
    )
    run = Run(config, "cpu")
    examples = task.sample_length(8, length, make_generator("conformance"))
    relative_ids = select_relative_ids(examples, config.position, task)
    ids: Int[Tensor, "B T P"] = test_position_ids(relative_ids, config.position)
    batch = make_batch(examples.tokens, ids, examples.response_mask)
    first = loss = float(run.update(batch, config.optim.learning_rate)[0])
    for _ in range(max_steps):
        if loss < goal:
            break
        loss = float(run.update(batch, config.optim.learning_rate)[0])
    return first, loss
