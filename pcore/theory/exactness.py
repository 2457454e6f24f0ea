"""The constructions, and checks that each is exact: on the hardest cases and as evaluation does.

Teacher-forced arg-max at every target, which is free-running exactness by induction.

A constructed model is a trial too: `model.kind=constructed` with `model.num_bits` = P;
`optim.num_steps` is 0, for nothing is trained, and seeds change nothing. It is right up to the
length that the theorem gives for P (`Construction.max_digits`) and may be tested beyond it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from pcore.batch import target_places
from pcore.config import TrialConfig, make_generator
from pcore.encodings.position_ids import test_position_ids
from pcore.registry import name_of
from pcore.settings import PositionConfig
from pcore.tasks import TASKS
from pcore.tasks.addition import Addition
from pcore.tasks.base import Batch, Task
from pcore.tasks.multiplication import Multiplication
from pcore.theory import addition, multiplication
from pcore.theory.formal import FormalTransformer

MAX_BITS = 14  # position vectors of 16,384 IDs
MIN_BITS = 2  # with one bit the vectors of different IDs are not told apart from "no ID"
TOKENS_PER_BATCH = 2**14  # bounds memory, nothing else


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


def addition_with_rings(moduli: Sequence[int]) -> Construction:
    """The construction with residue rings, which are what they are: P does nothing."""
    return Construction(
        claim="Addition with residue rings: 1 layer with 2 heads",
        task=Addition(),
        make=partial(addition.make_addition, moduli=moduli),
        max_digits=partial(addition.max_digits, moduli=moduli),
        hard_queries=addition.hard_queries,
    )


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


def check_random(
    model: FormalTransformer, task: Task, length: int, num_examples: int
) -> Float[Tensor, " B"]:
    """Random examples of a length, drawn as evaluation draws them."""
    rng = make_generator("construct", type(task).__name__, length, "")
    at_once = max(1, TOKENS_PER_BATCH // task.num_tokens(length))
    sizes = [min(at_once, num_examples - first) for first in range(0, num_examples, at_once)]
    leads = (check(model, task.sample_length(size, length, rng)) for size in sizes)
    return torch.cat([torch.zeros(0), *leads])


def check_hard(
    model: FormalTransformer, construction: Construction, length: int
) -> Float[Tensor, " B"]:
    """The hard cases of a length."""
    queries = construction.hard_queries(length)
    return torch.cat([check(model, construction.task.encode(query)) for query in queries])


def check(model: FormalTransformer, batch: Batch, start: int = 1) -> Float[Tensor, " B"]:
    """By example: the least lead of a right token's logit over the best wrong one, under teacher
    forcing. Above 0 the example is right in every token; equal logits count as wrong.
    """
    device = model.embedding.device
    places, real = target_places(batch.response_mask)
    targets = batch.tokens.gather(1, places + 1).unsqueeze(2).to(device)
    ids = test_position_ids(batch.relative_ids, PositionConfig(test_start=start))
    inputs = (batch.tokens[:, :-1], ids[:, :-1], places)
    logits = model(*(t.to(device) for t in inputs)).double()
    right = logits.gather(2, targets)
    wrong = logits.scatter(2, targets, -torch.inf).amax(dim=2, keepdim=True)
    leads = (right - wrong).squeeze(2).cpu().nan_to_num(-torch.inf, torch.inf, -torch.inf)
    return leads.where(real, torch.inf).amin(dim=1)


# As trials ----------------------------------------------------------------------------------------


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
