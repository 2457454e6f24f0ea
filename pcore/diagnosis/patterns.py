"""The keys that the construction's heads attend to, and how closely a trained head matches them.

Theorem 5.1 of arXiv 2405.20671 adds with one layer and two heads. While a symbol is to be written,
its first head looks at BOS and at the operand digits of the *next* significance, those of the digit
to be written; its second one at BOS and at all tokens of the *same* significance, the current token
included. Both are statements about relative IDs, so they can be asked of any coupled task:

    next   BOS and the visible tokens with the ID of the symbol to be written
    same   BOS and the visible tokens with the ID of the current token (itself among them)

In addition the next ID is ID + 1. A symbol without an ID (EOS), or with one that nothing visible
shares, leaves BOS alone, as in the theorem. Queries are the tokens from '=' to the last response
symbol, whose next token is a target. BOS belongs to both patterns and draws most attention where a
head has nothing to do, so mass without it is the stricter number.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pcore.config import TrialConfig
from pcore.encodings import find_encoding
from pcore.tasks.base import NO_ID

Pattern: TypeAlias = Literal["next", "same"]
PATTERNS: tuple[Pattern, Pattern] = ("next", "same")


@dataclass(frozen=True, kw_only=True, slots=True)
class Likeness:
    """How much a head, or even attention to all visible keys, is like a pattern on a level."""

    pattern: Pattern
    level: str
    mass: float  # attention on the predicted keys, averaged over queries
    mass_beyond_bos: float  # the same without BOS
    most_beyond_bos: float  # its bound: the share of queries with a predicted key other than BOS
    overlap: float  # see `overlap`; 1 = exactly the construction
    mass_at_stop: float  # of the last query alone, the one that must write EOS


def has_coupled_ids(config: TrialConfig) -> bool:
    """Whether the model is given the coupled IDs that the construction speaks of."""
    return config.position.ids == "coupled" and find_encoding(config.position.encoding).uses_ids


def predicted_keys(relative_ids: Int[Tensor, "T P"], first_query: int) -> Bool[Tensor, "P 2 Q T-1"]:
    """The keys of the patterns next and same, for the queries from `first_query` on.

    relative_ids: of one example, BOS first and EOS last; EOS is neither a query nor a key.
    """
    keys = relative_ids[:-1].t()
    visible = visible_keys(first_query, keys.shape[1])
    wanted = torch.stack([relative_ids[first_query + 1 :].t(), keys[:, first_query:]], dim=1)
    same = (keys[:, None, None, :] == wanted.unsqueeze(3)) & (wanted != NO_ID).unsqueeze(3)
    is_bos = torch.arange(keys.shape[1]) == 0
    return (same & visible) | is_bos


def even_weights(keys: Bool[Tensor, "*B Q T"]) -> Float[Tensor, "*B Q T"]:
    """The attention that every query shares evenly among its keys."""
    return keys / keys.sum(dim=-1, keepdim=True)


def visible_keys(first_query: int, num_tokens: int) -> Bool[Tensor, "Q T"]:
    """All that the queries from `first_query` on can look at."""
    indices = torch.arange(num_tokens)
    return indices <= indices[first_query:, None]


def overlap(
    weights: Float[Tensor, "*B Q T"], keys: Bool[Tensor, "P 2 Q T"]
) -> Float[Tensor, "*B P 2"]:
    """Sum over keys of min(attention, even weights on predicted keys), averaged over queries."""
    shared = torch.minimum(weights[..., None, None, :, :], even_weights(keys))
    return shared.sum(dim=-1).mean(dim=-1)


def compare(
    weights: Float[Tensor, "Q T"],
    keys: Bool[Tensor, "P 2 Q T"],
    levels: Sequence[str],
    overlaps: Float[Tensor, "P 2"] | None = None,
) -> tuple[Likeness, ...]:
    """The likeness of attention weights to both patterns on every level.

    overlaps: averaged over examples, where `weights` is an average already.
    """
    overlaps = overlap(weights, keys) if overlaps is None else overlaps
    beyond = keys[..., 1:]
    by_query = (weights * keys).sum(dim=3)
    masses = by_query.mean(dim=2)
    masses_beyond = (weights[:, 1:] * beyond).sum(dim=3).mean(dim=2)
    most = beyond.any(dim=3).float().mean(dim=2)
    return tuple(
        Likeness(
            pattern=pattern,
            level=name,
            mass=float(masses[level, number]),
            mass_beyond_bos=float(masses_beyond[level, number]),
            most_beyond_bos=float(most[level, number]),
            overlap=float(overlaps[level, number]),
            mass_at_stop=float(by_query[level, number, -1]),
        )
        for level, name in enumerate(levels)
        for number, pattern in enumerate(PATTERNS)
    )
