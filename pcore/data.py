"""Training batches: examples made once and reshuffled every pass, or fresh ones for ever.

Position IDs are drawn anew at every visit (spec: the start is redrawn). Contents, order and starts
come from three generators of the data seed alone, so a model seed never changes the data.
`state_dict` holds everything that exact resume needs.
"""

import itertools
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from pcore.config import TrialConfig
from pcore.positions import draw_position_ids, select_relative_ids
from pcore.seeding import make_generator
from pcore.tasks.base import NO_ID, Batch

CHUNK = 10_000  # examples generated at once for the fixed list
PART_TOKENS = (
    150  # what one more part of a cut batch costs, in tokens that could be computed instead
)


class TrainingBatch(NamedTuple):
    """tokens "B T", position IDs "B T P", response mask "B T"."""

    tokens: Int[Tensor, "B T"]
    ids: Int[Tensor, "B T P"]
    response_mask: Bool[Tensor, "B T"]


class TrainingData:
    """The stream of batches of one trial, on `device`."""

    def __init__(self, config: TrialConfig, device: str | torch.device = "cpu"):
        self.task, self.position, self.data = config.task, config.position, config.data
        self.batch_size, self.device = config.optim.batch_size, torch.device(device)
        seed = config.data_seed
        self.start_rng = make_generator("start", seed, device=device)
        self.order_rng = make_generator("order", seed)
        if self.data.num_examples is None:
            self.content_rng = make_generator("content", seed, device=device)
        else:
            self.fixed = _make_examples(config, self.data.num_examples, device)
            self.order_state = self.order_rng.get_state()
            self.order, self.cursor = self._shuffle(), 0

    def next_batch(self) -> TrainingBatch:
        """The next `batch_size` examples with newly drawn position IDs."""
        if self.data.num_examples is None:
            low, high = self.data.min_length, self.data.max_length
            batch = self.task.sample_mixture(self.batch_size, low, high, self.content_rng)
        else:
            batch = self._take()
        relative_ids = select_relative_ids(batch, self.position, self.task)
        ids = draw_position_ids(relative_ids, self.position, self.start_rng)
        return TrainingBatch(batch.tokens, ids, batch.response_mask)

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {"start": self.start_rng.get_state()}
        if self.data.num_examples is None:
            return state | {"content": self.content_rng.get_state()}
        return state | {"order": self.order_state, "cursor": self.cursor}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.start_rng.set_state(state["start"])
        if self.data.num_examples is None:
            self.content_rng.set_state(state["content"])
            return
        self.order_rng.set_state(state["order"])
        self.order, self.cursor = self._shuffle(), state["cursor"]

    def _take(self) -> Batch:
        rows = self.order[self.cursor : self.cursor + self.batch_size]
        self.cursor += self.batch_size
        if (lacking := self.batch_size - len(rows)) > 0:  # the pass ends inside this batch
            self.order, self.cursor = self._shuffle(), lacking
            rows = torch.cat([rows, self.order[:lacking]])
        tokens = self.fixed.tokens[rows].long()
        num_tokens = int((tokens != 0).sum(dim=1).max())
        return Batch(
            tokens[:, :num_tokens],
            self.fixed.relative_ids[rows, :num_tokens].long(),
            self.fixed.response_mask[rows, :num_tokens],
        )

    def _shuffle(self) -> Tensor:
        self.order_state = self.order_rng.get_state()
        count = self.data.num_examples
        assert count is not None
        return torch.randperm(count, generator=self.order_rng).to(self.device)


def cut_by_length(batch: TrainingBatch) -> list[TrainingBatch]:
    """The batch in parts of examples of like length, each padded to its own longest only.

    Padding of a uniform mixture of lengths is two fifths of all tokens; one cut saves half of that.
    Where to cut is the cheapest of all ways, counting PART_TOKENS for every part.
    """
    lengths, order = (batch.tokens != 0).sum(dim=1).sort(stable=True)
    values, counts = (t.tolist() for t in lengths.unique_consecutive(return_counts=True))
    ends = list(itertools.accumulate(counts))
    best, cut = (
        [0.0],
        [0],
    )  # cheapest cost of the first i kinds of length, and where its last part begins
    for i in range(1, len(values) + 1):
        begins = [ends[j - 1] if j else 0 for j in range(i)]
        costs = [
            best[j] + (ends[i - 1] - begins[j]) * values[i - 1] + PART_TOKENS for j in range(i)
        ]
        best.append(min(costs))
        cut.append(costs.index(best[-1]))
    parts: list[TrainingBatch] = []
    i = len(values)
    while i:
        j = cut[i]
        rows, width = order[ends[j - 1] if j else 0 : ends[i - 1]], values[i - 1]
        tokens, ids, mask = (t[rows, :width] for t in batch)
        parts.append(TrainingBatch(tokens, ids, mask))
        i = j
    return parts


def _make_examples(config: TrialConfig, count: int, device: str | torch.device) -> Batch:
    """The fixed list of examples, the same on every device: compact tensors padded to one width."""
    rng = make_generator("content", config.data_seed)
    chunks = []
    for first in range(0, count, CHUNK):
        size = min(CHUNK, count - first)
        batch = config.task.sample_mixture(
            size, config.data.min_length, config.data.max_length, rng
        )
        tokens, relative_ids = batch.tokens.to(torch.uint8), batch.relative_ids.to(torch.int16)
        chunks.append(Batch(tokens, relative_ids, batch.response_mask))
    width = max(chunk.tokens.shape[1] for chunk in chunks)

    def join(parts: list[Tensor], fill: int) -> Tensor:
        padded = [
            torch.cat(
                [part, part.new_full((len(part), width - part.shape[1], *part.shape[2:]), fill)],
                dim=1,
            )
            for part in parts
        ]
        return torch.cat(padded).to(device)

    return Batch(
        join([chunk.tokens for chunk in chunks], 0),
        join([chunk.relative_ids for chunk in chunks], NO_ID),
        join([chunk.response_mask for chunk in chunks], 0),
    )
