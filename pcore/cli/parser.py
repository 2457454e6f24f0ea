"""The list of `pcore` commands, and the parser that they share."""

import argparse
import os
import re
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from pcore.registry import nearest

WRONG_USE = 2  # exit code of every error that the user can fix
FAILED = 1  # a line of standard input, a check or the training failed
INTERRUPTED = 130  # Ctrl-C ended it
EXPECTED = (ValueError, OSError, KeyboardInterrupt)  # ends of a command; see `end_command`
STDIN = "-"


class Command(NamedTuple):
    """module: file of this folder with the function that runs it, which has its name."""

    module: str
    summary: str


COMMANDS = {
    "show": Command("show", "Print tokens, relative IDs and position IDs of an example."),
    "train": Command("train", "Train one configuration."),
    "solve": Command("trained", "Answer queries with a trained model, next to the truth."),
    "explain": Command("trained", "Print why a trained model fails at a length."),
    "new": Command("own_code", "Write an encoding, task, attention or mixer to start from."),
    "check-encoding": Command("own_code", "Check an encoding of your own against the rules."),
    "check-task": Command("own_code", "Check a task of your own against the rules."),
    "check-attention": Command("own_code", "Check an attention of your own against the rules."),
    "check-mixer": Command("own_code", "Check a mixer of your own against the rules."),
}


class Parser(argparse.ArgumentParser):
    """Raises ValueError where argparse would exit, or would read `--flag=--` as a list; of an
    option that it does not know it names those that were perhaps meant.
    """

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, args: Any = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        for word in sys.argv[1:] if args is None else args:
            if word.startswith("-") and word.endswith("=--"):
                self.error(f"argument {word[:-3]}: -- is not a value")
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        if found := re.match(r"unrecognized arguments: (-[-\w.]*[A-Za-z][-\w.]*)", message):
            hint = self._nearest(found[1])
            if "Did you mean" in hint:  # not all that there are
                raise ValueError(f"unknown option {found[1]}.{hint}")
        raise ValueError(f"{message} (see {self.prog} --help)")

    def _nearest(self, flag: str) -> str:
        options = [flag for action in self._actions for flag in action.option_strings]
        alike = [known for known in options if known.endswith(f".{flag.lstrip('-')}")]
        return f" Did you mean {' or '.join(alike)}?" if alike else nearest(flag, options)


def add_fields(parser: Parser, fields: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """A flag for each field of a configuration, by its dotted name or its last part if that is
    unique; `_` may be written `-`. `given_fields` reads them.
    """
    parts = Counter(name.rpartition(".")[2] for name in fields)
    for name, annotation in fields.items():
        part = name.rpartition(".")[2]
        names = [name, part] if parts[part] == 1 else [name]
        flags = [f"--{n}" for n in names] + [f"--{n.replace('_', '-')}" for n in names]
        parser.add_argument(
            *dict.fromkeys(flags),
            dest=name,
            default=argparse.SUPPRESS,
            action=argparse.BooleanOptionalAction if annotation is bool else "store",
            help=f"default: {defaults.get(name)}".replace("%", "%%"),
        )


def given_fields(args: argparse.Namespace, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the fields that a command line gives. Raises ValueError for a wrong one."""
    from pcore.config import coerce  # torch comes with it

    given = {name: value for name, value in vars(args).items() if name in fields}
    for name, value in given.items():
        if not str(value).strip():
            raise ValueError(f"--{name} needs a value")
    return {name: coerce(value, fields[name], f"--{name}") for name, value in given.items()}


def find_own_code() -> None:
    """Import own code, `package.module:Class`, from the working directory too."""
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))


def end_command(name: str, error: BaseException) -> int:
    """Print in one sentence why a command failed with one of `EXPECTED`; its exit code."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):  # as in `... | head`: nothing more is written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    print(f"{name}: {first_line(error)}", file=sys.stderr)
    return WRONG_USE


def command_parser(name: str, text: str = "") -> Parser:
    """The parser of a command, with `text` at the end of its help."""
    return Parser(
        prog=f"pcore {name}",
        description=COMMANDS[name].summary,
        epilog=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def strip_equals(query: str) -> str:
    """A query as tasks read it: people also type the '=' that every query ends with."""
    return query.removesuffix("=")


def is_out_of_memory(error: Exception) -> bool:
    """Whether memory did not suffice: torch raises several kinds of RuntimeError then."""
    words = ("out of memory", "allocate memory", "not enough memory")
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(word in str(error) for word in words)
    )


def first_line(error: BaseException) -> str:
    """The first line of an error, as a command prints it."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def add_device(parser: Parser, default: str | None = "cpu") -> None:
    """The option --device."""
    shown = default or "a GPU if there is one"
    parser.add_argument("--device", help=f"cpu, cuda ... (default: {shown})", default=default)
