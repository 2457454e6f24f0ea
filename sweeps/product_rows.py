"""N x M multiplication with a scratchpad whose products and sums are rows of equal form.

Part of its trials' identity is this file, so a change in it means new runs.
"""

from dataclasses import dataclass

from pcore.tasks import NO_ID, Layout, Symbol
from pcore.tasks.multiplication import Multiplication


@dataclass(frozen=True, kw_only=True)
class ProductRows(Multiplication):
    """Product j has N + 1 digits, running sum j the N + 1 from its digit j on: those below are
    final. A last row puts the answer together: its digit i is the first of sum i, and from the last
    sum on a digit of that.

    L1 couples A with the digits of each row (A has odd, rows even IDs); L2 numbers rows: 3j for
    product j, 3j + 1 for sum j, 3j + 2 for digit j of B and for what the last row has of sum j; L3
    is significance. Sum j adds product j (L2: one less) and sum j - 1 (three less); the last row
    copies sum j as sum 0 copies product 0. `*` has the IDs that would come next in A, in B and in
    the answer: it shows where rows, and their number, end.

        59*79  tok  $ 5 9 * 7 9 = 1 3 5 + 3 1 4 = 1 3 5 > 6 6 4 = 1 6 6 4 $
               L1   . 5 3 7 . . 0 2 4 6 0 2 4 6 0 2 4 6 0 2 4 6 0 0 2 4 6 .
               L2   . . . 8 5 2 0 0 0 0 3 3 3 3 1 1 1 1 4 4 4 4 2 5 5 5 5 .
               L3   . . . 5 . . 0 1 2 3 1 2 3 4 0 1 2 3 1 2 3 4 0 1 2 3 4 .

    As published, sums repeat all digits, nothing shows an end, and L2 and L3 are equal in product j
    and sum j, of which sum j + 1 needs the second.
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
            layout.add(Symbol(1, j), NO_ID, 3 * j + 2, NO_ID)
        for is_sum in (False, True):
            for j in range(second):
                separator = (">" if is_sum else "+") if j else "="
                lowest = j if is_sum else 0
                digits = [Symbol(2 + 2 * j + is_sum, lowest + k) for k in range(first + 1)]
                for place, symbol in enumerate([separator, *digits]):
                    layout.add(symbol, 2 * place, 3 * j + is_sum, j + place)
                    if not layout.num_query:  # after the first separator
                        layout.end_query()
        answer = [Symbol(2 * second + 1, i) for i in range(first + second)]
        for place, symbol in enumerate(["=", *answer]):
            row = min(place, second - 1)
            layout.add(symbol, 2 * (place - row), 3 * row + 2, place)
        return layout
