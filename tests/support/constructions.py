"""The constructions of `pcore.theory` with what tests ask them."""

from collections.abc import Callable
from typing import NamedTuple

from pcore.tasks import Task
from pcore.tasks.addition import Addition
from pcore.tasks.multiplication import Multiplication
from pcore.theory import addition, multiplication
from pcore.theory.formal import FormalTransformer


def hard_additions(length: int) -> list[str]:
    """Additions of that length with the longest chains of carries, and with none at all."""
    nines, ones = "9" * length, "1" * length
    halves = ("45" * length)[:length], ("54" * length)[:length]
    return [
        f"{nines}+1",
        f"{nines}+{nines}",
        f"{nines}+0",
        f"{'4' * length}+{'5' * length}",  # nines everywhere, nothing carried
        f"{'4' * (length - 1)}5+{'5' * length}",  # the same, and a carry through all of them
        f"{halves[0]}+{halves[1]}",
        f"{'5' * length}+{'5' * length}",
        f"{ones}+{'8' * length}",
        f"1{'0' * (length - 1)}+0",
    ]


def hard_multiplications(length: int) -> list[str]:
    """Multiplications of that length with the largest carries, with none, and with zeros."""
    nines, power = "9" * length, f"1{'0' * (length - 1)}"
    queries = [f"{nines}*{b}" for b in ("99", "90", "09", "01", "00")]
    queries += [f"{'8' * length}*{b}" for b in ("89", "98")]
    queries += [f"{power}*{b}" for b in ("99", "10", "01", "00")]
    queries += [f"{('19' * length)[:length]}*99", f"{('91' * length)[:length]}*91"]
    return queries if length > 1 else [*queries, "0*00", "0*99"]


class Construction(NamedTuple):
    """A theorem as a model. P: bits of a position vector."""

    task: Task
    make: Callable[..., FormalTransformer]  # from P
    max_digits: Callable[[int], int]  # from P
    hard_queries: Callable[[int], list[str]]  # from a length


CONSTRUCTIONS = {
    "addition": Construction(
        Addition(), addition.make_addition, addition.max_digits, hard_additions
    ),
    "multiplication": Construction(
        Multiplication(),
        multiplication.make_multiplication,
        multiplication.max_digits,
        hard_multiplications,
    ),
}
