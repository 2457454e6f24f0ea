"""Does an encoding or a task from the user's own code keep the rules that the rest relies on?

`check_encoding("package.module:Class")` and `check_task(...)` return one `Check` per rule; nothing
is raised and nothing printed. `format_checks` makes the report. A second or two on one core.
"""

from pcore.conformance.encodings import check_encoding
from pcore.conformance.report import Check, format_checks
from pcore.conformance.tasks import check_task, make_task, memorise

__all__ = ["Check", "check_encoding", "check_task", "format_checks", "make_task", "memorise"]
