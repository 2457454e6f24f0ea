"""Which positions of a sequence predict a target, and training batches that list them."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn import functional as F

from pcore.vocab import PAD_TOKEN

NO_TARGET = -100  # in place of a target where there is none; the index that cross-entropy ignores


class TrainingBatch(NamedTuple):
    """Rows of tokens and position IDs, 0 after the last one of each, without a row's last token,
    which nothing follows; places whose next token is a target, and these targets.

    Rows with fewer targets repeat their last place, with NO_TARGET.
    """

    tokens: Int[Tensor, "B T"]
    ids: Int[Tensor, "B T P"]
    places: Int[Tensor, "B R"]
    targets: Int[Tensor, "B R"]


def make_batch(
    tokens: Int[Tensor, "B T"],
    ids: Int[Tensor, "B T P"],
    response_mask: Bool[Tensor, "B T"],
    num_targets: int | None = None,
) -> TrainingBatch:
    """The training batch of padded examples, one in each row.

    num_targets: R; None = as many as the longest row has, which waits for the device.
    """
    places, targets = find_targets(tokens, response_mask, num_targets)
    followed = tokens[:, 1:] != PAD_TOKEN
    return TrainingBatch(tokens[:, :-1] * followed, ids[:, :-1], places, targets)


def pad_batch(batch: TrainingBatch, width: int, num_targets: int) -> TrainingBatch:
    """The same batch with `width` tokens and `num_targets` targets in a row."""
    tokens, ids, places, targets = batch
    missing, more = width - tokens.shape[1], num_targets - places.shape[1]
    # A model reads R = T as "at every place"; the query in front of the targets rules that out.
    assert num_targets < width, (width, num_targets)
    return TrainingBatch(
        F.pad(tokens, (0, missing)),
        F.pad(ids, (0, 0, 0, missing)),
        torch.cat([places, places[:, -1:].expand(-1, more)], dim=1),
        F.pad(targets, (0, more), value=NO_TARGET),
    )


def target_places(
    response_mask: Bool[Tensor, "B T"], num_places: int | None = None
) -> tuple[Int[Tensor, "B R"], Bool[Tensor, "B R"]]:
    """Places whose next token is a target, and which of them are real.

    num_places: R; None = as many as the longest row has, which waits for the device.
    Rows with fewer targets repeat their last place.
    Targets are the contiguous tail of an example, so a row is its first target and a count.
    """
    counts = response_mask.sum(dim=1, keepdim=True)
    first = response_mask.int().argmax(dim=1, keepdim=True) - 1
    num_places = int(counts.max()) if num_places is None else num_places
    steps = torch.arange(num_places, device=response_mask.device)
    return first + torch.minimum(steps, counts - 1), steps < counts


def find_targets(
    tokens: Int[Tensor, "B T"], response_mask: Bool[Tensor, "B T"], num_places: int | None = None
) -> tuple[Int[Tensor, "B R"], Int[Tensor, "B R"]]:
    """The places of `target_places`, and what has to be predicted there, or NO_TARGET."""
    places, real = target_places(response_mask, num_places)
    return places, tokens.gather(1, places + 1).masked_fill(~real, NO_TARGET)
