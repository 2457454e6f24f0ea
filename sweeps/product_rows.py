"""N x M multiplication with a scratchpad in which both addends of a sum have the same IDs.

Part of its trials' identity is this file, so a change in it means new runs.
"""

from dataclasses import dataclass

from pcore.tasks import NO_ID, Layout, Symbol
from pcore.tasks.multiplication import Multiplication


@dataclass(frozen=True, kw_only=True)
class ProductRows(Multiplication):
    """Products of A and each digit of B, then running sums: sum j adds product j and sum j - 1.

    Rows have N + 1 digits and end in `*`, which counts as 0: a sum ends where its product does.
    Product j follows digit j of B. Behind the last, where B has no digit left, comes a row of `*`:
    the sum before sum 0. Sum j begins at digit j, since those below are final. Last, the answer
    repeats these and the last sum.

    L1 couples A, odd, with the digits of products, even, as are separators and the answer, at 0. L2
    is j for digit j of B, product j and sum j - 1; L3 is significance. So the addends of a digit of
    sum j are the two digits with its L3 and one less on L2, and one head finds both; the answer is
    one more on L2 than the sum that it copies. `*` in the query ends A and B. Sums have no L1: with
    one, the same place of every row would agree with the addends on it, and rows that are further
    apart than trained ones would draw attention.

        5*79  tok  $ 5 * 7 9 = 9 5 4 * + 7 5 3 * + * * * * > 5 4 * > 9 3 * > 5 9 3 * $
               L1  . 5 7 . . 0 2 4 6 8 0 2 4 6 8 0 3 5 7 9 . . . . . . . . 0 0 0 0 0 .
               L2  . . 2 1 0 0 0 0 0 0 1 1 1 1 1 2 0 0 0 0 1 1 1 1 2 2 2 2 2 3 3 3 3 .
               L3  . . . . . . . 2 3 4 . . 3 4 5 . . 1 2 3 1 2 3 4 2 3 4 5 1 2 3 4 5 .
    """

    def layout(self, shape: tuple[int, ...]) -> Layout:
        if not self.scratchpad:
            return super().layout(shape)
        first, second = shape
        layout = Layout()
        for k in self._order(first):
            layout.add(Symbol(0, k), 2 * k + 5, NO_ID, NO_ID)
        layout.add("*", 2 * first + 5, second, NO_ID)
        for j in self._order(second):
            layout.add(Symbol(1, j), NO_ID, j, NO_ID)
        for j in range(second):
            layout.add("+" if j else "=", 0, j, NO_ID)
            if not j:
                layout.end_query()
            layout.add(Symbol(1, j), 2, j, NO_ID)
            digits = [Symbol(2 + 2 * j, k) for k in range(first + 1)]
            for place, symbol in enumerate([*digits, "*"], 1):
                layout.add(symbol, 2 * place + 2, j, j + place + 1)
        layout.add("+", 0, second, NO_ID)
        for place in range(first + 3):  # the first `*` has no ID on L3
            layout.add("*", 2 * place + 3, 0, place or NO_ID)
        for j in range(second):
            digits = [Symbol(3 + 2 * j, j + k) for k in range(first + 1)]
            for place, symbol in enumerate([">", *digits, "*"]):
                layout.add(symbol, NO_ID, j + 1, j + place + 1)
        answer = [Symbol(1 + 2 * second, i) for i in range(first + second)]
        for place, symbol in enumerate([">", *answer, "*"]):
            layout.add(symbol, 0, min(place, second - 1) + 2, place + 1)
        return layout
