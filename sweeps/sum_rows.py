"""Addition of many operands with running sums in which each addend is a fixed step before.

Part of its trials' identity is this file, so a change in it means new runs.
"""

from dataclasses import dataclass

from pcore.tasks import Layout, Symbol
from pcore.tasks.addition import Addition, response_width


@dataclass(frozen=True, kw_only=True)
class SumRows(Addition):
    """Running sums of 2 to M operands, on one level of IDs.

    row_step: the step of IDs from row to row, at least 2 more than a sum has digits.

    Rows have the digits of the largest sum and end in the separator that follows the operand: `+`
    if there is one more, else `=`. An ID is significance plus a multiple of `row_step`: 2j - 1 for
    operand j, 2j for the sum that it ends, 0 for the first operand, which is the sum before. So the
    addends of a digit, and whether another sum follows, are one and two steps back.

        57+48+96  tok  $ 0 5 7 + 0  4  8  +  0  9  6  =  >  5  0  1  +  >  1  0  2  = $
                  rel  . 3 2 1 4 23 22 21 24 63 62 61 64 40 41 42 43 44 80 81 82 83 84 .
    """

    row_step: int = 20

    @property
    def levels(self) -> tuple[str, ...]:
        return ("row",) if self.scratchpad else super().levels

    def layout(self, shape: tuple[int, ...]) -> Layout:
        if not self.scratchpad:
            return super().layout(shape)
        num_operands, length = shape
        width = response_width(num_operands, length)
        if width + 2 > self.row_step:
            raise ValueError(f"row_step={self.row_step} is below {width + 2}, the tokens of a row")
        layout, ends = Layout(), ["+"] * (num_operands - 1) + ["="]
        for operand, end in enumerate(ends):
            row = max(2 * operand - 1, 0) * self.row_step
            for k in reversed(range(width)):
                layout.add(Symbol(2 * operand + 1, k), row + k + 1)
            layout.add(end, row + width + 1)
        layout.end_query()
        for operand, end in enumerate(ends[1:], 1):
            row = 2 * operand * self.row_step
            layout.add(">", row)
            for k in range(width):
                layout.add(Symbol(2 * operand + 2, k), row + k + 1)
            layout.add(end, row + width + 1)
        return layout
