"""Batches: which places predict a target, and how rows become parts.

A CPU pays for every padded token (two fifths of all tokens in a uniform mixture of lengths). So on
its way to the model a batch is **cut** into parts: rows of similar length stand side by side in one
long row of tokens, and only attention runs part by part, each part padded to its own longest row.
`pcore.packing` makes rows of several problems, and the padded batches of a GPU. What is computed
stays the same.
"""

import itertools
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from pcore.vocab import PAD_TOKEN

NO_TARGET = -100  # in place of a target where there is none; the index that cross-entropy ignores
PART_TOKENS = 60  # what one more part costs, in tokens that could be computed instead


class Part(NamedTuple):
    """n rows of T tokens each, and the places within them whose next token is a target.

    Rows with fewer targets repeat their last place.
    """

    num_rows: int
    num_tokens: int
    places: Int[Tensor, "n R"]

    @property
    def everywhere(self) -> Int[Tensor, "n T"]:
        """Every place, which predicts in all blocks but the last."""
        places = torch.arange(self.num_tokens, device=self.places.device)
        return places.expand(self.num_rows, -1)


class TrainingBatch(NamedTuple):
    """Rows of tokens and position IDs, 0 after the last one of each, without a row's last token,
    which nothing follows; places whose next token is a target, and these targets.

    Rows with fewer targets repeat their last place, with NO_TARGET. parts: of a batch that was cut,
    whose tokens, places and targets are then one row each (B = 1).
    """

    tokens: Int[Tensor, "B T"]
    ids: Int[Tensor, "B T P"]
    places: Int[Tensor, "B R"]
    targets: Int[Tensor, "B R"]
    parts: tuple[Part, ...] | None = None


def make_batch(
    tokens: Int[Tensor, "B T"],
    ids: Int[Tensor, "B T P"],
    response_mask: Bool[Tensor, "B T"],
) -> TrainingBatch:
    """The training batch of padded examples, one in each row."""
    places, real = target_places(response_mask)
    targets = tokens.gather(1, places + 1).masked_fill(~real, NO_TARGET)
    followed = tokens[:, 1:] != PAD_TOKEN
    return TrainingBatch(tokens[:, :-1] * followed, ids[:, :-1], places, targets)


def target_places(
    response_mask: Bool[Tensor, "B T"],
) -> tuple[Int[Tensor, "B R"], Bool[Tensor, "B R"]]:
    """Places whose next token is a target, as many as the longest row has, and which are real.

    Rows with fewer targets repeat their last place. Waits for the device to know the longest.
    Targets are the contiguous tail of an example, so a row is its first target and a count.
    """
    counts = response_mask.sum(dim=1, keepdim=True)
    first = response_mask.int().argmax(dim=1, keepdim=True) - 1
    steps = torch.arange(int(counts.max()), device=response_mask.device)
    return first + torch.minimum(steps, counts - 1), steps < counts


# Cut ----------------------------------------------------------------------------------------------


def cut_batch(batch: TrainingBatch) -> TrainingBatch:
    """The batch (0 = padding) cut into parts of similar length, the longest part first."""
    tokens, ids, places, targets, _ = batch
    lengths, order = (tokens != 0).sum(dim=1).sort(stable=True)
    num_targets = (targets != NO_TARGET).sum(dim=1)[order]
    rows_of, row_ids, parts, queries, found = [], [], [], [], []
    first = 0
    for begin, end in cut_lengths(lengths):
        rows, width = order[begin:end], int(lengths[end - 1])
        count = int(num_targets[begin:end].max())
        part_places = places[rows, :count]
        starts = first + torch.arange(end - begin).unsqueeze(1) * width
        found.append(targets[rows, :count].flatten())
        queries.append((starts + part_places).flatten())
        rows_of.append(tokens[rows, :width].flatten())
        row_ids.append(ids[rows, :width].flatten(0, 1))
        parts.append(Part(end - begin, width, part_places))
        first += (end - begin) * width
    tokens, ids, places, targets = (
        torch.cat(pieces)[None] for pieces in (rows_of, row_ids, queries, found)
    )
    return TrainingBatch(tokens, ids, places, targets, tuple(parts))


def cut_lengths(lengths: Int[Tensor, " B"]) -> list[tuple[int, int]]:
    """Begin and end of every part of rows of rising lengths: the cheapest of all ways to cut them,
    counting PART_TOKENS for every part.
    """
    values, counts = (t.tolist() for t in lengths.unique_consecutive(return_counts=True))
    ends = [0, *itertools.accumulate(counts)]
    best, cut = [0.0], [0]  # cost of the first i kinds of length, and where its last part begins
    for i, width in enumerate(values, start=1):
        costs = [best[j] + (ends[i] - ends[j]) * width + PART_TOKENS for j in range(i)]
        best.append(min(costs))
        cut.append(costs.index(best[-1]))
    parts: list[tuple[int, int]] = []
    i = len(values)
    while i:
        parts.append((ends[cut[i]], ends[i]))
        i = cut[i]
    return parts
