"""Plain Python answers to every task, on text: what the fast tensor code is held against."""

import torch

from pcore.tasks import TASKS, Batch, Task
from pcore.tasks.addition import Addition
from pcore.tasks.commands import Commands
from pcore.tasks.minesweeper import Minesweeper
from pcore.tasks.multiplication import Multiplication
from pcore.tasks.strings import Copy, Mirror, Parity, Reverse, Sorting

FORMATS = [  # the six of the paper: (zero_pad, reverse_query, reverse_response)
    (pad, query, response)
    for pad in (True, False)
    for query, response in ((False, True), (True, True), (False, False))
]

VARIANTS: dict[str, Task] = {
    **{
        f"addition-{pad=}-{query=}-{response=}": Addition(
            zero_pad=pad, reverse_query=query, reverse_response=response
        )
        for pad, query, response in FORMATS
    },
    "addition-3": Addition(num_operands=3),
    "addition-3-nopad": Addition(num_operands=3, zero_pad=False),
    "addition-2to4": Addition(num_operands=4, min_operands=2),
    "addition-12": Addition(num_operands=12),
    "addition-scratchpad": Addition(num_operands=10, min_operands=2, scratchpad=True),
    "multiplication-1": Multiplication(second_length=1),
    "multiplication-2": Multiplication(second_length=2),
    "multiplication-3": Multiplication(second_length=3),
    "multiplication-2-all": Multiplication(second_length=2, reverse_query=True),
    "multiplication-scratchpad": Multiplication(scratchpad=True),
    "multiplication-scratchpad-all": Multiplication(scratchpad=True, reverse_query=True),
    "copy": Copy(),
    "reverse": Reverse(),
    "minesweeper": Minesweeper(),
    "parity": Parity(),
    "parity-scratchpad": Parity(scratchpad=True),
    "sorting-aligned": Sorting(coupling="aligned"),
    "sorting-bag": Sorting(coupling="bag"),
    "commands-straight": Commands(coupling="straight"),
    "commands-both_ways": Commands(coupling="both_ways"),
    "mirror": Mirror(),
}
assert {type(task) for task in VARIANTS.values()} == set(TASKS.values())


def typed(task: Task, query: str, sizes: tuple[int, ...]) -> str:
    """What a person would type for the query that stands in the tokens."""
    if isinstance(task, Addition | Multiplication) and task.reverse_query:
        sign = "+" if isinstance(task, Addition) else "*"
        return sign.join(part[::-1] for part in query.split(sign))
    if isinstance(task, Minesweeper):
        return "/".join(split_rows(query, sizes[1]))
    return query


def respond(task: Task, query: str, sizes: tuple[int, ...]) -> str:
    """The right response to a query as it stands in the tokens."""
    match task:
        case Addition():
            return _add(task, [int(part) for part in typed(task, query, sizes).split("+")], query)
        case Multiplication():
            return _multiply(task, *typed(task, query, sizes).split("*"))
        case Reverse():
            return query[::-1]
        case Copy():
            return query
        case Mirror():
            pairs = zip(query, query[::-1], strict=True)
            return "".join(str((int(here) - int(there)) % 10) for here, there in pairs)
        case Minesweeper():
            return _count_mines(split_rows(query, sizes[1]))
        case Parity():
            prefixes = "".join(str(query[: i + 1].count("1") % 2) for i in range(len(query)))
            return prefixes if task.scratchpad else prefixes[-1]
        case Sorting():
            return "".join(sorted(query))
        case Commands():
            return " ".join(_act(query.split()))
    raise AssertionError(task)


def sizes_of(task: Task, query: str, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes that can be read off a query, to be compared with the sizes asked for."""
    match task:
        case Addition():
            parts = typed(task, query, sizes).split("+")
            numbers = [str(int(p)) if task.zero_pad else p for p in parts]
            absent = (0,) * (len(sizes) - len(parts))
            return (*(len(n) for n in numbers), *absent)
        case Multiplication():
            a, b = query.split("*")
            return len(a), len(b)
        case Minesweeper():
            return len(query) // sizes[1], sizes[1]
        case Commands():
            return ((len(query.split()) + 1) // 3,)
    return (len(query),)


def trim(batch: Batch, row: int) -> Batch:
    """One example without its padding (B = 1)."""
    num_tokens = int((batch.tokens[row] != 0).sum())
    return Batch(*(part[row : row + 1, :num_tokens] for part in batch))


def symbols_of(task: Task, batch: Batch, row: int = 0) -> list[str]:
    return task.vocab.decode(trim(batch, row).tokens[0].tolist())


def ids_of(batch: Batch, level: int = 0, row: int = 0) -> list[int]:
    return trim(batch, row).relative_ids[0, :, level].tolist()


def make_rng(seed: int = 0, device: str = "cpu") -> torch.Generator:
    return torch.Generator(device=device).manual_seed(seed)


def split_rows(cells: str, width: int) -> list[str]:
    return [cells[i : i + width] for i in range(0, len(cells), width)]


def _add(task: Addition, operands: list[int], query: str) -> str:
    longest = max(len(str(n)) for n in operands)
    width = len(str(len(operands) * (10**longest - 1)))
    if task.scratchpad:
        assert {len(part) for part in query.split("+")} == {width}
        sums = [sum(operands[:k]) for k in range(len(operands) + 1)]
        return ">".join(str(n).zfill(width)[::-1] for n in sums)
    total = str(sum(operands))
    if task.zero_pad:
        assert {len(part) for part in query.split("+")} == {longest}
        total = total.zfill(width)
    return total[::-1] if task.reverse_response else total


def _multiply(task: Multiplication, a: str, b: str) -> str:
    width = len(a) + len(b)
    if not task.scratchpad:
        return str(int(a) * int(b)).zfill(width)[::-1]
    digits = [int(digit) for digit in reversed(b)]
    products = [int(a) * digit for digit in digits]
    sums = [sum(p * 10**j for j, p in enumerate(products[: k + 1])) for k in range(len(digits))]
    left = "+".join(str(p).zfill(len(a) + 1)[::-1] for p in products)
    right = ">".join(str(s).zfill(width)[::-1] for s in sums)
    return f"{left}={right}"


def _count_mines(rows: list[str]) -> str:
    response = ""
    for y, row in enumerate(rows):
        for x, cell in enumerate(row):
            around = [r[max(x - 1, 0) : x + 2] for r in rows[max(y - 1, 0) : y + 2]]
            response += "M" if cell == "M" else str("".join(around).count("M"))
    return response


def _act(words: list[str]) -> list[str]:
    """Recursive reading: the last connective joins everything to its left with the last clause."""
    verb, modifier = words[-2:]
    turn = {"left": "LTURN", "right": "RTURN", "twice": verb.upper()}[modifier]
    clause = [turn, verb.upper()]
    if len(words) == 2:
        return clause
    before = _act(words[:-3])
    return clause + before if words[-3] == "after" else before + clause
