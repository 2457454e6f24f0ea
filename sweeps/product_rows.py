"""N x M multiplication with a scratchpad in which both addends of a sum have the same IDs.

Part of its trials' identity is this file, so a change in it means new runs.
"""

from dataclasses import dataclass

from pcore.tasks import NO_ID, Layout, Symbol
from pcore.tasks.multiplication import Multiplication


@dataclass(frozen=True, kw_only=True)
class ProductRows(Multiplication):
    """Products of A and each digit of B, then running sums: sum j adds product j and sum j - 1.

    Rows have N + 2 digits. Product j follows digit j of B and ends in 0. Behind the last, where B
    has no digit left, comes a row of `*`, which count as 0: the sum before sum 0. Sum j begins at
    digit j, since those below are final. Last, the answer repeats these and the last sum.

    L1 couples A with the digits of each row: even in products, odd in A and in sums. L2 is j for
    digit j of B, product j and sum j - 1; L3 is significance. So the addends of a digit of sum j
    are the two digits with its L3 and one less on L2, and one head finds both. A token of the
    answer has the L2 of the sum that holds the next digit, and is even on L1. `*` in the query has
    the IDs that come next in A, B and the answer: rows end where it ends A, products where it ends
    B.

        5*79  tok  $ 5 * 7 9 = 9 5 4 0 + 7 5 3 0 + * * * * > 5 4 0 > 9 3 0 > 5 9 3 0 $
               L1  . 5 7 . . 0 2 4 6 8 0 2 4 6 8 0 3 5 7 9 3 5 7 9 3 5 7 9 2 2 4 6 8 .
               L2  . . 2 1 0 0 0 0 0 0 1 1 1 1 1 2 0 0 0 0 1 1 1 1 2 2 2 2 1 2 2 2 2 .
               L3  . . 6 . . . . 2 3 4 . . 3 4 5 . . 1 2 3 1 2 3 4 2 3 4 5 1 2 3 4 5 .
    """

    def layout(self, shape: tuple[int, ...]) -> Layout:
        if not self.scratchpad:
            return super().layout(shape)
        first, second = shape
        zero = Symbol(0, first)  # A has no such digit
        layout = Layout()
        for k in self._order(first):
            layout.add(Symbol(0, k), 2 * k + 5, NO_ID, NO_ID)
        layout.add("*", 2 * first + 5, second, first + second + 3)
        for j in self._order(second):
            layout.add(Symbol(1, j), NO_ID, j, NO_ID)
        for j in range(second):
            layout.add("+" if j else "=", 0, j, NO_ID)
            if not j:
                layout.end_query()
            layout.add(Symbol(1, j), 2, j, NO_ID)
            digits = [Symbol(2 + 2 * j, k) for k in range(first + 1)]
            for place, symbol in enumerate([*digits, zero], 1):
                layout.add(symbol, 2 * place + 2, j, j + place + 1)
        layout.add("+", 0, second, NO_ID)
        for j in range(-1, second):
            digits = [Symbol(3 + 2 * j, j + k) for k in range(first + 1)]
            row = [">", *digits, zero] if j >= 0 else ["*"] * (first + 3)
            for place, symbol in enumerate(row):  # the first `*` has no ID on L3
                layout.add(symbol, 2 * place + 3, j + 1, j + place + 1 or NO_ID)
        answer = [Symbol(1 + 2 * second, i) for i in range(first + second)]
        for place, symbol in enumerate([">", *answer, zero]):
            j = min(place, second - 1)
            layout.add(symbol, 2 * (place - j) + 2, j + 1, place + 1)
        return layout
