"""`pcore check-encoding`, -task, -attention and -mixer: check user code against the rules."""

from collections.abc import Callable

from pcore import conformance
from pcore.cli.parser import FAILED, command_parser
from pcore.conformance import Check, format_checks
from pcore.registry import resolve
from pcore.tasks import TASKS, Task


def check_encoding(words: list[str]) -> int:
    """Print every rule for encodings, and whether it is kept."""
    return _check("encoding", conformance.check_encoding, words)


def check_task(words: list[str]) -> int:
    """Print every rule for tasks, and whether it is kept."""
    return _check("task", conformance.check_task, words)


def check_attention(words: list[str]) -> int:
    """Print every rule for attention, and whether it is kept."""
    return _check("attention", conformance.check_attention, words)


def check_mixer(words: list[str]) -> int:
    """Print every rule for mixers, and whether it is kept."""
    return _check("mixer", conformance.check_mixer, words)


def find_task(name: str) -> type[Task]:
    """The class of a task. Raises ValueError with what check-task says if it cannot be made."""
    cls = resolve(name, TASKS, "task")
    if ":" in name and not (check := conformance.make_task(name)[0]).passed:
        raise ValueError(f"{name} is not a valid task: FAIL  {check.name}  {check.detail}")
    return cls


def _check(kind: str, find: Callable[[str], list[Check]], words: list[str]) -> int:
    parser = command_parser(f"check-{kind}")
    parser.add_argument("name", metavar="NAME", help=f"a known {kind} or package.module:Class")
    name = parser.parse_args(words).name
    checks = find(name)
    print(format_checks(name, checks))
    return 0 if all(check.passed for check in checks) else FAILED
