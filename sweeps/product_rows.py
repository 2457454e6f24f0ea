"""N x M multiplication with a scratchpad in which each product and each sum is a row of its own.

Part of its trials' identity is this file, so a change in it means new runs.
"""

from dataclasses import dataclass

from pcore.tasks import NO_ID, Layout, Symbol
from pcore.tasks.multiplication import Multiplication


@dataclass(frozen=True, kw_only=True)
class ProductRows(Multiplication):
    """As published, but product j begins with the j zeros of its shift, and running sum j ends
    where product j does, after N + j + 1 digits instead of N + M.

    L1 couples A with the digits of products and sums (A has odd, these even IDs); L2 numbers rows:
    3j for product j, 3j + 1 for sum j, 3j + 2 for digit j of B; L3 is true significance. `*` has
    the IDs of the digits that would come next in A and B: it shows where products, and rows, end.
    Sums count on below the first digit of A, so that each digit of a sum has all three IDs. In the
    published IDs nothing shows an end, and L2 and L3 are equal in product j and sum j, of which sum
    j + 1 needs the second:

        59*79  tok  $ 5 9 * 7 9 = 1 3 5 + 0 3 1 4 = 1 3 5 > 1 6 6 4 $
               L1   . 7 5 9 . . 2 4 6 8 . 2 4 6 8 2 4 6 8 0 2 4 6 8 .
               L2   . . . 8 5 2 0 0 0 0 3 3 3 3 3 1 1 1 1 4 4 4 4 4 .
               L3   . . . . . . 0 1 2 3 0 1 2 3 4 0 1 2 3 0 1 2 3 4 .
    """

    def layout(self, shape: tuple[int, ...]) -> Layout:
        if not self.scratchpad:
            return super().layout(shape)
        first, second = shape
        layout = Layout()
        lowest = 2 * (second - 1)  # of A's digits; sums begin up to this far below
        for k in self._order(first):
            layout.add(Symbol(0, k), lowest + 2 * k + 3, NO_ID, NO_ID)
        layout.add("*", lowest + 2 * first + 3, 3 * second + 2, NO_ID)
        for j in self._order(second):
            layout.add(Symbol(1, j), NO_ID, 3 * j + 2, NO_ID)
        for is_sum in (False, True):
            for j in range(second):
                separator = (">" if is_sum else "+") if j else "="
                product = [*j * ["0"], *(Symbol(2 + 2 * j, k) for k in range(first + 1))]
                running = [Symbol(3 + 2 * j, k) for k in range(first + j + 1)]
                for place, symbol in enumerate([separator, *(running if is_sum else product)]):
                    digit_of_a = lowest + 2 * (place - j) if is_sum or place >= j else NO_ID
                    layout.add(symbol, digit_of_a, 3 * j + is_sum, place)
                    if not layout.num_query:  # after the first separator
                        layout.end_query()
        return layout
