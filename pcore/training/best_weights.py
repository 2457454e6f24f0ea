"""The weights of the checkpoint policies `best` and `oracle`, kept while a trial trains."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from pcore.config import TrialConfig
from pcore.evaluation.test_sets import make_held_out_set, make_test_set
from pcore.model.transformer import Transformer
from pcore.tasks.base import Batch


@dataclass(slots=True)
class Candidate:
    """The best checkpoint so far on one set of examples."""

    batch: Batch
    loss: float = math.inf
    step: int = 0
    weights: dict[str, Tensor] = field(default_factory=dict)

    def offer(self, loss: float, step: int, model: Transformer) -> None:
        if loss < self.loss:
            self.loss, self.step, self.weights = loss, step, snapshot(model.state_dict())


def candidate_sets(config: TrialConfig) -> dict[str, Batch]:
    """The examples on which each checkpoint policy other than `last` chooses."""
    sets: dict[str, Batch] = {}
    if "best" in config.eval.checkpoints:
        sets["best"] = make_held_out_set(config)
    if "oracle" in config.eval.checkpoints:
        sets["oracle"] = make_test_set(config, max(config.eval.test_lengths))
    return sets


def snapshot(value: Any) -> Any:
    """A copy of a state whose tensors have memory of their own."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, Mapping):
        return {name: snapshot(part) for name, part in value.items()}
    if isinstance(value, list):
        return [snapshot(part) for part in value]
    return value
