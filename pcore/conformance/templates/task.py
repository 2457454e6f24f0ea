from dataclasses import dataclass

import torch

from pcore.tasks import Contents, Layout, Symbol, Task
from pcore.vocab import BOUNDARY, make_vocab

SYMBOLS = "0123456"
BASE = len(SYMBOLS)
SEPARATOR = "+"


@dataclass(frozen=True, kw_only=True)
class Base7(Task):
    """Add in base BASE. The answer has its units first: in base 7, 653+046=2301 stands for 1032."""

    def answer_length(self, length):  # to two numbers of so many digits
        return length + 1

    def answer(self, first, second):  # lists of digits, units first; so is what it returns
        digits, carry = [], 0
        for a, b in zip(first, second, strict=True):
            carry, digit = divmod(a + b + carry, BASE)
            digits.append(digit)
        return [*digits, carry]

    # The tokens in their order, and the relative ID of each: those with the same one are coupled.
    def layout(self, shape):
        (length,), layout = shape, Layout()
        for field, symbol in ((0, SEPARATOR), (1, "=")):
            for i in reversed(range(length)):  # units last; `parse` reverses as well
                layout.add(Symbol(field, i), i + 1)  # digit i of number 0 or 1 (units: 0); its ID
            layout.add(symbol, 0)
        layout.end_query()
        for i in range(self.answer_length(length)):  # units first; for units last as above
            layout.add(Symbol(2, i), i + 1)  # digit i of the answer; its ID
        return layout

    # Below: how examples are drawn, read and numbered. It stays as it is as long as a query is two
    # strings of one length.

    @property
    def vocab(self):  # numbered from 1 in this order, so digit d is d + 1; 0 is padding
        return make_vocab((*SYMBOLS, SEPARATOR, "=", BOUNDARY))

    def draw(self, sizes, rng):  # random examples; sizes B 1: the number of digits of each
        shape = (len(sizes), 2, int(sizes.max()))
        numbers = torch.randint(BASE, shape, generator=rng, device=rng.device).tolist()
        pairs = zip(numbers, sizes.flatten().tolist(), strict=True)
        return self.contents([(a[:size], b[:size]) for (a, b), size in pairs], rng.device)

    def parse(self, query):  # the example that a user types
        first, _, second = query.partition(SEPARATOR)
        if not set(first + second) <= set(SYMBOLS) or not 0 < len(first) == len(second):
            raise ValueError(f"needs {SYMBOLS} and equal lengths (add 0s), as in 10{SEPARATOR}01")
        return self.contents([[[SYMBOLS.index(d) for d in reversed(n)] for n in (first, second)]])

    def contents(self, pairs, device=None):  # fields 0 and 1 are the numbers, 2 is the answer
        longest, rows = max(len(first) for first, _ in pairs), []
        width = max(longest, self.answer_length(longest))
        for first, second in pairs:
            answer, length = self.answer(first, second), self.answer_length(len(first))
            if len(answer) != length:
                raise ValueError(f"answer gives {len(answer)} digits, answer_length says {length}")
            if not {*answer} <= {*range(BASE)}:
                raise ValueError(f"answer gives {answer}, which are not all digits below {BASE}")
            fields = (first, second, answer)
            rows.append([f + [0] * (width - len(f)) for f in fields])  # these 0s are never shown
        sizes = torch.tensor([[len(first)] for first, _ in pairs], device=device)
        return Contents(torch.tensor(rows, device=device) + 1, sizes)
