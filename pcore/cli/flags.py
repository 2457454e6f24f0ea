"""Command-line flags made from the fields of dataclasses.

`--num-operands 3`, `--num_operands=3`; booleans also as `--zero-pad`, `--no-zero-pad`,
`--zero-pad false`. A boolean takes the next word only if it is true, false, yes or no, so a query
after it stays a query. argparse cannot do that, so these flags are taken out before it runs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pcore.config import coerce
from pcore.registry import nearest

TRUTH_WORDS = ("true", "false", "yes", "no")


def take_flags(
    words: Sequence[str], fields: Mapping[str, Any], fixed: Mapping[str, bool]
) -> tuple[dict[str, Any], list[str]]:
    """(values by field name, the words that are left).

    fields: annotation by field name. fixed: the flags that argparse knows, and whether each takes
    a value. Raises ValueError for an unknown flag, naming the nearest, or a value that is wrong.
    """
    values: dict[str, Any] = {}
    left: list[str] = []
    queue = list(words)
    while queue:
        word = queue.pop(0)
        flag, has_value, text = word.partition("=")
        if word in ("-h", "-") or not word.startswith("-") or flag in fixed:
            left.append(word)
            if fixed.get(flag) and not has_value and queue:
                left.append(queue.pop(0))
            continue
        name, negated = _find_field(flag, fields, fixed)
        if negated:
            if has_value:
                raise ValueError(f"{flag} takes no value")
            values[name] = False
            continue
        if not has_value:
            if fields[name] is bool:
                text = queue.pop(0) if queue and queue[0].lower() in TRUTH_WORDS else "true"
            elif not queue:
                raise ValueError(f"{flag} needs a value")
            else:
                text = queue.pop(0)
        if not text.strip():
            raise ValueError(f"{flag} needs a value")
        values[name] = coerce(text, fields[name], flag)
    return values, left


def _find_field(
    flag: str, fields: Mapping[str, Any], fixed: Mapping[str, bool]
) -> tuple[str, bool]:
    """The field that a flag names, and whether the flag is its negation."""
    name = flag.lstrip("-").replace("-", "_")
    known = [f"--{field.replace('_', '-')}" for field in fields] + list(fixed)
    if flag.startswith("--"):
        if matches := _matches(name, fields):
            return _only(flag, matches), False
        if matches := [m for m in _matches(_negated(name), fields) if fields[m] is bool]:
            return _only(flag, matches), True
    raise ValueError(f"unknown option {flag}.{nearest(flag.replace('_', '-'), known)}")


def _matches(name: str, fields: Mapping[str, Any]) -> list[str]:
    """Fields of this dotted name, or of this last part."""
    if name in fields:
        return [name]
    return [field for field in fields if field.rpartition(".")[2] == name]


def _negated(name: str) -> str:
    """`no_zero_pad` -> `zero_pad`; `task.no_zero_pad` and `no_task.zero_pad` likewise."""
    if name.startswith("no_"):
        return name.removeprefix("no_")
    group, dot, leaf = name.rpartition(".")
    return group + dot + leaf.removeprefix("no_") if leaf.startswith("no_") else ""


def _only(flag: str, matches: list[str]) -> str:
    if len(matches) > 1:
        names = " or ".join(f"--{m}" for m in matches)
        raise ValueError(f"{flag} is ambiguous: {names}")
    return matches[0]
