"""Adders without weights, right but for one planted fault, in the place of a trained model.

They read the operands from the tokens, as a model does, and answer at every place that is asked.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from pcore.model import Transformer
from pcore.tasks.addition import Addition


class Moment(NamedTuple):
    """What an adder knows when it writes one symbol of c1 c2 ... $."""

    number: int  # of the symbol, 1 = the first
    right: str
    a: str  # ones digit first
    b: str
    reader: int  # position ID of the token that it reads, 0 = none


Fault = Callable[[Moment], str]  # the symbol that is written instead


class Adder(Transformer):
    """A stand-in for a trained model: sums of two padded numbers, ones digit first."""

    def __init__(self, fault: Fault, task: Addition | None = None):
        torch.nn.Module.__init__(self)
        self.task, self.fault = task or Addition(), fault
        self.embedding, self.attention_factor = torch.zeros(1), 1.0

    def forward(self, tokens: Tensor, ids: Tensor, at: Tensor | None = None) -> Tensor:
        assert at is not None
        index, rows = self.task.vocab.index, []
        for row, row_ids, asked in zip(tokens, ids, at, strict=True):
            text = "".join(self.task.vocab.decode(row.tolist())).strip("$_")
            a, b = (part[::-1] for part in text.partition("=")[0].split("+"))
            first = int((row == index["="]).int().argmax())
            total = str(int(a[::-1]) + int(b[::-1])).zfill(max(len(a), len(b)) + 1)[::-1]
            written = []
            for place in asked.tolist():
                number = place - first + 1
                right = (total + "$")[number - 1] if number <= len(total) + 1 else "$"
                moment = Moment(number, right, a, b, int(row_ids[place, 0]))
                written.append(index[self.fault(moment)])
            rows.append(written)
        return F.one_hot(torch.tensor(rows), len(self.task.vocab)).float()


def none(moment: Moment) -> str:
    return moment.right


def other_digit(right: str) -> str:
    """A wrong digit in the place of any symbol."""
    return str((int(right) + 1) % 10) if right.isdigit() else "0"


def stops_early(moment: Moment) -> str:
    return "$" if moment.number == 3 else moment.right


def never_stops(moment: Moment) -> str:
    return "0" if moment.right == "$" else moment.right


def confuses_id_7(moment: Moment) -> str:
    return other_digit(moment.right) if moment.reader == 7 else moment.right


def fails_on_short_operands(moment: Moment) -> str:
    """The second number lacks three digits or more."""
    lacking = len(moment.b) - len(moment.b.rstrip("0"))
    return other_digit(moment.right) if lacking >= 3 and moment.number == 1 else moment.right
