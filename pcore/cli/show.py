"""`pcore show`: a typed query as the model sees it.

$ pcore show addition 653+49
token        $ 6 5 3 + 0 4 9 = 2 0 7 0 $
relative ID  . 3 2 1 0 3 2 1 0 1 2 3 4 .
position ID  . 4 3 2 1 4 3 2 1 2 3 4 5 .
"""

import argparse
import dataclasses
import inspect
import json
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pcore.cli.example import choose_task, format_example, make_example
from pcore.cli.flags import take_flags
from pcore.cli.own_code import find_task
from pcore.cli.parser import FAILED, STDIN, command_parser, fixed_flags, strip_equals
from pcore.config import known_fields
from pcore.registry import nearest
from pcore.tasks import TASKS, Task

HELP = """\
QUERY is e.g. 653+49. With - queries are read from standard input, one per line (empty lines are
skipped), and one JSON object is printed for each; an invalid query gives {"error": ..., "query":
...} instead, and the exit code is 1.

Options of the task are flags named like its fields: `pcore show addition --help` lists them.
Booleans: --zero-pad, --no-zero-pad, --zero-pad false, --zero-pad=false. Options not given follow
from the query where possible (the number of operands, for instance)."""


def show(words: list[str]) -> int:
    """Print one example, or one JSON object per line of standard input."""
    parser = command_parser("show", HELP)
    parser.add_argument("task", metavar="TASK")
    parser.add_argument("query", metavar="QUERY")
    parser.add_argument("--start", type=int, default=1, help="where counting starts (default 1)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--picture", metavar="FILE", help="draw tokens coloured by their ID")
    if not words or words in (["-h"], ["--help"]):
        parser.parse_args(words or ["--help"])
    cls = _find_task(words)
    parser.epilog = f"{_list_fields(cls)}\n\n{HELP}"
    options, rest = take_flags(words, _task_fields(cls), fixed_flags(parser))
    args = parser.parse_args(rest)
    if args.start < 1:
        raise ValueError(f"--start {args.start} is below 1")
    if args.query == STDIN:
        if args.picture:
            raise ValueError("--picture draws one query, not those of standard input")
        return _show_lines(cls, options, sys.stdin, args.start)
    return _show_one(cls, options, args)


def _show_one(cls: type[Task], options: dict[str, Any], args: argparse.Namespace) -> int:
    query = strip_equals(args.query)
    example = make_example(choose_task(cls, options, query), query, args.start)
    if args.json:
        print(json.dumps(example.to_json(), ensure_ascii=False))
    elif not args.picture:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print(format_example(example, width))
    if args.picture:
        from pcore.cli.picture import draw_example  # matplotlib takes a second to import

        draw_example(example, Path(args.picture), title=f"{args.task} {args.query}")
        if not args.json:
            print(args.picture)
    return 0


def _show_lines(cls: type[Task], options: dict[str, Any], lines: Iterable[str], start: int) -> int:
    cls(**options)  # an impossible format is wrong use, not a bad line
    code = 0
    for line in lines:
        if not (query := strip_equals(line.strip())):
            continue
        try:
            answer = make_example(choose_task(cls, options, query), query, start).to_json()
        except ValueError as error:
            answer, code = {"error": str(error), "query": query}, FAILED
        print(json.dumps(answer, ensure_ascii=False), flush=True)
    return code


def _find_task(words: list[str]) -> type[Task]:
    """The task among the words, wherever it stands: options of a task are known only with it."""
    arguments = [word for word in words if not word.startswith("-")]
    if not arguments:
        raise ValueError(f"TASK is missing.{nearest('', TASKS)}")
    names = (word for word in arguments if word in TASKS or ":" in word)
    return find_task(next(names, arguments[0]))


def _task_fields(cls: type[Task]) -> dict[str, Any]:
    names = {n.removeprefix("task."): a for n, a in known_fields(cls).items() if "task." in n}
    del names["name"]
    return names


def _list_fields(cls: type[Task]) -> str:
    """The options of a task with their defaults, and what its docstring says of them."""
    defaults = [f"  --{f.name.replace('_', '-')} {f.default}" for f in dataclasses.fields(cls)]
    text = inspect.getdoc(cls) or ""
    return "\n".join(["options of the task, with defaults:", *defaults, "", text])
