"""N x M multiplication with a scratchpad in which each addend of a sum is a fixed step before it.

Part of its trials' identity is this file, so a change in it means new runs.
"""

from dataclasses import dataclass

from pcore.tasks import NO_ID, Layout, Symbol
from pcore.tasks.multiplication import Multiplication


@dataclass(frozen=True, kw_only=True)
class ProductRows(Multiplication):
    """Products of A and each digit of B, then running sums: sum j adds product j and sum j - 1.

    row_step: the step of L3 from row to row, at least N + 3, the tokens of the longest row.

    Rows have N + 1 digits and end in `*`, which counts as 0: a sum ends where its product does.
    Product j follows digit j of B. Behind the last, where B has no digit left, comes a row of `*`:
    the sum before sum 0. Sum j begins at digit j, since those below are final. Last, the answer
    repeats these and the last sum.

    L1 couples A, odd, with the digits of products, even, as are separators and the answer, at 0. L2
    is j for digit j of B and product j. L3 is significance plus a multiple of `row_step`: 2j + 1
    for product j, 2j + 2 for sum j. So the addends of a digit of sum j are the two digits one and
    two steps back on L3, and the answer is two steps ahead of the sum that it copies. `*` in the
    query ends A and B. No key is looked up by two levels: where one agrees and the other is just
    beyond trained distances, it would draw attention.

        5*79  tok  $ 5 * 7 9 = 9  5  4  * +  7  5  3  * + * * * *
               L1  . 5 7 . . 0 2  4  6  8 0  2  4  6  8 0 3 5 7 9
               L2  . . 2 1 0 0 0  0  0  0 1  1  1  1  1 2 . . . .
               L3  . . . . . . . 22 23 24 . . 63 64 65  . . 1 2 3

              tok  >  5  4  *  >  9  3  *  >   5   9   3   * $
               L1  .  .  .  .  .  .  .  .  0   0   0   0   0 .
               L2  .  .  .  .  .  .  .  .  .   .   .   .   . .
               L3 41 42 43 44 82 83 84 85 81 122 123 124 125 .
    """

    row_step: int = 20

    def layout(self, shape: tuple[int, ...]) -> Layout:
        if not self.scratchpad:
            return super().layout(shape)
        first, second = shape
        if first + 3 > self.row_step:
            raise ValueError(f"row_step={self.row_step} is below {first + 3}, the tokens of a row")
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
                row = (2 * j + 1) * self.row_step
                layout.add(symbol, 2 * place + 2, j, row + j + place + 1)
        layout.add("+", 0, second, NO_ID)
        for place in range(first + 3):  # the first `*` has no ID on L3
            layout.add("*", 2 * place + 3, NO_ID, place or NO_ID)
        for j in range(second):
            digits = [Symbol(3 + 2 * j, j + k) for k in range(first + 1)]
            for place, symbol in enumerate([">", *digits, "*"], j + 1):
                layout.add(symbol, NO_ID, NO_ID, (2 * j + 2) * self.row_step + place)
        answer = [Symbol(1 + 2 * second, i) for i in range(first + second)]
        for place, symbol in enumerate([">", *answer, "*"]):
            row = 2 * min(place, second - 1) + 4
            layout.add(symbol, 0, NO_ID, row * self.row_step + place + 1)
        return layout
