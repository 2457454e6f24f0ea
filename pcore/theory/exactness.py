"""Trials of the constructions.

A constructed model is a trial like others: `model.kind=constructed` with `model.num_bits` = P;
`optim.num_steps` is 0, for nothing is trained, and seeds change nothing. It is right up to the
length that the theorem gives for P (`max_digits`) and may be tested beyond it.
"""

from collections.abc import Callable, Mapping

import torch

from pcore.config import TrialConfig
from pcore.registry import name_of
from pcore.tasks import TASKS
from pcore.tasks.addition import Addition
from pcore.tasks.base import Task
from pcore.tasks.multiplication import Multiplication
from pcore.theory.addition import make_addition
from pcore.theory.formal import FormalTransformer
from pcore.theory.multiplication import make_multiplication

MAX_BITS = 14  # position vectors of 16,384 IDs
MIN_BITS = 2  # with one bit the vectors of different IDs are not told apart from "no ID"
# By the task that a theorem is about: what makes the model, from P.
CONSTRUCTIONS: Mapping[Task, Callable[..., FormalTransformer]] = {
    Addition(): make_addition,
    Multiplication(): make_multiplication,
}


def check_constructed(config: TrialConfig) -> None:
    """Raise ValueError with what of the configuration a constructed model cannot do."""
    if config.task not in CONSTRUCTIONS:
        raise ValueError(
            "model.kind=constructed: no theorem builds a model for "
            f"{name_of(type(config.task), TASKS)} with these options; there are addition and "
            "multiplication, all options at their defaults"
        )
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
    num_ids = max(config.position.level_limits(config.task.num_levels))
    make = CONSTRUCTIONS[config.task]
    return make(config.model.num_bits, num_ids=num_ids).to(torch.float32)
