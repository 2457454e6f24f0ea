"""Checks that user code (encoding, task, attention, mixer) follows the rules the rest relies on.

`check_encoding("package.module:Class")` and its like return one `Check` per rule; nothing is raised
and nothing printed. `format_checks` makes the report. A second or two on one core.
"""

from pcore.conformance.bench import Check, format_checks
from pcore.conformance.parts import check_attention, check_encoding, check_mixer
from pcore.conformance.tasks import check_task, example_of

__all__ = [
    "Check",
    "check_attention",
    "check_encoding",
    "check_mixer",
    "check_task",
    "example_of",
    "format_checks",
]
