"""Free greedy decoding with a key-value cache: the model reads its own predictions.

Exact match does not need it (see `pcore.evaluation`). It answers typed queries, and a test
uses it to show that the parallel measure is the same. Position IDs are those of the true layout, as
in evaluation: they tell the model where a token is, never what to write.
"""

from dataclasses import dataclass

import torch

from pcore.config import TrialConfig
from pcore.encodings.position_ids import select_relative_ids, test_position_ids
from pcore.evaluation import autocast, evaluating
from pcore.model import Cache, Transformer
from pcore.tasks.base import Batch, Task
from pcore.validation import first_id, limits_ids


@dataclass(frozen=True, kw_only=True, slots=True)
class Solution:
    """A model's answer to a typed query. Symbols in token order, without BOS and EOS.

    stopped: EOS was predicted, at the latest where the truth ends; nothing is decoded beyond.
    is_correct: the response is the truth and the model stopped after it.
    """

    query: str
    response: tuple[str, ...]
    truth: tuple[str, ...]
    stopped: bool

    @property
    def is_correct(self) -> bool:
        return self.stopped and self.response == self.truth


def solve(model: Transformer, config: TrialConfig, query: str) -> Solution:
    """Answer a typed query, e.g. "653+49", with a trained model.

    Raises ValueError if the task cannot pose the query or the position scheme cannot reach it.
    """
    task = config.task.for_query(query).at_test()
    batch = task.encode(query)
    _check_reach(batch, task, config, query)
    predicted = tuple(task.vocab.decode(decode_freely(model, batch, config, task)))
    truth = tuple(task.vocab.decode(batch.tokens[0][batch.response_mask[0]].tolist()))
    stopped = task.eos in predicted
    response = predicted[: predicted.index(task.eos)] if stopped else predicted
    return Solution(query=query, response=response, truth=truth[:-1], stopped=stopped)


@torch.no_grad()
def decode_freely(
    model: Transformer, batch: Batch, config: TrialConfig, task: Task | None = None
) -> list[int]:
    """What the model writes after the query of a single example: tokens up to EOS, or as many as
    the truth has.

    Only BOS and query of `batch` are read; its layout gives the position IDs and the number of
    targets. task: as it posed the batch, if its options differ from those of the configuration.
    """
    task, device = task or config.task, model.embedding.device
    ids = test_position_ids(select_relative_ids(batch, config.position, task), config.position)
    targets = batch.response_mask[0].nonzero().flatten().tolist()
    tokens, ids = batch.tokens[:, : targets[0]].to(device), ids.to(device)
    cache: Cache = {}
    found: list[int] = []
    with evaluating(model, config.eval.attention_factor):
        for end in targets:
            with autocast(device):
                logits = model(tokens, ids[:, :end], cache=cache)
            tokens = logits[:, -1:].float().argmax(dim=2)
            found.append(int(tokens))
            if found[-1] == task.vocab.index[task.eos]:
                break
    return found


def _check_reach(batch: Batch, task: Task, config: TrialConfig, query: str) -> None:
    """Refuse a query whose position IDs lie beyond what holds them."""
    position = config.position
    if not limits_ids(position, position.test_policy):
        return
    relative_ids = select_relative_ids(batch, position, task)
    needed = [int(n) for n in relative_ids[0].amax(dim=0) + first_id(position)]
    for limit, need in zip(position.level_limits(len(needed)), needed, strict=True):
        if need > limit:
            raise ValueError(
                f"the model has position IDs up to {limit}, below {need}, which {query!r} needs"
            )
