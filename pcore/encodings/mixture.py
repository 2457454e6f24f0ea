"""Levels of position IDs with learned weights: training decides which of them is the coupling."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pcore.config import ModelConfig, PositionConfig
from pcore.encodings.embeddings import Learned


class Mixture(Learned):
    """`learned`, but levels are summed with weights that are trained with everything else.

    sum over levels c of w_c * row_c / norm(w), where w = softmax of one logit per level. Divided by
    the Euclidean norm, the sum of unrelated rows has the size of one row whatever the weights are,
    and a gate that has chosen one level is exactly `learned` with that level alone. All weights are
    equal at first, and move at the pace of all other parameters (ten times as fast they chose a
    wrong candidate before anything was learned). With position.ids=candidates it is an attempt to
    *find* a coupling; with coupled IDs it weighs the levels of the task. The same weights act in
    training and at test time: nothing is sharpened or cut off.
    """

    at_test = "the weights as trained; rows of the test IDs as in `learned`"

    def __init__(
        self, position: PositionConfig, model: ModelConfig, num_levels: int, rng: torch.Generator
    ):
        super().__init__(position, model, num_levels, rng)
        # One level leaves nothing to weigh: no parameter that could not learn anything.
        self.gate = nn.Parameter(torch.zeros(num_levels)) if num_levels > 1 else None

    def weights(self) -> Float[Tensor, " P"]:
        """The share of each level; they add up to 1. The levels' names: `positions.level_names`."""
        if self.gate is None:
            return self.table.new_ones(1)
        return self.gate.softmax(dim=0)

    def embed(self, ids: Int[Tensor, "B T P"]) -> Float[Tensor, "B T D"]:
        rows = nn.functional.embedding(ids + self.first_rows, self.table)
        return torch.einsum("btpd,p->btd", rows, nn.functional.normalize(self.weights(), dim=0))
