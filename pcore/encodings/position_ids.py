"""From relative IDs to position IDs: which stream of IDs, and where counting starts.

position ID = start + relative ID, in [1, max_position]; a token without a relative ID gets 0 (row 0
of a learned table is an ordinary trained row). Each level has its own start. Streams:

- coupled: the task's relative IDs (arXiv 2405.20671, section 3).
- sequential: 0, 1, 2, ... over query, '=' and response; none on BOS and EOS.
- abacus: index of a digit inside its run of digits, none on everything else (McLeish et al. 2024,
  arXiv 2405.17399). Equal IDs mean equal significance only if every number stands ones digit first:
  zero_pad=False, reverse_query=True, reverse_response=True. Published: start=random, max_start=100.
- candidates: couplings that follow from the tokens alone (`pcore.tasks.candidates`), one per level.
- randomized: the sequential stream indexes a sorted random subset of [1, max_position], redrawn for
  every example, in evaluation too (Ruoss et al. 2023, arXiv 2305.16843).

At test time counting starts at test_start, or at random if test_policy says so; randomized draws a
new subset. Random choices of evaluation come from one fixed CPU generator, so row b of a test set
has the same IDs in every trial and on every device. The wrapped start is ours.
"""

from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from pcore.config import make_generator
from pcore.encodings.apart import draw_apart, draw_near
from pcore.settings import DataConfig, PositionConfig
from pcore.tasks.base import NO_ID, Batch, Task
from pcore.tasks.candidates import candidate_ids, chosen_candidates, index_in_runs
from pcore.vocab import DIGITS, Vocab


def select_relative_ids(batch: Batch, position: PositionConfig, task: Task) -> Int[Tensor, "B T P"]:
    """The stream of relative IDs that the position scheme uses.

    Coupled IDs have the levels of the task, candidates one for each; all others have one.
    """
    if position.ids == "coupled":
        return batch.relative_ids
    if position.ids == "candidates":
        return candidate_ids(batch, task, chosen_candidates(position.candidate))
    places = torch.arange(batch.tokens.shape[1], device=batch.tokens.device)
    if position.ids == "abacus":
        return index_in_runs(_is_digit(batch.tokens, task.vocab), places).unsqueeze(2)
    eos = (batch.tokens != 0).sum(dim=1, keepdim=True) - 1
    inside = (places > 0) & (places < eos)
    return torch.where(inside, places - 1, NO_ID).unsqueeze(2)


def draw_position_ids(
    relative_ids: Int[Tensor, "B T P"],
    position: PositionConfig,
    rng: torch.Generator,
    apart: int = 1,
    overlap: float = 0.0,
) -> Int[Tensor, "B T P"]:
    """Position IDs of a training batch; one start per example and level.

    apart: so many examples stand in one row, where their ranges of IDs are kept apart.
    overlap: `data.packed_overlap`.
    """
    if apart > 1:
        rows = relative_ids.unflatten(0, (-1, apart))
        ids = _draw_apart(rows, position, rng, overlap).flatten(0, 1)
    else:
        ids = _draw(relative_ids, position, position.start, rng)
    if position.id_scale_max > 1:
        scale = torch.randint(1, position.id_scale_max + 1, (1,), generator=rng, device=rng.device)
        ids = ids * scale
    return ids


def test_position_ids(
    relative_ids: Int[Tensor, "B T P"], position: PositionConfig
) -> Int[Tensor, "B T P"]:
    """Position IDs of a whole test set: row b always gets the same ones.

    Pass all examples at once: random IDs of a part would begin again with those of row 0.
    """
    if position.ids != "randomized" and position.test_policy == "fixed":
        return torch.where(relative_ids == NO_ID, 0, relative_ids + position.test_start)
    rng = make_generator("test-ids")
    return _draw(relative_ids.cpu(), position, position.test_policy, rng).to(relative_ids.device)


def draws_apart(position: PositionConfig, data: DataConfig) -> bool:
    """Whether the starts of problems in a row are drawn so that their ranges do not touch."""
    return data.packed_order == "problem" and position.start != "fixed"


def never_alone(relative_ids: Int[Tensor, "... P"]) -> list[int]:
    """The levels that no token has alone: ranges that overlap there are told apart on others."""
    has = relative_ids.flatten(0, -2) != NO_ID
    alone = has[has.sum(dim=1) == 1].any(dim=0)
    return [level for level, is_alone in enumerate(alone.tolist()) if not is_alone]


def level_names(task: Task, position: PositionConfig) -> tuple[str, ...]:
    """Names of the levels of the stream of IDs that a trial uses."""
    if position.ids == "coupled":
        return task.levels
    if position.ids == "candidates":
        return chosen_candidates(position.candidate)
    return (position.ids,)


def num_levels(task: Task, position: PositionConfig) -> int:
    """P of the stream of IDs that a trial uses."""
    return len(level_names(task, position))


@lru_cache(maxsize=4096)
def max_relative_ids(
    task: Task, ids: Any, length: int, second: int | None = None, candidate: Any = "all"
) -> tuple[int, ...]:
    """Largest relative ID per level of the stream `ids` at this length."""
    if ids == "coupled":
        return task.max_relative_ids(length, second)
    layout, symbols = task.layout(task.largest_shape(length, second)), task.vocab.symbols
    content = next((s for s in (*DIGITS, *symbols) if s in symbols and s.isalnum()), symbols[1])
    written = (s if isinstance(s, str) else content for s in layout.sources)
    tokens = torch.tensor([task.vocab.encode([task.bos, *written, task.eos])])
    response = torch.arange(tokens.shape[1]) > layout.num_query
    example = Batch(tokens, tokens.unsqueeze(2), response.unsqueeze(0))
    stream = select_relative_ids(example, PositionConfig(ids=ids, candidate=candidate), task)
    return tuple(stream.amax(dim=(0, 1)).tolist())


def _draw(
    relative_ids: Int[Tensor, "B T P"],
    position: PositionConfig,
    policy: str,
    rng: torch.Generator,
) -> Int[Tensor, "B T P"]:
    batch, _, levels = relative_ids.shape
    if position.ids == "randomized":
        return _pick_from_subset(relative_ids.squeeze(2), position, rng).unsqueeze(2)
    limits = torch.tensor(position.level_limits(levels), device=relative_ids.device)
    unit = torch.rand(batch, 1, levels, generator=rng, device=rng.device, dtype=torch.float64)
    if policy == "fixed":
        room = torch.ones_like(unit)
    elif policy == "wrapped":
        room = limits
    else:
        room = limits - relative_ids.amax(dim=1, keepdim=True)
        room = room.clamp(max=position.max_start) if position.max_start else room
    ids = 1 + (unit * room).long() + relative_ids
    if policy == "wrapped":
        ids = 1 + (ids - 1) % limits
    return torch.where(relative_ids == NO_ID, 0, ids)


def _draw_apart(
    relative_ids: Int[Tensor, "R K T P"],
    position: PositionConfig,
    rng: torch.Generator,
    overlap: float,
) -> Int[Tensor, "R K T P"]:
    """Random or wrapped starts of the problems in each row; ranges apart but for `overlap`."""
    wrapped = position.start == "wrapped"
    levels, largest = relative_ids.shape[3], relative_ids.amax(dim=2)
    limits = torch.tensor(position.level_limits(levels), device=relative_ids.device)
    starts = draw_apart(largest, limits, wrapped, rng)
    if overlap:
        near = draw_near(largest, limits, wrapped, rng)
        free = torch.tensor(never_alone(relative_ids), device=rng.device)
        kwargs: Any = {"generator": rng, "device": rng.device}
        level = free[torch.randint(len(free), (len(starts), 1, 1), **kwargs)]
        overlaps = torch.rand(len(starts), 1, 1, **kwargs) < overlap
        starts = near.where(overlaps & (torch.arange(levels, device=rng.device) == level), starts)
    ids = starts.unsqueeze(2) + relative_ids
    if wrapped:
        ids = 1 + (ids - 1) % limits
    return torch.where(relative_ids == NO_ID, 0, ids)


def _pick_from_subset(
    relative_ids: Int[Tensor, "B T"], position: PositionConfig, rng: torch.Generator
) -> Int[Tensor, "B T"]:
    """Entry number `relative ID` of a sorted subset of [1, max_position], one per example."""
    (limit,) = position.level_limits(1)
    sizes = relative_ids.amax(dim=1, keepdim=True) + 1
    unit = torch.rand(len(sizes), limit, generator=rng, device=rng.device)
    subset = unit.argsort(dim=1)[:, : int(sizes.max())] + 1
    spare = torch.arange(subset.shape[1], device=subset.device) >= sizes
    subset = subset.masked_fill(spare, limit + 1).sort(dim=1).values
    return torch.where(relative_ids == NO_ID, 0, subset.gather(1, relative_ids.clamp(min=0)))


def _is_digit(tokens: Int[Tensor, "B T"], vocab: Vocab) -> Bool[Tensor, "B T"]:
    digits = [vocab.index[d] for d in DIGITS if d in vocab.index]
    return torch.isin(tokens, torch.tensor(digits, dtype=torch.long, device=tokens.device))
