from dataclasses import dataclass

import torch

from pcore.tasks import Contents, Layout, Symbol, Task
from pcore.vocab import BOUNDARY, DIGITS, make_vocab

BASE = 7
SYMBOLS = DIGITS[:BASE]  # of the string "0123456789"
SEPARATOR = "+"
EXTRA = 1  # digits that the answer has more than each number


@dataclass(frozen=True, kw_only=True)
class Base7(Task):
    """Add in base BASE. The answer has its units first: in base 7, 653+046=2301 stands for 1032."""

    def answer(self, first, second):  # lists of digits, units first, of equal length
        digits, carry = [], 0
        for a, b in zip(first, second, strict=True):
            carry, digit = divmod(a + b + carry, BASE)
            digits.append(digit)
        return [*digits, carry]  # EXTRA more than each number has, in the order of the tokens

    # Below: how examples are drawn, typed and written as tokens.

    @property
    def vocab(self):  # numbered from 1 in this order, so digit d is d + 1; 0 is padding
        return make_vocab((*SYMBOLS, SEPARATOR, "=", BOUNDARY))

    def draw(self, sizes, rng):  # random examples; sizes B 1: the number of digits of each
        shape = (len(sizes), 2, int(sizes.max()))
        numbers = torch.randint(BASE, shape, generator=rng, device=rng.device).tolist()
        pairs = zip(numbers, sizes.flatten().tolist(), strict=True)
        return self.contents([(a[:size], b[:size]) for (a, b), size in pairs], rng.device)

    def parse(self, query):  # the example that a user types, units last
        first, _, second = query.partition(SEPARATOR)
        if not set(first + second) <= set(SYMBOLS) or not 0 < len(first) == len(second):
            raise ValueError(f"needs digits {SYMBOLS} and equal lengths, as in 10{SEPARATOR}01")
        return self.contents([[[SYMBOLS.index(d) for d in reversed(n)] for n in (first, second)]])

    def contents(self, pairs, device=None):  # fields 0 and 1 are the numbers, 2 is the answer
        width, rows = max(len(first) for first, _ in pairs) + EXTRA, []
        for first, second in pairs:
            answer = self.answer(first, second)
            if (length := len(first) + EXTRA) != len(answer) or {*answer} - {*range(BASE)}:
                raise ValueError(f"{answer} is not {length} digits below {BASE}; EXTRA is {EXTRA}")
            rows.append([n + [0] * (width - len(n)) for n in (first, second, answer)])
        sizes = torch.tensor([[len(first)] for first, _ in pairs], device=device)
        return Contents(torch.tensor(rows, device=device) + 1, sizes)

    # The order of the symbols, and their relative IDs: symbols with the same one are coupled.
    def layout(self, shape):
        (length,), layout = shape, Layout()
        for field, symbol in ((0, SEPARATOR), (1, "=")):
            for i in reversed(range(length)):
                layout.add(Symbol(field, i), i + 1)  # field 0 or 1 at index i; its ID
            layout.add(symbol, 0)
        layout.end_query()
        for i in range(length + EXTRA):
            layout.add(Symbol(2, i), i + 1)
        return layout
