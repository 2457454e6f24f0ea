"""Constructed models as trials: the theorem on the trial's task, evaluated like a trained model.

`model.kind=constructed` with `model.num_bits` = P; `optim.num_steps` is 0, for nothing is trained,
and seeds change nothing. The model is right up to the length that the theorem gives for P
(`Construction.max_digits`) and may be tested beyond it.
"""

import torch

from pcore.config import TrialConfig
from pcore.registry import name_of
from pcore.tasks import TASKS, Task
from pcore.tasks.addition import Addition
from pcore.theory.exactness import (
    CONSTRUCTIONS,
    MIN_BITS,
    Construction,
    addition_with_scratchpad,
)
from pcore.theory.formal import FormalTransformer

MAX_BITS = 14  # position vectors of 16,384 IDs


def find_construction(task: Task) -> Construction:
    """The construction for exactly this task. Raises ValueError that says which there are."""
    constructions = list(CONSTRUCTIONS.values())
    if isinstance(task, Addition) and task.scratchpad:
        constructions.append(addition_with_scratchpad(task.num_operands))
    for construction in constructions:
        if construction.task == task:
            return construction
    raise ValueError(
        f"model.kind=constructed: no theorem builds a model for {name_of(type(task), TASKS)} with "
        "these options; there are addition of two numbers, addition with task.scratchpad=True and "
        "multiplication, all other options at their defaults"
    )


def check_constructed(config: TrialConfig) -> None:
    """Raise ValueError with what of the configuration a constructed model cannot do."""
    find_construction(config.task)
    bits = config.model.num_bits
    if not MIN_BITS <= bits <= MAX_BITS:
        raise ValueError(
            f"model.num_bits={bits} of a constructed model is not in {MIN_BITS}-{MAX_BITS}"
        )
    wanted = {
        "position.encoding": "learned",
        "position.ids": "coupled",
        "position.test_policy": "fixed",
        "position.test_start": 1,
        "optim.num_steps": 0,
        "eval.attention_factor": 1.0,
    }
    for name, value in wanted.items():
        group, _, leaf = name.partition(".")
        if (given := getattr(getattr(config, group), leaf)) != value:
            raise ValueError(f"{name}={given}: a constructed model needs {value}")


def make_constructed(config: TrialConfig) -> FormalTransformer:
    """The model of a constructed trial, in float32 on the CPU."""
    construction, position = find_construction(config.task), config.position
    num_ids = max(position.level_limits(config.task.num_levels))
    return construction.make(config.model.num_bits, num_ids=num_ids).to(torch.float32)
