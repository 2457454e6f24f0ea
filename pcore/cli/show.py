"""`pcore show`: a typed query as the model sees it.

$ pcore show addition 653+49
token        $ 6 5 3 + 0 4 9 = 2 0 7 0 $
relative ID  . 3 2 1 0 3 2 1 0 1 2 3 4 .
position ID  . 4 3 2 1 4 3 2 1 2 3 4 5 .
"""

import dataclasses
import inspect
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pcore.cli.parser import (
    add_fields,
    command_parser,
    given_fields,
    strip_equals,
)
from pcore.cli.text import align_labelled
from pcore.config import known_fields
from pcore.registry import describe_error, nearest, resolve
from pcore.tasks import TASKS, Batch, Task
from pcore.tasks.base import NO_ID

POSITION = "position ID"
NOTHING = "."  # printed where a token has no ID
HELP = """\
QUERY is e.g. 653+49.

Options of the task are flags named like its fields: `pcore show addition --help` lists them.
Options not given follow from the query where possible (the number of operands, for instance)."""


def show(words: list[str]) -> int:
    """Print one example, or draw it."""
    parser = command_parser("show", HELP)
    parser.add_argument("task", metavar="TASK")
    parser.add_argument("query", metavar="QUERY")
    parser.add_argument("--start", type=int, default=1, help="where counting starts (default 1)")
    parser.add_argument("--picture", metavar="FILE", help="draw tokens coloured by their ID")
    if not words or words in (["-h"], ["--help"]):
        parser.parse_args(words or ["--help"])
    cls = _find_task(words)
    fields = {n.removeprefix("task."): a for n, a in known_fields(cls).items() if "task." in n}
    del fields["name"]
    defaults = {field.name: field.default for field in dataclasses.fields(cls)}
    add_fields(parser, fields, defaults)
    parser.epilog = f"{inspect.getdoc(cls) or ''}\n\n{HELP}"
    args = parser.parse_args(words)
    options = given_fields(args, fields)
    if args.start < 1:
        raise ValueError(f"--start {args.start} is below 1")
    query = strip_equals(args.query)
    task = choose_task(cls, options, query)
    example = show_batch(task, task.encode(query), args.start)
    if args.picture:
        from pcore.cli.picture import draw_example  # matplotlib takes a second to import

        draw_example(example, Path(args.picture), title=f"{args.task} {args.query}")
        print(args.picture)
        return 0
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(format_example(example, width))
    return 0


def _find_task(words: list[str]) -> type[Task]:
    """The task among the words, wherever it stands: options of a task are known only with it."""
    arguments = [word for word in words if not word.startswith("-")]
    if not arguments:
        raise ValueError(f"TASK is missing.{nearest('', TASKS)}")
    names = (word for word in arguments if word in TASKS or ":" in word)
    return find_task(next(names, arguments[0]))


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """One example."""

    levels: tuple[str, ...]
    tokens: list[str]
    ids: dict[str, list[list[int | None]]]  # by kind and level; None = no ID


def show_batch(task: Task, batch: Batch, start: int | None = None) -> Example:
    """The first example of a batch: relative IDs and, with a start, position IDs."""
    relative_ids = batch.relative_ids[0].t().tolist()
    starts = {"relative ID": 0} if start is None else {"relative ID": 0, POSITION: start}
    return Example(
        levels=task.levels,
        tokens=task.vocab.decode(batch.tokens[0].tolist()),
        ids={
            kind: [[None if i == NO_ID else first + i for i in level] for level in relative_ids]
            for kind, first in starts.items()
        },
    )


def choose_task(cls: type[Task], options: Mapping[str, Any], query: str) -> Task:
    """A task with the options given; those not given are inferred from the query where it can."""
    try:
        given = cls(**options)
    except ValueError:  # perhaps only together with what the query decides
        given = cls()
    return dataclasses.replace(given.for_query(query), **options)


def format_example(example: Example, width: int | None = None) -> str:
    """Aligned rows: tokens over relative IDs over position IDs, one row per level.

    width: columns of the screen at which long examples are continued below; None = never.
    """
    rows = [("token", example.tokens)]
    for kind, by_level in example.ids.items():
        for level, ids in zip(example.levels, by_level, strict=True):
            label = f"{kind} ({level})" if len(example.levels) > 1 else kind
            rows.append((label, [NOTHING if i is None else str(i) for i in ids]))
    return align_labelled(rows, width)


def find_task(name: str) -> type[Task]:
    """The class of a task. Raises ValueError if none can be made with its default options."""
    cls = resolve(name, TASKS, "task")
    try:
        cls()
    except Exception as error:  # own code may raise anything
        raise ValueError(f"{name} is not a valid task: {describe_error(error)}") from error
    return cls
