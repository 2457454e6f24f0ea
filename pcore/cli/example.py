"""One example of a task as text: tokens over relative IDs over position IDs."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pcore.cli.screen import align_labelled
from pcore.tasks import Batch, Task
from pcore.tasks.base import NO_ID

NOTHING = "."  # printed where a token has no ID


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """One example."""

    levels: tuple[str, ...]
    tokens: list[str]
    relative_ids: list[list[int | None]]  # by level; None = no ID
    position_ids: list[list[int]]  # by level; 0 = no ID
    response: str  # without EOS
    num_context: int  # tokens up to and including '='

    def to_json(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "tokens": self.tokens,
            "relative_ids": self.relative_ids,
            "position_ids": self.position_ids,
            "response": self.response,
        }


def make_example(task: Task, query: str, start: int) -> Example:
    """The example of a typed query with counting from `start` on every level."""
    return show_batch(task, task.encode(query), start)


def show_batch(task: Task, batch: Batch, start: int) -> Example:
    """The first example of a batch with counting from `start` on every level."""
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
    return dataclasses.replace(given.for_query(query), **options)


def format_example(
    example: Example, width: int | None = None, *, with_positions: bool = True
) -> str:
    """Aligned rows: tokens over relative IDs over position IDs, one row per level.

    width: columns of the screen at which long examples are continued below; None = never.
    """
    rows, kinds = [("token", example.tokens)], {"relative ID": example.relative_ids}
    if with_positions:
        kinds["position ID"] = [[i or None for i in level] for level in example.position_ids]
    for kind, by_level in kinds.items():
        for level, ids in zip(example.levels, by_level, strict=True):
            label = f"{kind} ({level})" if len(example.levels) > 1 else kind
            rows.append((label, [NOTHING if i is None else str(i) for i in ids]))
    return align_labelled(rows, width)
