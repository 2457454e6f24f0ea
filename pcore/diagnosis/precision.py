"""Whether precision matters to a trained model."""

import torch

from pcore.config import TrialConfig
from pcore.evaluation import evaluation_ids, make_test_set, predict_targets
from pcore.model import Transformer


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
