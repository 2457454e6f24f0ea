import torch
from torch import nn

from pcore.encodings import Encoding


class Distance(Encoding):
    """A learned bias per head and distance between IDs; distances of 16 and more are alike."""

    uses_ids = True  # IDs have an effect

    # `position` and `model` are the settings of these names; random weights come from `rng`.
    def __init__(self, position, model, num_levels, rng):
        super().__init__(position, model, num_levels, rng)
        self.table = nn.Parameter(torch.zeros(model.num_heads, 17))

    # Or `embed(self, ids)`: IDs B T P to vectors B T D (D: model.d_model), added to the embeddings;
    # or `rotate(self, x, ids, layer)`: queries or keys, B H T K, to the same shape.
    def bias(self, query_ids, key_ids, layer):  # B Q P and B T P: rows, tokens, IDs of a token
        distance = (query_ids[:, :, None] - key_ids[:, None]).abs().sum(dim=3)
        return self.table[:, distance.clamp(max=16)].transpose(0, 1)  # B H Q T, added to the scores
