"""Free greedy decoding with a key-value cache: the model reads its own predictions.

Exact match does not need it (see `pcore.evaluation`). It answers typed queries, and a test
uses it to show that the parallel measure is the same. Position IDs are those of the true layout, as
in evaluation: they tell the model where a token is, never what to write.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from pcore.batch import target_places
from pcore.config import TrialConfig
from pcore.encodings import find_encoding
from pcore.encodings.position_ids import select_relative_ids, test_position_ids
from pcore.evaluation import autocast, evaluating
from pcore.model import Cache, Transformer
from pcore.tasks.base import Batch, Task
from pcore.vocab import PAD_TOKEN

TOKENS_PER_BATCH = 8192  # of one batch that is decoded together; does not change results


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
    predicted = _symbols(decode_freely(model, batch, config, task)[0], task)
    truth = _symbols(batch.tokens[0][batch.response_mask[0]], task)
    stopped = task.eos in predicted
    response = predicted[: predicted.index(task.eos)] if stopped else predicted
    return Solution(query=query, response=response, truth=truth[:-1], stopped=stopped)


@torch.no_grad()
def decode_freely(
    model: Transformer, batch: Batch, config: TrialConfig, task: Task | None = None
) -> Int[Tensor, "B R"]:
    """Predicted tokens at the target places of each example, on the CPU; PAD after EOS.

    Only BOS and query of `batch` are read; its layout gives the position IDs and the number of
    targets. A row that has not stopped after all its targets is left as it is.
    task: the task as it posed the batch, if its options differ from those of the configuration.
    """
    task = task or config.task
    ids = test_position_ids(select_relative_ids(batch, config.position, task), config.position)
    places, real = target_places(batch.response_mask)
    predicted = torch.full(places.shape, PAD_TOKEN)
    num_rows = max(1, TOKENS_PER_BATCH // batch.tokens.shape[1])
    eos = task.vocab.index[task.eos]
    with evaluating(model, config.eval.attention_factor):
        for first in places[:, 0].unique().tolist():  # the cache wants contexts of one length
            for rows in (places[:, 0] == first).nonzero().squeeze(1).split(num_rows):
                num_targets = int(real[rows].sum(dim=1).max())
                context = batch.tokens[rows, : first + 1]
                predicted[rows, :num_targets] = _decode(model, context, ids[rows], num_targets, eos)
    return predicted.masked_fill(~real, PAD_TOKEN)


def _decode(
    model: Transformer,
    context: Int[Tensor, "B C"],
    ids: Int[Tensor, "B T P"],
    num_targets: int,
    eos: int,
) -> Int[Tensor, "B N"]:
    """N tokens that greedily follow contexts of one length."""
    device, num_context = model.embedding.device, context.shape[1]
    tokens, ids = context.to(device), ids.to(device)
    cache: Cache = {}
    stopped = torch.zeros(len(tokens), dtype=torch.bool, device=device)
    found: list[Tensor] = []
    for step in range(num_targets):
        with autocast(device):
            logits = model(tokens, ids[:, : num_context + step], cache=cache)
        token = logits[:, -1].float().argmax(dim=1).masked_fill(stopped, PAD_TOKEN)
        stopped = stopped | (token == eos)
        found.append(token)
        tokens = token.unsqueeze(1)
    return torch.stack(found, dim=1).cpu()


def _check_reach(batch: Batch, task: Task, config: TrialConfig, query: str) -> None:
    """Refuse a query whose position IDs lie beyond a table."""
    position = config.position
    if not find_encoding(position.encoding).bounded and position.ids != "randomized":
        return
    relative_ids = select_relative_ids(batch, position, task)
    start = position.test_start if position.test_policy == "fixed" else 1
    needed = [int(n) for n in relative_ids[0].amax(dim=0) + start]
    for limit, need in zip(position.level_limits(len(needed)), needed, strict=True):
        if need > limit:
            raise ValueError(
                f"the model has position IDs up to {limit}, below {need}, which {query!r} needs"
            )


def _symbols(tokens: Int[Tensor, " N"], task: Task) -> tuple[str, ...]:
    return tuple(task.vocab.decode(tokens.tolist()))
