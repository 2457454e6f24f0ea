import torch
from torch import nn

from pcore.mixing import Attention


class Temperature(Attention):
    """A softmax of scores divided by a trained temperature per head."""

    def __init__(self, config, layer, rng):
        super().__init__(config, layer, rng)
        self.temperature = nn.Parameter(torch.ones(config.num_heads, 1, 1))  # one per head

    # Scores (B H R S: rows, heads, queries, keys) become weights of this shape; visible (B 1 R S):
    # which keys may be seen; queries (B H R K). Change scores first, mask last.
    def forward(self, scores, visible, queries):
        return (scores / self.temperature).masked_fill(~visible, -torch.inf).softmax(dim=3)
