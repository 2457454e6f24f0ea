"""Equal tokens with equal IDs, found once: what the first block makes of them alone is the same.

Before attention mixes them, all tokens of one symbol and one position are alike, whatever example
they stand in: 36,800 tokens of 200 sums of 60 digits are 605 distinct ones. Queries, keys and
values of the first block need computing for those only, which is exact.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Distinct(NamedTuple):
    """numbers: of each token among the distinct ones. places: of one token of each number
    in the flattened "B T".
    """

    numbers: Int[Tensor, "B T"]
    places: Int[Tensor, " U"]

    @property
    def worth_sharing(self) -> bool:
        """At most half of the tokens are distinct, or looking them up costs more than it saves."""
        return 2 * len(self.places) <= self.numbers.numel()


class SharedTokens(NamedTuple):
    """What the first block computes of U distinct tokens; x: its input.

    numbers: the row of each token. q, k: turned by their IDs, not scaled; I = heads times d_head.
    """

    numbers: Int[Tensor, "B T"]
    x: Float[Tensor, "U D"]
    q: Float[Tensor, "U I"]
    k: Float[Tensor, "U I"]
    v: Float[Tensor, "U I"]

    def take(self, rows: slice, num_tokens: int) -> "SharedTokens":
        """The same for the first tokens of some examples."""
        return self._replace(numbers=self.numbers[rows, :num_tokens])


def find_distinct(
    tokens: Int[Tensor, "B T"], ids: Int[Tensor, "B T P"], uses_ids: bool = True
) -> Distinct:
    """Which tokens are the same symbol, with the same IDs on all levels if IDs have any effect."""
    keys = tokens.flatten()
    for level in ids.flatten(0, 1).unbind(1) if uses_ids else ():
        keys = keys.unique(return_inverse=True)[1] * (level.max() + 1) + level
    distinct, index = keys.unique(return_inverse=True)
    places = torch.empty_like(distinct)
    places[index] = torch.arange(len(keys), device=keys.device)
    return Distinct(index.view(tokens.shape), places)
