"""Starts of several problems in a row, drawn so that their ranges of IDs do not touch.

With independent starts ranges sometimes overlap: equal IDs that mean different things, noise that
no model can fit. Here starts are uniform over all disjoint placements, without rejection: a uniform
order of the problems, then a uniform division of the spare IDs among the gaps. Every placement
corresponds to one order and one division.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

GAP = 3  # from the last ID of a range to the first one of the next, at least


def needed_ids(largest: Sequence[int], wrapped: bool) -> int:
    """How many IDs ranges of these largest relative IDs need, on a line or on a circle."""
    return sum(relative + GAP for relative in largest) - (0 if wrapped else GAP - 1)


def draw_apart(
    largest: Int[Tensor, "R K P"], limits: Int[Tensor, " P"], wrapped: bool, rng: torch.Generator
) -> Int[Tensor, "R K P"]:
    """Starts of K problems in each of R rows, on each level by itself.

    largest: relative ID of each problem, which occupies start, ..., start + largest.
    wrapped: on the circle of `limits` IDs instead of the line from 1 to there.
    """
    num_rows, count, levels = largest.shape

    def uniform(size: int) -> Tensor:
        shape = (num_rows, size, levels)
        return torch.rand(shape, generator=rng, device=rng.device, dtype=torch.float64)

    keys = uniform(count)
    if wrapped:
        keys[:, 0] = -1.0  # around a circle: the others in the order in which they follow the first
    order = keys.argsort(dim=1)
    sizes = (largest + GAP).gather(1, order)
    spare = limits - sizes.sum(dim=1, keepdim=True) + (0 if wrapped else GAP - 1)
    # A line has a gap before each problem and one after the last; a circle one after each.
    num_bars = count - 1 if wrapped else count
    skipped = _draw_subset(spare + num_bars, uniform(num_bars))
    skipped = skipped - torch.arange(num_bars, device=skipped.device).unsqueeze(1)
    if wrapped:
        skipped = torch.cat([torch.zeros_like(spare), skipped], dim=1)
    places = sizes.cumsum(dim=1) - sizes + skipped
    if wrapped:
        places = (places + (uniform(1) * limits).long()) % limits
    return torch.empty_like(places).scatter_(1, order, 1 + places)


def draw_near(
    largest: Int[Tensor, "R K P"], limits: Int[Tensor, " P"], wrapped: bool, rng: torch.Generator
) -> Int[Tensor, "R K P"]:
    """Starts near one another, on each level by itself: at most the largest relative ID of a row's
    problems after a random place of the row. Arguments as of `draw_apart`.
    """
    num_rows, count, levels = largest.shape
    top = largest.amax(dim=1, keepdim=True)
    kwargs: Any = {"generator": rng, "device": rng.device, "dtype": torch.float64}
    place = torch.rand(num_rows, 1, levels, **kwargs) * (limits if wrapped else limits - 2 * top)
    after = torch.rand(num_rows, count, levels, **kwargs) * (top + 1)
    return 1 + place.long() + after.long()


def _draw_subset(size: Int[Tensor, "R 1 P"], units: Tensor) -> Int[Tensor, "R K P"]:
    """K different numbers in [0, size), every set of them equally likely, in rising order.

    Floyd's algorithm (Bentley and Floyd 1987, CACM 30(9)). units: K uniform numbers in [0, 1).
    """
    count = units.shape[1]
    chosen = torch.full(units.shape, -1, device=units.device)
    for i in range(count):
        top = size - count + i
        number = (units[:, i : i + 1] * (top + 1)).long()
        known = (chosen[:, :i] == number).any(dim=1, keepdim=True)
        chosen[:, i : i + 1] = number.where(~known, top)
    return chosen.sort(dim=1).values
