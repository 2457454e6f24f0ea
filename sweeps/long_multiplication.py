"""N x M multiplication with a scratchpad in which each product and each sum is a row of its own.

Part of its trials' identity is this file, so a change in it means new runs.
"""

from dataclasses import dataclass

from pcore.tasks import Layout, Symbol
from pcore.tasks.base import NO_ID
from pcore.tasks.multiplication import Multiplication


@dataclass(frozen=True, kw_only=True)
class LongMultiplication(Multiplication):
    """As published, but on the second level products have even and running sums odd IDs, where
    product j and sum j share one; product j begins with the j zeros of its shift; and sum j ends
    where product j does, after N + j + 1 digits instead of N + M:

        595*79  tok  $ 5 9 5 * 7 9 = 5 5 3 5 + 0 5 6 1 4 = 5 5 3 5 > 5 0 0 7 4 $
                L1   . 3 2 1 . . . 0 1 2 3 4 . 0 1 2 3 4 . . . . . . . . . . . .
                L2   . . . . . 2 0 0 0 0 0 0 2 2 2 2 2 2 1 1 1 1 1 3 3 3 3 3 3 .
                L3   . . . . . . . 0 1 2 3 4 0 1 2 3 4 5 0 1 2 3 4 0 1 2 3 4 5 .
    """

    def layout(self, shape: tuple[int, ...]) -> Layout:
        if not self.scratchpad:
            return super().layout(shape)
        first, second = shape
        layout = Layout()
        for k in self._order(first):
            layout.add(Symbol(0, k), k + 1, NO_ID, NO_ID)
        layout.add("*", NO_ID, NO_ID, NO_ID)
        for j in self._order(second):
            layout.add(Symbol(1, j), NO_ID, 2 * j, NO_ID)
        for j in range(second):
            for place in range(j + 1):  # the separator, then j zeros
                symbol = "0" if place else "+" if j else "="
                layout.add(symbol, 0 if place == j else NO_ID, 2 * j, place)
                if j == 0:
                    layout.end_query()
            for k in range(first + 1):
                layout.add(Symbol(2 + 2 * j, k), k + 1, 2 * j, j + k + 1)
        for j in range(second):
            layout.add(">" if j else "=", NO_ID, 2 * j + 1, 0)
            for k in range(first + j + 1):
                layout.add(Symbol(3 + 2 * j, k), NO_ID, 2 * j + 1, k + 1)
        return layout
