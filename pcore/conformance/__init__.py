"""Checks that user code (encoding, task, attention, mixer) follows the rules the rest relies on.

`check("encoding", "package.module:Class")` and its like return one `Check` per rule; nothing is
raised and nothing printed. `format_checks` makes the report. A second or two on one core.
`require_sound` raises if a model with own code would be measured wrongly.
"""

from collections.abc import Iterable
from functools import cache, partial

import torch

from pcore.config import OWN_CODE, TrialConfig, flatten, own_code
from pcore.conformance.bench import Check, format_checks, run_checks
from pcore.conformance.parts import PARTS, SOUND, PartBench
from pcore.conformance.tasks import NEEDED, RULES, TaskBench, expect_answer

__all__ = ["Check", "check", "format_checks", "require_sound"]


def check(kind: str, name: str, answers: Iterable[tuple[str, str]] = ()) -> list[Check]:
    """Every rule for a class of a kind: an encoding, attention or mixer, or a task with its
    default options.

    answers: queries of a task and the responses that they should have, as tokens stand; a rule for
    each.
    """
    if kind != "task":
        field = next(field for field, known in OWN_CODE.items() if known == kind)
        return run_checks(PartBench(field, name), *PARTS[field])
    expected = {
        f"{query}={answer}": partial(expect_answer, query=query, expected=answer)
        for query, answer in answers
    }
    return run_checks(TaskBench(name), NEEDED, RULES | expected)


def require_sound(config: TrialConfig) -> None:
    """Raise ValueError if an encoding, attention or mixer of the user's own breaks a rule on which
    every number of a trial rests (`SOUND`).

    A model that sees the future answers at any length: evaluation shows it the right answer.
    """
    for field, names in own_code(flatten(config)).items():
        for name in names if field in PARTS else ():
            _require_sound(field, name)


@cache
def _require_sound(field: str, name: str) -> None:
    bench, kind = PartBench(field, name), OWN_CODE[field]
    with torch.random.fork_rng():
        try:
            _ = bench.model  # trained
        except Exception:  # own code may not fit a model so small: its trials say what fails
            return
        checks = run_checks(bench, {}, SOUND)
    if failed := [f"{found.name}: {found.detail}" for found in checks if not found.passed]:
        raise ValueError(f"{kind} {name!r}: {failed[0]} (pcore check-{kind} {name})")
