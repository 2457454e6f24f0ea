"""N x M multiplication with a scratchpad whose products and sums are rows of equal form.

Part of its trials' identity is this file, so a change in it means new runs.
"""

from dataclasses import dataclass

from pcore.tasks import NO_ID, Layout, Symbol
from pcore.tasks.multiplication import Multiplication


@dataclass(frozen=True, kw_only=True)
class ProductRows(Multiplication):
    """Products of A and each digit of B, then running sums from sum 1 on: sum 0 is product 0.

    A product has N + 2 digits, the highest 0, sum j the N + 2 from its digit j on: those below are
    final. Product M, of A and `*`, is 0; so the answer is sum M, after the final digits below it.

    L1 couples A with the digits of each row (A has odd, rows even IDs). L2 numbers rows: 2j for sum
    j, and so for product 0; 2j + 1 for the other products; one more for digit j of B than for
    product j. L3 is significance. Sum j adds product j (L2: one more) and sum j - 1 (two less); in
    the answer, the final digit of sum j stands where sum j + 1 would have it. `*` has the IDs that
    come next in A and in B, and on L3 the last of the answer: rows end where it ends A, products
    where it ends B.

        5*79  tok  $ 5 * 7 9 = 5 4 0 + 5 3 0 + 0 0 0 > 9 3 0 = 5 9 3 0 0 $
              L1   . 5 7 . . 2 4 6 8 2 4 6 8 2 4 6 8 2 4 6 8 0 0 2 4 6 8 .
              L2   . . 6 4 1 0 0 0 0 3 3 3 3 5 5 5 5 2 2 2 2 2 4 4 4 4 4 .
              L3   . . 5 . . 0 1 2 3 1 2 3 4 2 3 4 5 1 2 3 4 0 1 2 3 4 5 .

    As published, sum 0 is product 0 once more, so that a model which adds product j - 1 in place of
    sum j - 1 has sum 1 right; sums repeat all digits; nothing shows an end; L2 and L3 are equal in
    product j and sum j.
    """

    def layout(self, shape: tuple[int, ...]) -> Layout:
        if not self.scratchpad:
            return super().layout(shape)
        first, second = shape
        zero = Symbol(0, first)  # A has no such digit
        products = [0, *range(3, 2 * second + 2, 2)]  # their IDs on L2, that of `*` included
        layout = Layout()
        for k in self._order(first):
            layout.add(Symbol(0, k), 2 * k + 5, NO_ID, NO_ID)
        layout.add("*", 2 * first + 5, products[second] + 1, first + second + 2)
        for j in self._order(second):
            layout.add(Symbol(1, j), NO_ID, products[j] + 1, NO_ID)
        for j in range(second + 1):
            digits = [Symbol(2 + 2 * j, k) if j < second else zero for k in range(first + 1)]
            for place, symbol in enumerate(["+" if j else "=", *digits, zero]):
                layout.add(symbol, 2 * place + 2, products[j], j + place)
                if not layout.num_query:  # after the first `=`
                    layout.end_query()
        for j in range(1, second):
            digits = [Symbol(3 + 2 * j, j + k) for k in range(first + 1)]
            for place, symbol in enumerate([">", *digits, zero]):
                layout.add(symbol, 2 * place + 2, 2 * j, j + place)
        answer = [Symbol(1 + 2 * second, i) for i in range(first + second)]
        for place, symbol in enumerate(["=", *answer, zero, zero]):
            row = min(place, second - 1)
            layout.add(symbol, 2 * (place - row), 2 * row + 2, place)
        return layout
