"""Probes of a trained model: which position IDs training used, and whether precision matters."""

from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor

from pcore.config import TrialConfig
from pcore.config.seeding import make_generator
from pcore.encodings import find_encoding
from pcore.encodings.position_ids import draw_position_ids, select_relative_ids
from pcore.evaluation.predict import predict_targets
from pcore.evaluation.test_sets import evaluation_ids, make_test_set
from pcore.model.transformer import Transformer
from pcore.tasks.base import NO_ID

NUM_EXAMPLES = 4000  # training examples from which visits are estimated
NUM_BATCHES = 40  # that they are split into, as all IDs of a batch have one random scale
RARE = 0.5  # of the visits of the median ID: an ID below it is rarely trained
NEVER, RARELY, OFTEN = range(3)


@lru_cache(maxsize=8)  # asked for every length of a trial, and for each level of its table
def count_visits(config: TrialConfig) -> Float[Tensor, "P rows"] | None:
    """By level and position ID from 0: the share of training examples that use it (estimated).

    None if IDs do nothing in this model.
    """
    position, data = config.position, config.data
    if not find_encoding(position.encoding).uses_ids:
        return None
    rng = make_generator("visits")
    batch = config.task.sample_mixture(NUM_EXAMPLES, data.min_length, data.max_length, rng)
    relative_ids = select_relative_ids(batch, position, config.task)
    batches = relative_ids.split(NUM_EXAMPLES // NUM_BATCHES)
    ids = torch.cat([draw_position_ids(part, position, rng) for part in batches])
    ids = torch.where(relative_ids == NO_ID, -1, ids)
    num_rows = 1 + max(int(ids.max()), *position.level_limits(ids.shape[2]))
    shares = [(ids == row).any(dim=1).float().mean(dim=0) for row in range(num_rows)]
    return torch.stack(shares, dim=1)


def grade_visits(visits: Float[Tensor, "P rows"]) -> Tensor:
    """NEVER, RARELY or OFTEN for every level and ID; rarely = below half of the median ID."""
    trained = [level[level > 0] for level in visits]
    median = torch.stack([level.median() for level in trained]).unsqueeze(1)
    return (visits > 0).long() + (visits >= RARE * median).long()


def count_verdict_changes(
    model: Transformer, config: TrialConfig, length: int, dtype: torch.dtype = torch.bfloat16
) -> tuple[int, int]:
    """How many test examples are right in float32 but wrong under autocast, and the reverse."""
    batch = make_test_set(config, length, config.task.default_second(length))
    ids = evaluation_ids(batch, config)
    exact, rounded = (
        ~predict_targets(model, batch, ids, config, kind).wrong.any(dim=1)
        for kind in (torch.float32, dtype)
    )
    return int((exact & ~rounded).sum()), int((~exact & rounded).sum())
