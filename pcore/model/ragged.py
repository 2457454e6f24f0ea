"""Batches almost without padding for training on a CPU; equivalent to `Transformer.forward`.

Examples of similar length are concatenated into one long row of tokens. Per-token work (embedding,
projections, norms, feed-forward) runs on the row; only attention runs part by part, each part
padded to its own longest example. This is for CPUs, which pay for every padded token: in a uniform
mixture of lengths two fifths of all tokens are padding. GPUs use batches of static shape
(`pcore.model.static`). Models that are not `Part.separable` get padded batches here too. Losses and
gradients equal those of the padded batch: `tests/pcore/model/test_ragged.py`.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pcore.model.mixing import SelfAttention, take
from pcore.model.shared_tokens import look_up, share_tokens
from pcore.model.targets import NO_TARGET
from pcore.model.transformer import Block, Transformer

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
        return torch.arange(self.num_tokens).expand(self.num_rows, -1)


class RaggedBatch(NamedTuple):
    """All parts of a batch, one after the other: N tokens with their IDs, and M places of targets.

    queries: where among the N tokens the M places are. targets: their next tokens, or NO_TARGET.
    """

    tokens: Int[Tensor, "1 N"]
    ids: Int[Tensor, "1 N P"]
    parts: Sequence[Part]
    queries: Int[Tensor, " M"]
    targets: Int[Tensor, " M"]


def make_ragged(
    tokens: Int[Tensor, "B T"],
    ids: Int[Tensor, "B T P"],
    places: Int[Tensor, "B R"],
    targets: Int[Tensor, "B R"],
) -> RaggedBatch:
    """The rows of a training batch (0 = padding), the longest part first."""
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
    return RaggedBatch(
        torch.cat(rows_of)[None],
        torch.cat(row_ids)[None],
        parts,
        torch.cat(queries),
        torch.cat(found),
    )


def ragged_logits(model: Transformer, batch: RaggedBatch) -> Float[Tensor, "M V"]:
    """Logits at the M targets of a batch."""
    shared = share_tokens(model, batch.tokens, batch.ids)
    x = embedded = model.embed(batch.tokens, batch.ids) if shared is None else None
    for number, block in enumerate(model.passes):
        at_targets = number == len(model.passes) - 1
        at = batch.queries[None] if at_targets else None
        if x is None:
            assert shared is not None
            asked, *heads = look_up(model, shared, at)
            mixed = _attend_parts(model, block, heads, batch, at_targets)
        else:
            x = x if embedded is None else model.enter(x, embedded, number)
            mixed = _mix_parts(model, block, x, batch, at_targets)
            asked = take(x, at)  # after the norm: in this order gradients always added up
        x = block.finish(asked, mixed)
    assert x is not None
    return model.read_out(x)[0]


def _mix_parts(
    model: Transformer,
    block: Block,
    x: Float[Tensor, "1 N D"],
    batch: RaggedBatch,
    at_targets: bool,
) -> Float[Tensor, "1 Q D"]:
    """The output of a block's mixer, part by part; queries at the targets only, or everywhere."""
    normed, mixer = block.norm1(x), block.attention
    if type(mixer) is SelfAttention:  # what derives from it may mix otherwise
        at = batch.queries[None] if at_targets else None
        asked, asked_ids = take(normed, at), take(batch.ids, at)
        heads = mixer.project(normed, batch.ids, asked, asked_ids, model.encoding)
        return _attend_parts(model, block, heads, batch, at_targets)
    sizes = [part.num_rows * part.num_tokens for part in batch.parts]
    mixed = list[Tensor]()
    cut = zip(batch.parts, normed[0].split(sizes), batch.ids[0].split(sizes), strict=True)
    for part, *pieces in cut:
        rows, ids = (piece.unflatten(0, (part.num_rows, -1)) for piece in pieces)
        at = part.places if at_targets else None
        output, _ = mixer(rows, ids, model.encoding, model.attention_factor, at)
        mixed.append(output.flatten(0, 1))
    return torch.cat(mixed)[None]


def _attend_parts(
    model: Transformer,
    block: Block,
    heads: Sequence[Tensor],
    batch: RaggedBatch,
    at_targets: bool,
) -> Float[Tensor, "1 Q D"]:
    """`SelfAttention.attend` of q, k and v, part by part."""
    assert isinstance(block.attention, SelfAttention)
    indices = [part.places if at_targets else part.everywhere for part in batch.parts]
    num_queries = [at.numel() for at in indices]
    num_keys = [part.num_rows * part.num_tokens for part in batch.parts]
    # Cut tokens first, as they lie in memory: then the backward pass copies no pieces.
    pieces = [
        whole.squeeze(0).split(sizes)
        for whole, sizes in (
            (heads[0].transpose(1, 2), num_queries),
            (heads[1].transpose(1, 2), num_keys),
            (heads[2].transpose(1, 2), num_keys),
            (batch.ids, num_keys),
        )
    ]
    mixed = list[Tensor]()
    for part, at, *own in zip(batch.parts, indices, *pieces, strict=True):
        *parts, ids = (piece.unflatten(0, (part.num_rows, -1)) for piece in own)
        q, k, v = (t.transpose(1, 2) for t in parts)
        output = block.attention.attend(q, k, v, ids, at, model.encoding, model.attention_factor)
        mixed.append(output.flatten(0, 1))
    return torch.cat(mixed)[None]


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
