"""Functions from attention scores to weights, the papers' softmax first; see `ATTENTIONS`."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from pcore.config import ModelConfig
from pcore.model.mixing.base import Attention, Queries, Scores, Visible
from pcore.registry import resolve

NEWTON_STEPS = 8  # to the threshold of entmax in float32: 3,000 keys of any scores need no more
MAX_CONTEXTUAL = 64  # positions that `Contextual` tells apart, as published


def softmax(scores: Scores, visible: Visible) -> Scores:
    """The softmax over visible keys."""
    return scores.masked_fill(~visible, -math.inf).softmax(dim=3)


class Softmax(Attention):
    """Weights that add up to 1; where nobody looks at scores, fused kernels compute it."""

    separable = True

    def forward(self, scores: Scores, visible: Visible, queries: Queries) -> Scores:
        del queries
        return softmax(scores, visible)


class LearnedScale(Attention):
    """Softmax of scores times s log(number of visible keys), s learned for each head, at first 1.

    Attention can thus stay as sharp among many keys as among few; `attention_scale=log-length`
    is s = 1. Source: scalable softmax (Nakanishi 2025, arXiv 2501.19399).
    """

    separable = True

    def __init__(self, config: ModelConfig, layer: int, rng: torch.Generator):
        super().__init__(config, layer, rng)
        self.scale = nn.Parameter(torch.ones(config.num_heads))

    @classmethod
    def check(cls, config: ModelConfig) -> None:
        if config.attention_scale != "none":
            raise ValueError(
                f"model.attention_scale={config.attention_scale} and model.attention=learned-scale "
                "both scale by length: leave the former at none"
            )

    def forward(self, scores: Scores, visible: Visible, queries: Queries) -> Scores:
        del queries
        factor = self.scale[:, None, None] * visible.sum(dim=3, keepdim=True).log()
        return softmax(scores * factor, visible)


class Entmax(Attention):
    """Weights max(score / 2 - t, 0)^2 with the threshold t at which they add up to 1.

    Keys far below the best get no weight, so many of them do not make attention diffuse. Source:
    1.5-entmax (Peters et al. 2019, arXiv 1905.05702); on long contexts: Vasylenko et al. 2025
    (arXiv 2506.16640).
    """

    separable = True

    def forward(self, scores: Scores, visible: Visible, queries: Queries) -> Scores:
        del queries
        z = scores.masked_fill(~visible, -math.inf) / 2
        z = (z - z.amax(dim=3, keepdim=True).detach()).clamp(min=-1)  # below, the weight is 0
        threshold = torch.full_like(z[..., :1], -1)
        with torch.no_grad():  # convex and falling: Newton's method comes from one side
            for _ in range(NEWTON_STEPS):
                over = (z - threshold).clamp(min=0)
                norm = over.norm(dim=3, keepdim=True)
                threshold = threshold + (norm - 1) * norm / over.sum(dim=3, keepdim=True)
        over = (z - threshold).clamp(min=0)
        excess = over.square().sum(dim=3, keepdim=True) - 1  # 0, with the gradient of the threshold
        threshold = threshold + excess / (2 * over.sum(dim=3, keepdim=True)).detach()
        return (z - threshold).clamp(min=0).square()


class StickBreaking(Attention):
    """Each key takes the share sigmoid(score) of what later keys left over; some may remain.

    So near keys come first, whatever the length, and no position encoding is needed. Source: Tan et
    al. 2024 (arXiv 2410.17980); here a query's own token is the first key that takes.
    """

    separable = True

    def forward(self, scores: Scores, visible: Visible, queries: Queries) -> Scores:
        del queries
        left = F.logsigmoid(-scores).masked_fill(~visible, 0.0)  # by each key, as a logarithm
        left = left.flip(3).cumsum(dim=3).flip(3)  # by it and all keys after it
        return (scores + left).masked_fill(~visible, -math.inf).exp()


class Contextual(Attention):
    """Softmax of scores plus a learned logit by contextual position (CoPE).

    The position of a key counts the keys from it to the query, each as much as a gate says: the
    sigmoid of its score. Between whole positions logits are interpolated; from MAX_CONTEXTUAL on
    all are one. Source: Golovneva et al. 2024 (arXiv 2405.18719).
    """

    separable = True

    def __init__(self, config: ModelConfig, layer: int, rng: torch.Generator):
        super().__init__(config, layer, rng)
        self.table = nn.Parameter(torch.zeros(config.d_head, MAX_CONTEXTUAL))

    def forward(self, scores: Scores, visible: Visible, queries: Queries) -> Scores:
        gates = scores.sigmoid().masked_fill(~visible, 0.0)
        positions = gates.flip(3).cumsum(dim=3).flip(3).clamp(max=MAX_CONTEXTUAL - 1)
        by_position = (queries @ self.table.to(queries.dtype)).float()
        low, high = positions.floor(), positions.ceil()
        share = positions - low
        logits = (1 - share) * by_position.gather(3, low.long())
        logits = logits + share * by_position.gather(3, high.long())
        return softmax(scores + logits, visible)


ATTENTIONS: dict[str, type[Attention]] = {
    "softmax": Softmax,
    "learned-scale": LearnedScale,
    "entmax": Entmax,
    "stick-breaking": StickBreaking,
    "contextual": Contextual,
}


def find_attention(name: str) -> type[Attention]:
    """The class of a value of `model.attention`. Raises ValueError if there is none."""
    return resolve(name, ATTENTIONS, "attention")
