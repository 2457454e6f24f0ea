from dataclasses import dataclass

import torch

from pcore.tasks import Contents, Layout, Symbol, Task
from pcore.vocab import BOUNDARY, DIGITS, make_vocab


@dataclass(frozen=True, kw_only=True)
class Difference(Task):
    """Subtract without the last borrow, the answer with its units first: 653-049=406."""

    @property
    def vocab(self):  # numbered from 1 in this order, so digit d is d + 1; 0 is padding
        return make_vocab((*DIGITS, "-", "=", BOUNDARY))

    # numbers: B 2 W, units first, random from their size on. The answer must not depend on those.
    # For an answer that may have one digit more, with `pad` of torch.nn.functional:
    #   numbers = pad(numbers, (0, 1))
    #   numbers *= (torch.arange(numbers.shape[2], device=sizes.device) < sizes)[:, None]
    # and `range(length + 1)` for the answer in `layout`.
    def contents(self, numbers, sizes):
        borrow, answer = torch.zeros_like(numbers[:, 0, 0]), torch.zeros_like(numbers[:, 0])
        for i in range(numbers.shape[2]):
            column = numbers[:, 0, i] - numbers[:, 1, i] - borrow
            answer[:, i], borrow = column % 10, (column < 0).long()
        fields = torch.stack((*numbers.unbind(dim=1), answer), dim=1)
        return Contents(fields + 1, sizes)

    def draw(self, sizes, rng):  # random examples of these sizes, B 1
        shape = (len(sizes), 2, int(sizes.max()))
        return self.contents(torch.randint(0, 10, shape, generator=rng, device=rng.device), sizes)

    def parse(self, query):  # the example that a user types
        first, _, second = query.partition("-")
        if not set(first + second) <= set(DIGITS) or not 0 < len(first) == len(second):
            raise ValueError(f"needs two numbers of equal length, got {query!r}")
        digits = torch.tensor([[[int(d) for d in reversed(n)] for n in (first, second)]])
        return self.contents(digits, torch.tensor([[len(first)]]))

    # The order of the symbols, and their relative IDs: symbols with the same one are coupled. The
    # response may read fields of the query too: what only rearranges it needs no field of its own.
    def layout(self, shape):
        (length,), layout = shape, Layout()
        for field, symbol in ((0, "-"), (1, "=")):
            for i in reversed(range(length)):
                layout.add(Symbol(field, i), i + 1)  # field 0 or 1 at index i; its ID
            layout.add(symbol, 0)
        layout.end_query()
        for i in range(length):
            layout.add(Symbol(2, i), i + 1)  # field 2 is the answer
        return layout
