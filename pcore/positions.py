"""From relative IDs to position IDs: which stream of IDs, and where counting starts.

position ID = start + relative ID, in [1, max_position]; a token without a relative ID gets 0 (row 0 of a learned table is an
ordinary trained row). Each level has its own start. Source: arXiv 2405.20671, section 3; the wrapped start is ours.
"""

import torch
from jaxtyping import Int
from torch import Tensor

from pcore.config import PositionConfig
from pcore.tasks.base import NO_ID, Batch


def select_relative_ids(batch: Batch, position: PositionConfig) -> Int[Tensor, "B T P"]:
    """The stream of relative IDs that the position scheme uses: the task's, or 0, 1, 2, ... between BOS and EOS."""
    if position.ids == "coupled":
        return batch.relative_ids
    num_tokens = batch.tokens.shape[1]
    places = torch.arange(-1, num_tokens - 1, device=batch.tokens.device).expand_as(batch.tokens)
    last = (batch.tokens != 0).sum(dim=1, keepdim=True) - 1  # EOS
    inside = places < last - 1
    return torch.where(inside, places, NO_ID).unsqueeze(2)


def draw_position_ids(
    relative_ids: Int[Tensor, "B T P"], position: PositionConfig, rng: torch.Generator
) -> Int[Tensor, "B T P"]:
    """Position IDs of a training batch; one start per example and level."""
    batch, _, levels = relative_ids.shape
    unit = torch.rand(batch, 1, levels, generator=rng, device=rng.device, dtype=torch.float64)
    if position.start == "fixed":
        start = torch.ones_like(unit, dtype=torch.long)
    elif position.start == "wrapped":
        start = 1 + (unit * position.max_position).long()
    else:
        room = position.max_position - relative_ids.amax(dim=1, keepdim=True)
        start = 1 + (unit * room).long()
    ids = _place(relative_ids, start, position)
    if position.id_scale_max > 1:
        scale = torch.randint(1, position.id_scale_max + 1, (1,), generator=rng, device=rng.device)
        ids = ids * scale
    return ids


def test_position_ids(
    relative_ids: Int[Tensor, "B T P"], position: PositionConfig
) -> Int[Tensor, "B T P"]:
    """Position IDs in evaluation: counting starts at `test_start` on every level."""
    return _place(
        relative_ids, torch.tensor(position.test_start, device=relative_ids.device), position
    )


def _place(relative_ids: Tensor, start: Tensor, position: PositionConfig) -> Tensor:
    ids = start + relative_ids
    if position.start == "wrapped":
        ids = 1 + (ids - 1) % position.max_position
    return torch.where(relative_ids == NO_ID, 0, ids)
