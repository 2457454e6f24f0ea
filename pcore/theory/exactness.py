"""The constructions, and trials of their models.

A constructed model is a trial like others: `model.kind=constructed` with `model.num_bits` = P;
`optim.num_steps` is 0, for nothing is trained, and seeds change nothing. It is right up to the
length that the theorem gives for P (`Construction.max_digits`) and may be tested beyond it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from pcore.config import TrialConfig
from pcore.registry import name_of
from pcore.tasks import TASKS
from pcore.tasks.addition import Addition
from pcore.tasks.base import Task
from pcore.tasks.multiplication import Multiplication
from pcore.theory import addition, multiplication
from pcore.theory.formal import FormalTransformer

MAX_BITS = 14  # position vectors of 16,384 IDs
MIN_BITS = 2  # with one bit the vectors of different IDs are not told apart from "no ID"


@dataclass(frozen=True, kw_only=True)
class Construction:
    """A theorem as a model. P: bits of a position vector."""

    claim: str
    task: Task
    make: Callable[..., FormalTransformer]  # from P
    max_digits: Callable[[int], int]  # from P, the longest length it is built for
    hard_queries: Callable[[int], list[str]]  # from a length

    def least_bits(self, length: int) -> int:
        """The smallest P that suffices for this length."""
        bits = MIN_BITS
        while self.max_digits(bits) < length:
            bits += 1
        return bits


CONSTRUCTIONS: Mapping[str, Construction] = {
    "addition": Construction(
        claim="Theorem 5.1 of arXiv 2405.20671: addition with 1 layer and 2 heads",
        task=Addition(),
        make=addition.make_addition,
        max_digits=addition.max_digits,
        hard_queries=addition.hard_queries,
    ),
    "multiplication": Construction(
        claim="N x 2 multiplication of arXiv 2405.20671: 2 layers with 3 and 7 heads",
        task=Multiplication(),
        make=multiplication.make_multiplication,
        max_digits=multiplication.max_digits,
        hard_queries=multiplication.hard_queries,
    ),
}


def find_construction(task: Task) -> Construction:
    """The construction for exactly this task. Raises ValueError that says which there are."""
    for construction in CONSTRUCTIONS.values():
        if construction.task == task:
            return construction
    raise ValueError(
        f"model.kind=constructed: no theorem builds a model for {name_of(type(task), TASKS)} with "
        "these options; there are addition and multiplication, all options at their defaults"
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
