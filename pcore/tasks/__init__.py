"""The tasks, one file per family; `TASKS` lists them all."""

from pcore.tasks.addition import Addition
from pcore.tasks.base import NO_ID, Batch, Contents, Layout, Symbol, Task
from pcore.tasks.commands import Commands
from pcore.tasks.minesweeper import Minesweeper
from pcore.tasks.multiplication import Multiplication
from pcore.tasks.strings import Copy, Mirror, Parity, Reverse, Sorting

TASKS: dict[str, type[Task]] = {
    "addition": Addition,
    "multiplication": Multiplication,
    "copy": Copy,
    "reverse": Reverse,
    "minesweeper": Minesweeper,
    "parity": Parity,
    "sorting": Sorting,
    "commands": Commands,
    "mirror": Mirror,
}

__all__ = ["NO_ID", "TASKS", "Batch", "Contents", "Layout", "Symbol", "Task"]
