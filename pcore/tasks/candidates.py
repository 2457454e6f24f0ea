"""Candidate couplings: relative IDs that follow from the tokens alone, without knowing the task.

Coupling is designed by hand for each task (arXiv 2405.20671, section 3). Here is what can be said
without a designer: the query falls into segments at its operators, and tokens can be counted from
either end. A symbol that is neither letter nor digit is an operator.

    forward     1, 2, 3, ... from the start of each segment of the query; operators get 0
    backward    the same from its end
    up          '=' gets 0, the response 1, 2, 3, ...
    down        '=' gets 1 + the longest segment, the response counts down from there and stops at 0
    sequential  0, 1, 2, ... over query, '=' and response: no coupling

    653+049=2070     tok          $ 6 5 3 + 0 4 9 = 2 0 7 0 $
                     forward-up   . 1 2 3 0 1 2 3 0 1 2 3 4 .
                     backward-up  . 3 2 1 0 3 2 1 0 1 2 3 4 .
                     forward-down . 1 2 3 0 1 2 3 4 3 2 1 0 .

Up to a constant, forward-up is the designed coupling of copy, backward-up that of addition and
multiplication with a reversed response, forward-down that of reverse. Not among them: couplings
that need the length of the response (addition with an unreversed one), several levels, or no order
(sorting as a bag). Where all segments have the same length, forward-up and backward-down are mirror
images of each other, and so are backward-up and forward-down.

The ID of a response token follows from the query and from how many response tokens precede it, so
all of them are known before the response is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from pcore import lazy_torch as torch
from pcore.tasks.base import NO_ID, Batch, Task
from pcore.vocab import Vocab

if TYPE_CHECKING:
    from jaxtyping import Bool, Int
    from torch import Tensor

Candidate: TypeAlias = Literal[
    "all", "forward-up", "backward-up", "forward-down", "backward-down", "sequential"
]
SEQUENTIAL = "sequential"
CANDIDATES: tuple[str, ...] = get_args(Candidate)[1:]


def chosen_candidates(candidate: str) -> tuple[str, ...]:
    """All names, or the one that `position.candidate` names."""
    return CANDIDATES if candidate == "all" else (candidate,)


def candidate_ids(batch: Batch, task: Task, names: Sequence[str]) -> Int[Tensor, "B T P"]:
    """Relative IDs of these candidates, one level each; -1 on BOS, EOS and PAD."""
    tokens = batch.tokens
    indices = torch.arange(tokens.shape[1], device=tokens.device)
    equals = batch.response_mask.int().argmax(dim=1, keepdim=True) - 1
    eos = (tokens != 0).sum(dim=1, keepdim=True) - 1
    in_query = (indices > 0) & (indices < equals)
    content = in_query & _is_content(tokens, task.vocab)
    levels = [_number(name, content, in_query, indices, equals) for name in names]
    inside = (indices > 0) & (indices < eos)
    return torch.stack(levels, dim=2).where(inside.unsqueeze(2), NO_ID)


def index_in_runs(inside: Bool[Tensor, "B T"], indices: Int[Tensor, " T"]) -> Int[Tensor, "B T"]:
    """0, 1, 2, ... within every run of True, none outside."""
    last_outside = torch.where(inside, -1, indices).cummax(dim=1).values
    return torch.where(inside, indices - last_outside - 1, NO_ID)


def _number(
    name: str,
    content: Bool[Tensor, "B T"],
    in_query: Bool[Tensor, "B T"],
    indices: Int[Tensor, " T"],
    equals: Int[Tensor, "B 1"],
) -> Int[Tensor, "B T"]:
    """The IDs of one candidate; any value on BOS, EOS and PAD."""
    if name == SEQUENTIAL:
        return (indices - 1).expand_as(content)
    query, _, response = name.partition("-")
    if query == "forward":
        numbers = index_in_runs(content, indices) + 1
    else:
        numbers = index_in_runs(content.flip(1), indices).flip(1) + 1
    steps = indices - equals  # 0 at '='
    if response == "down":
        steps = (numbers.amax(dim=1, keepdim=True) + 1 - steps).clamp(min=0)
    return torch.where(in_query, numbers, steps)


def _is_content(tokens: Int[Tensor, "B T"], vocab: Vocab) -> Bool[Tensor, "B T"]:
    content = [token for token, symbol in enumerate(vocab.symbols) if symbol.isalnum()]
    return torch.isin(tokens, torch.tensor(content, device=tokens.device))
