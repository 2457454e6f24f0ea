"""Minesweeper, published format, with a change of ours that lets models go on to larger boards.

Part of their trials' identity is this file, so a change in it means new runs.
"""

from dataclasses import dataclass

from pcore.tasks import Layout
from pcore.tasks.minesweeper import Minesweeper


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
