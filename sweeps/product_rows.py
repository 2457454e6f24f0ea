"""N x M multiplication with a scratchpad in which both addends of a sum have the same IDs.

Part of its trials' identity is this file, so a change in it means new runs.
"""

from dataclasses import dataclass

from pcore.tasks import NO_ID, Layout, Symbol
from pcore.tasks.multiplication import Multiplication


@dataclass(frozen=True, kw_only=True)
class ProductRows(Multiplication):
    """Products of A and each digit of B, then running sums: sum j adds product j and sum j - 1.

    Rows have N + 2 digits. Product j follows digit j of B (the first follows `=`) and ends in 0.
    Sum j begins at digit j, since those below are final; a row of `*`, which count as 0, is the sum
    before sum 0. Last, the answer repeats the final digits and the last sum.

    L1 couples A with the digits of each row: A has 1 modulo 3, products 0, sums 2. L2 is j for
    digit j of B, product j and sum j - 1; L3 is significance. So the addends of a digit of sum j
    are the two digits with its L3 and one less on L2, and one head finds both. The answer has no
    L1, and on L2 what the sum has that its next digit is of. `*` in the query has the IDs that come
    next in A, in B and in the answer: rows end where it ends A, products where it ends B.

        5*79  tok  $ 5 * 7 9 = 5 4 0 7 5 3 0 * * *  * > 5 4  0 > 9 3  0 > 5 9 3 0 $
               L1  . 4 7 . . 0 3 6 9 0 3 6 9 2 5 8 11 2 5 8 11 2 5 8 11 . . . . . .
               L2  . . 2 1 0 0 0 0 0 1 1 1 1 0 0 0  0 1 1 1  1 2 2 2  2 1 2 2 2 2 .
               L3  . . 6 . . . 2 3 4 . 3 4 5 . 1 2  3 1 2 3  4 2 3 4  5 1 2 3 4 5 .
    """

    def layout(self, shape: tuple[int, ...]) -> Layout:
        if not self.scratchpad:
            return super().layout(shape)
        first, second = shape
        zero = Symbol(0, first)  # A has no such digit
        layout = Layout()
        for k in self._order(first):
            layout.add(Symbol(0, k), 3 * k + 4, NO_ID, NO_ID)
        layout.add("*", 3 * first + 4, second, first + second + 3)
        for j in self._order(second):
            layout.add(Symbol(1, j), NO_ID, j, NO_ID)
        for j in range(second):
            layout.add(Symbol(1, j) if j else "=", 0, j, NO_ID)
            if not j:
                layout.end_query()
            digits = [Symbol(2 + 2 * j, k) for k in range(first + 1)]
            for place, symbol in enumerate([*digits, zero], 1):
                layout.add(symbol, 3 * place, j, j + place + 1)
        layout.add("*", 2, 0, NO_ID)
        for place in range(1, first + 3):
            layout.add("*", 3 * place + 2, 0, place)
        for j in range(second):
            digits = [Symbol(3 + 2 * j, j + k) for k in range(first + 1)]
            for place, symbol in enumerate([">", *digits, zero]):
                layout.add(symbol, 3 * place + 2, j + 1, j + place + 1)
        answer = [Symbol(1 + 2 * second, i) for i in range(first + second)]
        for place, symbol in enumerate([">", *answer, zero]):
            layout.add(symbol, NO_ID, min(place, second - 1) + 1, place + 1)
        return layout
