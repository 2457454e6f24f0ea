"""How far carries travel in the addition of two numbers.

The run of a digit is the number of digits that the carry into it has travelled: 1 if the digit
before made it (5 + 7), one more for every digit in between that passes it on (a 9 as the sum of two
digits), 0 without a carry. In 95 + 7 = 102 the digits of the sum have runs 0, 1, 2.
"""

import torch
from jaxtyping import Int
from torch import Tensor

from pcore.tasks.addition import Addition
from pcore.tasks.base import Batch, Task


def has_carry_runs(task: Task) -> bool:
    """Whether examples are sums of two numbers that are written at once."""
    if not isinstance(task, Addition) or task.scratchpad or task.index_hints:
        return False
    return task.num_operands == 2


def carry_runs(batch: Batch, task: Addition) -> Int[Tensor, "B W"]:
    """The run of every digit of the sum, ones digit first; 0 after the last digit."""
    rows: list[list[int]] = []
    for tokens in batch.tokens:
        operands = task.decode(tokens)[0].split("+")
        rows.append(_runs(*(o if task.reverse_query else o[::-1] for o in operands)))
    width = max(map(len, rows))
    return torch.tensor([row + [0] * (width - len(row)) for row in rows])


def _runs(a: str, b: str) -> list[int]:
    """The runs of a sum; both numbers ones digit first."""
    runs = [0]
    for k in range(max(len(a), len(b))):
        total = sum(int(digits[k]) for digits in (a, b) if k < len(digits))
        passed_on = runs[-1] + 1 if total == 9 and runs[-1] else 0
        runs.append(1 if total > 9 else passed_on)
    return runs
