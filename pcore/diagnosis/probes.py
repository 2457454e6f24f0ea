"""Probes of a trained model that need no counting of failures: its position table, its precision.

The table: how alike the rows of IDs at a distance are, and how often training visits each row.
Sharpness of attention as sequences grow is in `pcore.diagnosis.attention` (entropy, largest
weight).
"""

from functools import lru_cache
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from pcore.config import TrialConfig
from pcore.config.seeding import make_generator
from pcore.encodings import Learned, find_encoding
from pcore.encodings.position_ids import draw_position_ids, select_relative_ids
from pcore.evaluation.predict import predict_targets
from pcore.evaluation.test_sets import evaluation_ids, make_test_set
from pcore.model.transformer import Transformer
from pcore.tasks.base import NO_ID

VISIT_EXAMPLES = 4000  # training examples by which visits of rows are estimated
PARTS = 40  # in so many batches, as a batch has one random scale of IDs
RARE = 0.5  # of the median row's visits: below it a row is rarely trained
NEVER, RARELY, OFTEN = range(3)


def table_similarity(model: Transformer) -> tuple[tuple[float, ...], ...]:
    """By table and distance d = 0, 1, ...: the mean cosine of the rows of IDs i and i + d.

    Row 0 (no ID) is left out. Empty if the encoding has no table.
    """
    encoding = model.encoding
    if not isinstance(encoding, Learned):
        return ()
    starts = sorted({*encoding.first_rows.tolist(), len(encoding.table)})
    found: list[tuple[float, ...]] = []
    for first, end in pairwise(starts):
        rows = F.normalize(encoding.table.detach()[first + 1 : end].double(), dim=1)
        cosines = rows @ rows.T
        found.append(tuple(float(cosines.diagonal(d).mean()) for d in range(len(rows))))
    return tuple(found)


@lru_cache(maxsize=8)  # asked for every length of a trial, and for each level of its table
def count_visits(config: TrialConfig) -> Float[Tensor, "P rows"] | None:
    """By level and position ID from 0: the share of training examples that use it (estimated).

    None if IDs do nothing in this model.
    """
    position, data = config.position, config.data
    if not find_encoding(position.encoding).uses_ids:
        return None
    rng = make_generator("visits")
    batch = config.task.sample_mixture(VISIT_EXAMPLES, data.min_length, data.max_length, rng)
    relative_ids = select_relative_ids(batch, position, config.task)
    parts = relative_ids.split(VISIT_EXAMPLES // PARTS)
    ids = torch.cat([draw_position_ids(part, position, rng) for part in parts])
    ids = torch.where(relative_ids == NO_ID, -1, ids)
    num_rows = 1 + max(int(ids.max()), *position.level_limits(ids.shape[2]))
    shares = [(ids == row).any(dim=1).float().mean(dim=0) for row in range(num_rows)]
    return torch.stack(shares, dim=1)


def grade_visits(visits: Float[Tensor, "P rows"]) -> Tensor:
    """NEVER, RARELY or OFTEN for every level and ID; rarely = below half of the median row."""
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
