"""The `pcore` command: show examples, train, query and explain models, check code.

    pcore show addition 653+49                     pcore train --preset small
    pcore show addition 653+49 --no-zero-pad       pcore train --model.num_layers 2 --out m.pt
    pcore show addition 653+49 --picture a.png     pcore solve m.pt 12+34 5+678
    pcore explain m.pt --length 20

Options of tasks and trials are made from the fields of their configuration (`pcore.cli.parser`).
The module of a command is imported when it is given, so that `pcore --help` answers without torch.
"""

import importlib
import sys
from collections.abc import Sequence

from pcore.cli.parser import (
    COMMANDS,
    EXPECTED,
    Parser,
    end_command,
    find_own_code,
    first_line,
    is_out_of_memory,
)
from pcore.cli.text import plain_output
from pcore.registry import nearest


@plain_output()
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(words)
    except EXPECTED as error:
        return end_command("pcore", error)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return end_command("pcore", ValueError(f"not enough memory: {first_line(error)}"))


def _run(words: list[str]) -> int:
    if not words or words[0].startswith("-"):
        _overview().parse_args(words or ["--help"])
        return 0
    name = words[0]
    if name not in COMMANDS:
        raise ValueError(f"unknown command {name!r}.{nearest(name, COMMANDS)}")
    find_own_code()
    module = importlib.import_module(f"pcore.cli.{COMMANDS[name].module}")
    return getattr(module, name.replace("-", "_"))(words[1:])


def _overview() -> Parser:
    parser = Parser(
        prog="pcore",
        description="Length generalization of small Transformers on arithmetic.",
        epilog="See `pcore COMMAND --help` for details.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, command in COMMANDS.items():
        commands.add_parser(name, help=command.summary)
    return parser
