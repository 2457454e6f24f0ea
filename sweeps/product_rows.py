"""N x M multiplication with a scratchpad whose products and sums are rows of equal form.

Part of its trials' identity is this file, so a change in it means new runs.
"""

from dataclasses import dataclass

from pcore.tasks import NO_ID, Layout, Symbol
from pcore.tasks.multiplication import Multiplication


@dataclass(frozen=True, kw_only=True)
class ProductRows(Multiplication):
    """Product j of A and a digit of B, then running sum j from 1 on (sum 0 is product 0), has N + 2
    digits, the highest 0; sum j begins at its digit j: those below are final. A last row puts the
    answer together: its digit i is the first of sum i, and from the last sum on a digit of that.

    L1 couples A with the digits of each row (A has odd, rows even IDs); L2 numbers rows: 3j + 1 for
    product j, 3j for sum j and for product 0, 3j + 2 for what the last row has of sum j and for
    digit j of B, but 1 for digit 0; L3 is significance. Sum j adds product j (L2: one more) and sum
    j - 1 (three less). A product begins with its digit of B, the sums with `*`: at the end of a
    product, the token to copy is four on, or five from product 0, on L2. `*` has the IDs that would
    come next in A, in B and in the answer.

        59*79  tok  $ 5 9 * 7 9 = 1 3 5 0 7 3 1 4 0 * 6 6 4 0 = 1 6 6 4 0 $
               L1   . 5 3 7 . . 0 2 4 6 8 0 2 4 6 8 0 2 4 6 8 0 0 2 4 6 8 .
               L2   . . . 8 5 1 0 0 0 0 0 4 4 4 4 4 3 3 3 3 3 2 5 5 5 5 5 .
               L3   . . . 5 . . 0 1 2 3 4 1 2 3 4 5 1 2 3 4 5 0 1 2 3 4 5 .

    As published, sums repeat all digits, sum 0 is product 0 once more, nothing shows an end, and L2
    and L3 are equal in product j and sum j, of which sum j + 1 needs the second.
    """

    def layout(self, shape: tuple[int, ...]) -> Layout:
        if not self.scratchpad:
            return super().layout(shape)
        first, second = shape
        layout = Layout()
        for k in self._order(first):
            layout.add(Symbol(0, k), 2 * k + 3, NO_ID, NO_ID)
        layout.add("*", 2 * first + 3, 3 * second + 2, first + second + 1)
        for j in self._order(second):
            layout.add(Symbol(1, j), NO_ID, 3 * j + 2 if j else 1, NO_ID)
        zero = Symbol(0, first)  # A has no such digit
        for j in range(second):
            digits = [Symbol(2 + 2 * j, k) for k in range(first + 1)]
            for place, symbol in enumerate([Symbol(1, j) if j else "=", *digits, zero]):
                layout.add(symbol, 2 * place, 3 * j + 1 if j else 0, j + place)
                if not layout.num_query:  # after the first `=`
                    layout.end_query()
        for j in range(1, second):
            digits = [Symbol(3 + 2 * j, j + k) for k in range(first + 1)]
            for place, symbol in enumerate([">" if j > 1 else "*", *digits, zero]):
                layout.add(symbol, 2 * place, 3 * j, j + place)
        answer = [Symbol(1 + 2 * second, i) for i in range(first + second)]
        for place, symbol in enumerate(["=" if second > 1 else "*", *answer, zero]):
            row = min(place, second - 1)
            layout.add(symbol, 2 * (place - row), 3 * row + 2, place)
        return layout
