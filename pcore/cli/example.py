"""What a person typed, as the model sees it: tokens, relative IDs and position IDs.

$ pcore show addition 653+49
token        $ 6 5 3 + 0 4 9 = 2 0 7 0 $
relative ID  . 3 2 1 0 3 2 1 0 1 2 3 4 .
position ID  . 4 3 2 1 4 3 2 1 2 3 4 5 .
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pcore.tasks import Task
from pcore.tasks.base import NO_ID

NOTHING = "."  # stands where a token has no ID


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """One example. IDs are one list per level: relative with None, position with 0 for no ID.

    num_context: tokens up to and including '='. response: text without EOS.
    """

    levels: tuple[str, ...]
    tokens: list[str]
    relative_ids: list[list[int | None]]
    position_ids: list[list[int]]
    response: str
    num_context: int

    def to_json(self) -> dict[str, Any]:
        return {
            "tokens": self.tokens,
            "relative_ids": self.relative_ids,
            "position_ids": self.position_ids,
            "response": self.response,
        }


def make_example(task: Task, query: str, start: int) -> Example:
    """The example of a typed query with counting from `start` on every level."""
    batch = task.encode(query)
    relative_ids: list[list[int | None]] = [
        [None if i == NO_ID else i for i in level] for level in batch.relative_ids[0].t().tolist()
    ]
    return Example(
        levels=task.levels,
        tokens=task.vocab.decode(batch.tokens[0].tolist()),
        relative_ids=relative_ids,
        position_ids=[[0 if i is None else start + i for i in level] for level in relative_ids],
        response=task.decode(batch.tokens[0])[1],
        num_context=int((~batch.response_mask[0]).sum()),
    )


def choose_task(cls: type[Task], options: Mapping[str, Any], query: str) -> Task:
    """A task with the options given; those not given are inferred from the query where it can."""
    try:
        given = cls(**options)
    except ValueError:  # perhaps only together with what the query decides
        given = cls()
    return replace(given.for_query(query), **options)


def format_example(example: Example, width: int | None = None) -> str:
    """Aligned rows: tokens over relative IDs over position IDs, one row per level.

    width: columns of the screen at which long examples are continued below; None = never.
    """
    rows = [("token", example.tokens)]
    for kind, by_level in (
        ("relative ID", example.relative_ids),
        ("position ID", [[i or None for i in level] for level in example.position_ids]),
    ):
        for level, ids in zip(example.levels, by_level, strict=True):
            label = f"{kind} ({level})" if len(example.levels) > 1 else kind
            rows.append((label, [NOTHING if i is None else str(i) for i in ids]))
    return align_rows(rows, width)


def align_rows(rows: list[tuple[str, list[str]]], width: int | None = None) -> str:
    """Labelled rows of equally many cells in aligned columns, in blocks at most `width` wide."""
    margin = max(len(label) for label, _ in rows) + 1
    widths = [max(map(len, column)) for column in zip(*(cells for _, cells in rows), strict=True)]
    blocks: list[str] = []
    first = 0
    while first < len(widths):
        end, used = first, margin
        while end < len(widths) and (
            width is None or used + 1 + widths[end] <= width or end == first
        ):
            used += 1 + widths[end]
            end += 1
        blocks.append(
            "\n".join(
                f"{label:<{margin}} "
                + " ".join(f"{cells[i]:>{widths[i]}}" for i in range(first, end))
                for label, cells in rows
            )
        )
        first = end
    return "\n\n".join(blocks)
