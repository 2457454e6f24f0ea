"""Which places of a sequence predict a token that counts."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

NO_TARGET = -100  # in place of a target where there is none; the index that cross-entropy ignores


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
