from dataclasses import dataclass

import torch

from pcore.tasks import Contents, Layout, Symbol, Task
from pcore.vocab import BOUNDARY, DIGITS, make_vocab

BASE = 7
SYMBOLS = DIGITS[:BASE]  # of the string "0123456789"
SEPARATOR = "+"
EXTRA = 1  # digits that the answer has more than the numbers


@dataclass(frozen=True, kw_only=True)
class Base7(Task):
    """Add in base BASE. The answer has its units first: in base 7, 653+046=2301 stands for 1032."""

    @property
    def vocab(self):  # numbered from 1 in this order, so digit d is d + 1; 0 is padding
        return make_vocab((*SYMBOLS, SEPARATOR, "=", BOUNDARY))

    def contents(self, numbers, sizes):  # B 2 W, units first: the two numbers of each example
        numbers = torch.nn.functional.pad(numbers, (0, EXTRA))
        inside = torch.arange(numbers.shape[2], device=sizes.device) < sizes
        numbers = numbers * inside[:, None]  # 0 for the random digits beyond an example's size
        carry, answer = torch.zeros_like(numbers[:, 0, 0]), torch.zeros_like(numbers[:, 0])
        for i in range(numbers.shape[2]):
            column = numbers[:, 0, i] + numbers[:, 1, i] + carry  # the rule; may be < 0
            answer[:, i], carry = column % BASE, column // BASE
        if carry.any():
            raise ValueError("a carry is left: raise EXTRA, or drop it by removing this check")
        return Contents(torch.stack((*numbers.unbind(dim=1), answer), dim=1) + 1, sizes)

    def draw(self, sizes, rng):  # random examples of these sizes, B 1
        shape = (len(sizes), 2, int(sizes.max()))
        return self.contents(torch.randint(BASE, shape, generator=rng, device=rng.device), sizes)

    def parse(self, query):  # the example that a user types
        first, _, second = query.partition(SEPARATOR)
        if not set(first + second) <= set(SYMBOLS) or not 0 < len(first) == len(second):
            raise ValueError(f"needs digits {SYMBOLS} and equal lengths, as in 10{SEPARATOR}01")
        numbers = [[SYMBOLS.index(d) for d in reversed(n)] for n in (first, second)]
        return self.contents(torch.tensor([numbers]), torch.tensor([[len(first)]]))

    # The order of the symbols, and their relative IDs: symbols with the same one are coupled.
    def layout(self, shape):
        (length,), layout = shape, Layout()
        for field, symbol in ((0, SEPARATOR), (1, "=")):
            for i in reversed(range(length)):
                layout.add(Symbol(field, i), i + 1)  # field 0 or 1 at index i; its ID
            layout.add(symbol, 0)
        layout.end_query()
        for i in range(length + EXTRA):
            layout.add(Symbol(2, i), i + 1)  # field 2 is the answer
        return layout
