"""Checks that user code (encoding, task, attention, mixer) follows the rules the rest relies on.

`check("encoding", "package.module:Class")` and its like return one `Check` per rule; nothing is
raised and nothing printed. `format_checks` makes the report. A second or two on one core.
"""

from collections.abc import Iterable
from functools import partial

from pcore.config import OWN_CODE
from pcore.conformance.bench import Check, format_checks, run_checks
from pcore.conformance.parts import PARTS, PartBench
from pcore.conformance.tasks import NEEDED, RULES, TaskBench, expect_answer

__all__ = ["Check", "check", "format_checks"]


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
