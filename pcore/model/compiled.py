"""A function compiled by `torch.compile`, or the original function if that fails.

Only the mean loss of a batch of static shape (`pcore.model.static`) is compiled, never the model
itself: weights keep their names, and states are interchangeable between compiled and plain runs.
One compiled function serves all trials of a process; only a new shape or kind of model is
recompiled.
"""

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor

from pcore.config import TrialConfig
from pcore.encodings import find_encoding
from pcore.model.mixing import mixing_parts

Loss: TypeAlias = Callable[..., Tensor]
T = TypeVar("T")

BACKEND: str | Callable[..., Any] = "inductor"
# CUDA graphs replay a step without Python. Gradients then lie in the memory of the graph until the
# next replay: clipping and AdamW come before it, and they are dropped when it begins.
MODES = {"cpu": "default", "cuda": "reduce-overhead"}
MAX_SHAPES = 64  # of a function in one process: shapes of batches times kinds of models


def can_compile(config: TrialConfig) -> bool:
    """Whether the loss of a trial is one graph: no Python code in it looks at values of tensors."""
    return not find_obstacle(config)


def find_obstacle(config: TrialConfig) -> str:
    """The setting whose code may look at values of tensors; "" if there is none."""
    encoding = config.position.encoding
    parts = {f"position.encoding={encoding}": find_encoding(encoding), **mixing_parts(config.model)}
    return next((name for name, part in parts.items() if not part.stackable), "")


class Compiled:
    """Calls a function compiled; after the first failure plain, for good.

    active: whether it is (still) compiled.
    """

    def __init__(self, function: Loss, device: torch.device, wanted: bool):
        self.function, self.device, self.active = function, device, wanted

    def use(self, work: Callable[[Loss], T]) -> T:
        """What `work` makes of the function, backward pass included. If the compiled one fails,
        work is done again with the plain one, and one warning says why; no memory is no failure.
        """
        if not self.active:
            return work(self.function)
        try:
            if self.device.type == "cuda":
                torch.compiler.cudagraph_mark_step_begin()
            return work(_compile(self.function, BACKEND, MODES[self.device.type]))
        except (torch.OutOfMemoryError, MemoryError):
            raise
        except Exception as error:
            self.active = False
            cause = getattr(error, "inner_exception", error)  # of a backend, which says no more
            reason = (str(cause).strip().splitlines() or [""])[0]
            warnings.warn(
                f"training goes on uncompiled, torch.compile failed: {type(cause).__name__}: "
                f"{reason}",
                RuntimeWarning,
                stacklevel=2,
            )
        return work(self.function)


@functools.cache
def _compile(function: Loss, backend: str | Callable[..., Any], mode: str) -> Loss:
    from torch._dynamo import config as dynamo  # pyright: ignore[reportPrivateUsage]  # slow

    dynamo.recompile_limit = max(dynamo.recompile_limit, MAX_SHAPES)
    return torch.compile(function, fullgraph=True, dynamic=False, backend=backend, mode=mode)
