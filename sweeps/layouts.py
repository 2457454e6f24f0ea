"""Two published formats, each with a change of ours that lets models go on to larger problems.

Part of their trials' identity is this file, so a change in it means new runs.
"""

from dataclasses import dataclass

from pcore.tasks import Layout
from pcore.tasks.minesweeper import Minesweeper
from pcore.tasks.multiplication import Multiplication


@dataclass(frozen=True, kw_only=True)
class Ahead(Minesweeper):
    """`=` and each token of the response have the IDs of the cell that comes next, 0 on both levels
    at the end, so that no model has to find out where a row ends.
    """

    def layout(self, shape: tuple[int, ...]) -> Layout:
        layout = super().layout(shape)
        equals = layout.num_query - 1
        layout.relative_ids = [
            *layout.relative_ids[:equals],
            *layout.relative_ids[equals + 1 :],
            (0, 0),
        ]
        return layout


@dataclass(frozen=True, kw_only=True)
class ShortSums(Multiplication):
    """With a scratchpad, running sum j ends where product j does, after N + j + 1 digits instead of
    N + M, so that no model has to find the longest product.
    """

    def layout(self, shape: tuple[int, ...]) -> Layout:
        padded = super().layout(shape)
        first, second = shape
        if not self.scratchpad:
            return padded
        layout, per_sum = Layout(), first + second + 1  # separator and digits
        before = len(padded.sources) - second * per_sum
        for place, (source, ids) in enumerate(
            zip(padded.sources, padded.relative_ids, strict=True)
        ):
            j, k = divmod(place - before, per_sum)
            if place < before or k <= first + j + 1:
                layout.add(source, *ids)
            if place + 1 == padded.num_query:
                layout.end_query()
        return layout
