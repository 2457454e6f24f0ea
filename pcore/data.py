"""Training batches: examples made once and reshuffled every epoch, or endless fresh ones.

Starts are redrawn at every visit. Contents, order and starts come from three generators seeded by
the data seed alone, so a model seed never changes the data. `state_dict` holds everything that an
exact resume needs.

`pcore.packing` puts problems into rows; their number per row changes only position IDs.

On a GPU, whose generators differ from the CPU's anyway, many batches are made at once: making a
single one takes about as long and waits for the device a few times.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from pcore.batch import TrainingBatch, make_batch
from pcore.config import TrialConfig, make_generator
from pcore.encodings import find_encoding
from pcore.encodings.position_ids import draw_position_ids, draws_apart, select_relative_ids
from pcore.packing import (
    find_per_row,
    pack,
    packed_shape,
    pad_batch,
    static_shape,
    tokens_before,
)
from pcore.tasks.base import NO_ID, Batch

CHUNK = 10_000  # examples generated at once for the fixed list
BLOCK = {"cpu": 1, "cuda": 16_384}  # training examples made at once, but at least one batch


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
            self.order_state = self.order_rng.get_state()
            self.order, self.cursor = self._shuffle(), 0
        # Packed problems whose IDs matter: their ranges are kept apart.
        uses_ids = find_encoding(self.position.encoding).uses_ids
        self.apart = uses_ids and draws_apart(self.position, self.data)
        self.num_batches = max(1, BLOCK[self.device.type] // self.batch_size)  # of a block
        self.num_taken = self.num_batches  # of the current one: there is none yet
        self.num_before = -self.num_batches  # batches before the current block

    def next_batch(self) -> TrainingBatch:
        """The next `batch_size` examples with newly drawn position IDs."""
        if self.num_taken == self.num_batches:
            self._begin_block()
        self.num_taken += 1
        return self.block[self.num_taken - 1]

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
        self.num_before = state.get("batches", 0) - self.num_batches
        if taken := state.get("taken", 0):
            self._begin_block()
            self.num_taken = taken

    def _stream_state(self) -> dict[str, Any]:
        batches = self.num_before + self.num_batches
        state: dict[str, Any] = {"start": self.start_rng.get_state(), "batches": batches}
        if self.data.num_examples is None:
            return state | {"content": self.content_rng.get_state()}
        return state | {"order": self.order_state, "cursor": self.cursor}

    def _begin_block(self) -> None:
        """Make the next batches; those of like rows as tensors that hold one below the other."""
        self.block_state, self.num_taken = self._stream_state(), 0
        self.num_before += self.num_batches
        count = self.batch_size * self.num_batches
        if self.data.num_examples is None:
            low, high = self.data.min_length, self.data.max_length
            batch = self.task.sample_mixture(count, low, high, self.content_rng)
        else:
            batch = self._take(count)
        relative_ids = select_relative_ids(batch, self.position, self.task)
        problems = Batch(batch.tokens, relative_ids, batch.response_mask)
        steps = range(self.num_before, self.num_before + self.num_batches)
        self.block: list[TrainingBatch] = []
        for per_row, same in itertools.groupby(find_per_row(self.config, step) for step in steps):
            first = len(self.block) * self.batch_size
            count = sum(1 for _ in same) * self.batch_size
            part = Batch(*(t[first : first + count] for t in problems))
            self.block += self._lay_out(part, per_row)

    def _lay_out(self, problems: Batch, per_row: int) -> Iterator[TrainingBatch]:
        """Batches of these problems, with relative IDs of the position scheme."""
        if per_row == 1:
            ids = self._draw_ids(problems.relative_ids, self.batch_size)
            batch = make_batch(problems.tokens, ids, problems.response_mask)
        else:
            batch = self._pack(problems, per_row)
        if self.static:
            shape = batch.tokens.shape[1], batch.places.shape[1]
            if per_row == 1:
                shape = static_shape(self.config, shape[0] + 1, shape[1])
            else:
                shape = packed_shape(*shape)
            batch = pad_batch(batch, *shape)
        pieces = (tensor.split(self.batch_size // per_row) for tensor in batch[:4])
        return map(TrainingBatch, *pieces)

    def _pack(self, problems: Batch, per_row: int) -> TrainingBatch:
        """Packed rows."""
        tokens, relative_ids, mask = problems
        row = torch.arange(len(tokens), device=self.device) // per_row
        if self.data.packed_order == "problem":
            ids = self._draw_ids(relative_ids, self.batch_size, per_row if self.apart else 1)
            return pack(make_batch(tokens, ids, mask), row)
        # Relative IDs are counted through the row first, then each row has its start.
        batch = make_batch(tokens, relative_ids, mask)
        counted = batch.ids + tokens_before(batch, row)[:, None, None]
        batch = pack(batch._replace(ids=counted.where(batch.ids != NO_ID, NO_ID)), row, NO_ID)
        return batch._replace(ids=self._draw_ids(batch.ids, self.batch_size // per_row))

    def _draw_ids(
        self, relative_ids: Int[Tensor, "B T P"], size: int, apart: int = 1
    ) -> Int[Tensor, "B T P"]:
        """Position IDs of batches of `size` examples each; apart: as of `draw_position_ids`."""
        if self.position.id_scale_max == 1 and apart == 1:
            size = len(relative_ids)
        # one random scale for each batch, all else for each example
        parts = [
            draw_position_ids(part, self.position, self.start_rng, apart, self.data.packed_overlap)
            for part in relative_ids.split(size)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

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
