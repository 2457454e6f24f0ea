"""Executors: where the trials of a launch run. A new one is a class like `Inline` and a line in
`EXECUTORS`; scheduler, options and command line read nothing else.
"""

from sweeps.engine.executors.base import Executor, Resources
from sweeps.engine.executors.inline import Inline
from sweeps.engine.executors.ray_executor import Ray

EXECUTORS: dict[str, type[Executor]] = {"ray": Ray, "inline": Inline}

__all__ = ["EXECUTORS", "Executor", "Resources"]
