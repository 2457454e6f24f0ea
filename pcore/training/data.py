"""Training batches: examples made once and reshuffled every pass, or fresh ones for ever.

Position IDs are drawn anew at every visit (spec: the start is redrawn). Contents, order and starts
come from three generators of the data seed alone, so a model seed never changes the data.
`state_dict` holds everything that exact resume needs.

On a GPU, whose generators differ from the CPU's anyway, many batches are made at once: making one
takes about as long, and waits for the device a few times.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from pcore.config import TrialConfig
from pcore.config.seeding import make_generator
from pcore.encodings.position_ids import draw_position_ids, select_relative_ids
from pcore.model.static import StaticBatch, count_targets, make_static, static_shape
from pcore.tasks.base import NO_ID, Batch

CHUNK = 10_000  # examples generated at once for the fixed list
BLOCK = {"cpu": 1, "cuda": 16_384}  # training examples made at once, but at least one batch


class TrainingBatch(NamedTuple):
    """tokens "B T", position IDs "B T P", response mask "B T"."""

    tokens: Int[Tensor, "B T"]
    ids: Int[Tensor, "B T P"]
    response_mask: Bool[Tensor, "B T"]


class TrainingData:
    """The stream of batches of one trial, on `device`. static: batches of static shape."""

    def __init__(
        self, config: TrialConfig, device: str | torch.device = "cpu", static: bool = False
    ):
        self.config, self.static, self.device = config, static, torch.device(device)
        self.task, self.position, self.data = config.task, config.position, config.data
        self.batch_size, seed = config.optim.batch_size, config.data_seed
        self.start_rng = make_generator("start", seed, device=device)
        self.order_rng = make_generator("order", seed)
        if self.data.num_examples is None:
            self.content_rng = make_generator("content", seed, device=device)
        else:
            self.fixed = _make_examples(config, self.data.num_examples, device)
            self.num_targets = count_targets(self.fixed.response_mask)
            self.order_state = self.order_rng.get_state()
            self.order, self.cursor = self._shuffle(), 0
        self.num_batches = max(1, BLOCK[self.device.type] // self.batch_size)  # of a block
        self.num_taken = self.num_batches  # of the current one: there is none yet

    def next_batch(self) -> TrainingBatch | StaticBatch:
        """The next `batch_size` examples with newly drawn position IDs."""
        if self.num_taken == self.num_batches:
            self._begin_block()
        first = self.num_taken * self.batch_size
        self.num_taken += 1
        parts = (t[first : first + self.batch_size] for t in self.block)
        return StaticBatch(*parts) if self.static else TrainingBatch(*parts)

    def state_dict(self) -> dict[str, Any]:
        """Where the current block began and how much of it is taken, or where the next begins."""
        if self.num_taken == self.num_batches:
            return self._stream_state() | {"taken": 0}
        return self.block_state | {"taken": self.num_taken}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.start_rng.set_state(state["start"])
        if self.data.num_examples is None:
            self.content_rng.set_state(state["content"])
        else:
            self.order_rng.set_state(state["order"])
            self.order, self.cursor = self._shuffle(), state["cursor"]
        self.num_taken = self.num_batches
        if taken := state.get("taken", 0):
            self._begin_block()
            self.num_taken = taken

    def _stream_state(self) -> dict[str, Any]:
        state: dict[str, Any] = {"start": self.start_rng.get_state()}
        if self.data.num_examples is None:
            return state | {"content": self.content_rng.get_state()}
        return state | {"order": self.order_state, "cursor": self.cursor}

    def _begin_block(self) -> None:
        """Make the next batches, as tensors that hold one below the other."""
        self.block_state, self.num_taken = self._stream_state(), 0
        count = self.batch_size * self.num_batches
        if self.data.num_examples is None:
            low, high = self.data.min_length, self.data.max_length
            batch = self.task.sample_mixture(count, low, high, self.content_rng)
        else:
            batch = self._take(count)
        relative_ids = select_relative_ids(batch, self.position, self.task)
        # one random scale for each batch, all else for each example
        size = count if self.position.id_scale_max == 1 else self.batch_size
        parts = [
            draw_position_ids(part, self.position, self.start_rng)
            for part in relative_ids.split(size)
        ]
        ids = parts[0] if len(parts) == 1 else torch.cat(parts)
        if not self.static:
            self.block = TrainingBatch(batch.tokens, ids, batch.response_mask)
            return
        fresh = self.data.num_examples is None
        num_targets = count_targets(batch.response_mask) if fresh else self.num_targets
        shape = static_shape(self.config, batch.tokens.shape[1], num_targets)
        self.block = make_static(batch.tokens, ids, batch.response_mask, *shape)

    def _take(self, count: int) -> Batch:
        """The next examples of the fixed list, reshuffled whenever a pass ends."""
        found = [self.order[self.cursor : self.cursor + count]]
        self.cursor += len(found[0])
        while lacking := count - sum(map(len, found)):
            self.order, self.cursor = self._shuffle(), 0
            found.append(self.order[:lacking])
            self.cursor = len(found[-1])
        rows = torch.cat(found)
        tokens = self.fixed.tokens[rows].long()
        width = tokens.shape[1] if self.static else int((tokens != 0).sum(dim=1).max())
        return Batch(
            tokens[:, :width],
            self.fixed.relative_ids[rows, :width].long(),
            self.fixed.response_mask[rows, :width],
        )

    def _shuffle(self) -> Tensor:
        self.order_state = self.order_rng.get_state()
        count = self.data.num_examples
        assert count is not None
        return torch.randperm(count, generator=self.order_rng).to(self.device)


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
