"""The tasks, one file per family; `TASKS` is the table of contents."""

from pcore.tasks.addition import Addition
from pcore.tasks.base import Batch, Contents, Layout, Symbol, Task

TASKS: dict[str, type[Task]] = {
    "addition": Addition,
}

__all__ = ["TASKS", "Batch", "Contents", "Layout", "Symbol", "Task"]
