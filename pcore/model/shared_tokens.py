"""Computes tokens with equal symbol and ID once; equivalent to `Transformer.forward`.

Before attention, all tokens with the same symbol and position ID are identical in all examples: the
36,800 tokens of 200 sums of 60 digits have 605 distinct values. Only for those are queries, keys
and values of the first block computed. The logits equal the model's:
`tests/pcore/evaluation/test_judge.py`; losses and gradients: `tests/pcore/model/test_ragged.py`.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from pcore.model.mixing import SelfAttention
from pcore.model.transformer import LanguageModel, Transformer


class Distinct(NamedTuple):
    """Which tokens of a batch are distinct.

    numbers: of each token among the U distinct ones.
    examples: of each distinct one, the index of one such token in the flattened "B T".
    """

    numbers: Int[Tensor, "B T"]
    examples: Int[Tensor, " U"]

    @property
    def worth_sharing(self) -> bool:
        """At most half of the tokens are distinct, or looking them up costs more than it saves."""
        return 2 * len(self.examples) <= self.numbers.numel()


class SharedTokens(NamedTuple):
    """What the first block computes of U distinct tokens; I = heads times d_head.

    numbers: the row of each token. x: input of the block. q, k: rotated by their IDs, not scaled.
    """

    numbers: Int[Tensor, "B T"]
    x: Float[Tensor, "U D"]
    q: Float[Tensor, "U I"]
    k: Float[Tensor, "U I"]
    v: Float[Tensor, "U I"]

    def take(self, rows: slice, num_tokens: int) -> "SharedTokens":
        """The same for the first tokens of some examples."""
        return self._replace(numbers=self.numbers[rows, :num_tokens])


class Projected(NamedTuple):
    """What enters the attention of a block: its input at the queries, and q, k, v."""

    x: Float[Tensor, "B R D"]
    q: Float[Tensor, "B H R K"]
    k: Float[Tensor, "B H T K"]
    v: Float[Tensor, "B H T K"]


def find_distinct(
    tokens: Int[Tensor, "B T"], ids: Int[Tensor, "B T P"], uses_ids: bool = True
) -> Distinct:
    """Which tokens are the same symbol, with the same IDs on all levels if IDs have any effect."""
    keys = tokens.flatten()
    for level in ids.flatten(0, 1).unbind(1) if uses_ids else ():
        keys = keys.unique(return_inverse=True)[1] * (level.max() + 1) + level
    distinct, index = keys.unique(return_inverse=True)
    examples = torch.empty_like(distinct)
    examples[index] = torch.arange(len(keys), device=keys.device)
    return Distinct(index.view(tokens.shape), examples)


def share_tokens(
    model: LanguageModel, tokens: Int[Tensor, "B T"], ids: Int[Tensor, "B T P"]
) -> SharedTokens | None:
    """What the first block computes of a token and its IDs alone, once for each distinct pair.

    None if more than half of the tokens are distinct, or the model has a forward pass or a mixer of
    its own, or reads the embedded tokens again.
    """
    if not isinstance(model, Transformer) or type(model).forward is not Transformer.forward:
        return None
    block, again = model.layers[0], model.config.input_injection
    if not model.separable or again or type(block.attention) is not SelfAttention:
        return None
    distinct = find_distinct(tokens, ids, model.encoding.uses_ids)
    if not distinct.worth_sharing:
        return None
    ids = ids.flatten(0, 1)[distinct.examples][None]
    x = model.embed(tokens.flatten()[distinct.examples][None], ids)
    normed = block.norm1(x)
    heads = block.attention.project(normed, ids, normed, ids, model.encoding)
    q, k, v = (t.transpose(1, 2).flatten(2)[0] for t in heads)
    return SharedTokens(distinct.numbers, x[0], q, k, v)


def look_up(model: Transformer, shared: SharedTokens, at: Int[Tensor, "B R"] | None) -> Projected:
    """What enters the attention of the first block, queries at some indices (None = all)."""
    attention, numbers = model.layers[0].attention, shared.numbers
    assert isinstance(attention, SelfAttention)
    split = attention.split
    asked = numbers if at is None else numbers.gather(1, at)
    return Projected(
        F.embedding(asked, shared.x),
        split(F.embedding(asked, shared.q)),
        split(F.embedding(numbers, shared.k)),
        split(F.embedding(numbers, shared.v)),
    )


def logits_from_shared(
    model: LanguageModel,
    tokens: Int[Tensor, "B T"],
    ids: Int[Tensor, "B T P"],
    at: Int[Tensor, "B R"] | None,
    shared: SharedTokens | None,
) -> Float[Tensor, "B R V"]:
    """`model(tokens, ids, at)`, with a first block that reads what `share_tokens` gave, if any."""
    if shared is None:
        return model(tokens, ids, at)
    assert isinstance(model, Transformer)
    encoding, factor = model.encoding, model.attention_factor
    first, *others = model.passes
    here = at if not others else None
    everywhere = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
    projected = look_up(model, shared, here)
    indices = everywhere if here is None else here
    assert isinstance(first.attention, SelfAttention)
    attended = first.attention.attend(*projected[1:], ids, indices, encoding, factor)
    x = first.finish(projected.x, attended)
    for number, block in enumerate(others, start=1):
        x, _ = block(x, ids, encoding, factor, at if number == len(others) else None)
    return model.read_out(x)
