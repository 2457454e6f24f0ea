"""Tokens and relative IDs are those of the papers: golden data, worked examples, layout sizes."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pcore.tasks import TASKS, Task
from pcore.tasks.addition import Addition, response_width
from pcore.tasks.commands import Commands
from pcore.tasks.multiplication import Multiplication
from pcore.tasks.strings import Mirror, Parity, Sorting
from tests.support.task_oracles import (
    VARIANTS,
    ids_of,
    make_rng,
    respond,
    sizes_of,
    symbols_of,
    trim,
    typed,
)

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "reference_ids.json").read_text())


# The authors' implementation ------------------------------------------------------------------


def golden_task(name: str, params: dict[str, Any]) -> Task:
    """The task of a golden example, with the options that its name and parameters stand for."""
    match name:
        case "addition" | "multi_operand_addition":
            return Addition(**params)
        case "addition_scratchpad":
            return Addition(num_operands=30, min_operands=2, scratchpad=True)
        case "multiplication_scratchpad":  # made with the authors' switch for a reversed query on
            return Multiplication(scratchpad=True, reverse_query=True)
        case "parity_scratchpad":
            return Parity(scratchpad=True)
    return TASKS[name](**params)


def test_golden_file_is_complete():
    assert len(GOLDEN) == 102


@pytest.mark.parametrize("example", GOLDEN, ids=lambda e: f"{e['task']}-{e['query'][:20]}")
def test_golden(example: dict[str, Any]):
    task = golden_task(example["task"], example["params"])
    reference = example["reference_ids"]
    sizes = (0, max(reference[0]) - 1)  # of a board; not read for other tasks
    batch = task.encode(typed(task, example["query"], sizes))
    # one product was made without the pad_token="0" that all published runs set
    tokens = ["0" if token == "[PAD]" else token for token in example["tokens"]]
    response = example["response"].replace("[PAD]", "0")
    assert symbols_of(task, batch)[1:-1] == tokens
    assert task.decode(batch.tokens[0]) == (example["query"], response)
    assert task.num_levels == len(reference)
    for level, theirs in enumerate(reference):
        ours = ids_of(batch, level)
        assert ours[0] == ours[-1] == -1
        if example["task"] == "multiplication":  # counted downward by the authors
            assert len({a + b for a, b in zip(ours[1:-1], theirs, strict=True)}) == 1
        else:
            assert [i + 1 for i in ours[1:-1]] == theirs


# Other worked examples --------------------------------------------------------------------------


WORKED = [  # of what the authors' data lack
    (
        Addition(index_hints=True),
        "653+49",
        "$ a 0 b 6 c 5 d 3 + a 0 b 0 c 4 d 9 = d 2 c 0 b 7 a 0 $",
        [". 4 4 3 3 2 2 1 1 0 4 4 3 3 2 2 1 1 0 1 1 2 2 3 3 4 4 ."],
    ),
    (Parity(), "1011", "$ 1 0 1 1 = 1 $", [". 0 0 0 0 1 0 ."]),
    (Sorting(coupling="aligned"), "471", "$ 4 7 1 = 1 4 7 $", [". 1 2 3 0 1 2 3 ."]),
    (Sorting(coupling="bag"), "471", "$ 4 7 1 = 1 4 7 $", [". 0 0 0 1 2 3 4 ."]),
    (Mirror(), "471", "$ 4 7 1 = 3 0 7 $", [". 0 0 0 0 0 0 0 ."]),
    (
        Commands(coupling="both_ways"),
        "jump twice after walk left",
        "$ jump twice after walk left = LTURN WALK JUMP JUMP $",
        [". 1 2 3 4 5 0 1 2 4 5 .", ". 1 2 3 4 5 3 4 5 1 2 ."],
    ),
]


@pytest.mark.parametrize(("task", "query", "tokens", "ids"), WORKED)
def test_worked_examples(task: Task, query: str, tokens: str, ids: list[str]):
    batch = task.encode(query)
    assert symbols_of(task, batch) == tokens.split()
    assert [ids_of(batch, level) for level in range(task.num_levels)] == [
        [-1 if i == "." else int(i) for i in row.split()] for row in ids
    ]


def test_each_hint_precedes_the_digit_of_its_significance():
    task = Addition(index_hints=True, num_hints=40)
    hints = [s for s in task.vocab.symbols[1:] if s[0].isalpha()]
    batch = task.sample_mixture(100, 1, 8, make_rng())
    for row in range(100):
        symbols = symbols_of(task, batch, row)[1:-1]
        cut, plus = symbols.index("="), symbols.index("+")
        numbers = (symbols[:plus], symbols[plus + 1 : cut], symbols[cut + 1 :])
        expected = {}  # significance of a hint, fixed by the first operand
        values = []
        for n, descending in zip(numbers, (True, True, False), strict=True):
            pairs = list(zip(n[::2], n[1::2], strict=True))
            pairs = pairs[::-1] if descending else pairs  # now ones digit first
            for significance, (hint, _) in enumerate(pairs):
                assert expected.setdefault(significance, hint) == hint
            values.append(int("".join(digit for _, digit in reversed(pairs))))
        assert values[0] + values[1] == values[2]
        first = hints.index(expected[len(expected) - 1])
        ascending = [expected[k] for k in reversed(range(len(expected)))]
        assert ascending == hints[first : first + len(expected)]


# Every task -----------------------------------------------------------------------------------

every_task = pytest.mark.parametrize("task", VARIANTS.values(), ids=VARIANTS.keys())


@every_task
@given(low=st.integers(1, 6), more=st.integers(0, 6), seed=st.integers(0, 10**6))
@settings(max_examples=12, deadline=None, derandomize=True)
def test_samples_answer_themselves(task: Task, low: int, more: int, seed: int):
    rng = make_rng(seed)
    sizes = task.draw_sizes(6, low, low + more, rng)
    batch = task.sample(sizes, rng)
    for row in range(6):
        wanted = tuple(sizes[row].tolist())
        query, response = task.decode(batch.tokens[row])
        assert sizes_of(task, query, wanted) == wanted
        assert response == respond(task, query, wanted)
        text = typed(task, query, wanted)
        alone, sampled = task.for_query(text).encode(text), trim(batch, row)
        for ours, theirs in zip(alone, sampled, strict=True):
            assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize(
    "task", [t for t in VARIANTS.values() if isinstance(t, Addition | Multiplication)], ids=str
)
@given(data=st.data())
@settings(max_examples=12, deadline=None, derandomize=True)
def test_numbers_may_be_typed_with_leading_zeros(task: Task, data: st.DataObject):
    """Other typed queries are those that examples show."""
    low, high, count, sign = 1, 12, 2, "+"
    if isinstance(task, Addition):
        count = task.num_operands
    else:
        sign = "*"
        low, high = (1, 8) if task.scratchpad else (task.second_length,) * 2
    numbers = st.from_regex(rf"[0-9]{{{low},{high}}}", fullmatch=True)
    query = sign.join(data.draw(st.lists(numbers, min_size=count, max_size=count)))
    stands, response = task.decode(task.encode(query).tokens[0])
    assert response == respond(task, stands, ())
    parts = typed(task, stands, ()).split(sign)
    assert [int(part) for part in parts] == [int(part) for part in query.split(sign)]


@every_task
@pytest.mark.parametrize("second", [None, 3])
def test_sizes_announced_are_sizes_produced(task: Task, second: int | None):
    one_length = len(task.size_names) == 1
    unpadded = isinstance(task, Addition) and not task.zero_pad
    for length in (1, 2, 5, 9):
        batch = task.sample_length(300, length, make_rng(1), second)
        largest = tuple(batch.relative_ids.amax(dim=(0, 1)).tolist())
        num_tokens = batch.tokens.shape[1]
        assert num_tokens == task.num_tokens(length, second)
        assert largest == task.max_relative_ids(length, second)
        if one_length:
            assert task.num_tokens(length, second) == task.num_tokens(length)
        if not unpadded:
            assert bool((batch.tokens != 0).all())


def test_the_digits_of_a_sum_are_known_beyond_what_python_writes():
    for count, length in itertools.product((*range(1, 25), 99, 100, 101, 10**6), (1, 2, 3, 7, 20)):
        assert response_width(count, length) == len(str(count * (10**length - 1)))
    batch = Addition().sample_length(1, 5000, torch.Generator().manual_seed(0))
    assert batch.tokens.shape == (1, 2 + 5000 + 1 + 5000 + 1 + 5001)
