"""The formal Transformer of the papers' theorems, with weights given instead of learned.

Unscaled scores, causal softmax, no norms, ReLU feed-forward networks with biases, an untied
read-out, position vectors added to the embedding (the vector of ID 0 is zero). Unlike
`pcore.model`, a feed-forward network may have several hidden layers: the theorem on
multiplication lets it be any network.
Source: Cho et al., Position Coupling (arXiv 2405.20671), appendix on the formal construction.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from pcore.model import LanguageModel
from pcore.theory.forms import BlockPlan, FeedForwardPlan, Form, HeadPlan, to_matrix

MAX_SCORES = 2**22  # scores of all heads held at a time; bounds memory, nothing else


class FormalTransformer(LanguageModel):
    """B examples, T tokens, D d_model, H heads, K d_head, V vocabulary, I position IDs with 0.

    positions: a table for each of the P levels of IDs.
    """

    def __init__(
        self,
        embedding: Float[Tensor, "V D"],
        positions: list[Float[Tensor, "I D"]],
        blocks: list[BlockPlan],
        read_out: Float[Tensor, "V D"],
    ):
        super().__init__()
        self.embedding = nn.Parameter(embedding)
        self.positions = nn.ParameterList(positions)
        self.blocks = nn.ModuleList(Block(plan, embedding.shape[1]) for plan in blocks)
        self.unembedding = nn.Parameter(read_out)
        self.requires_grad_(False)

    @property
    def num_parameters(self) -> int:
        return sum(p.numel() for p in self.parameters())

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        ids: Int[Tensor, "B T P"],
        places: Int[Tensor, "B R"] | None = None,
    ) -> Float[Tensor, "B R V"]:
        """Logits of the next token at `places` (indices into T, ascending; None = everywhere), in
        the precision of the weights, whatever autocast says.
        """
        with torch.autocast(tokens.device.type, enabled=False):
            return F.linear(self.residual(tokens, ids, places), self.unembedding)

    def residual(
        self,
        tokens: Int[Tensor, "B T"],
        ids: Int[Tensor, "B T P"],
        places: Int[Tensor, "B R"] | None = None,
    ) -> Float[Tensor, "B R D"]:
        """The residual stream at `places` after the last block: what the proofs call Z."""
        x = F.embedding(tokens, self.embedding)
        for level, table in enumerate(self.positions):
            x = x + F.embedding(ids[:, :, level], table)
        everywhere = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        for block in self.blocks:
            last = places is not None and block is self.blocks[-1]
            x = block(x, places if last else everywhere)
        return x


class Block(nn.Module):
    """x <- x + attention(x); x <- x + feed_forward(x)."""

    def __init__(self, plan: BlockPlan, d_model: int):
        super().__init__()
        self.attention = Attention(plan.heads, d_model)
        self.feed_forward = FeedForward(plan.feed_forward, d_model)

    def forward(self, x: Float[Tensor, "B T D"], at: Int[Tensor, "B R"]) -> Float[Tensor, "B R D"]:
        """The block's output at the indices `at`."""
        queries = x
        if at.shape[1] != x.shape[1]:
            queries = x.gather(1, at.unsqueeze(2).expand(-1, -1, x.shape[2]))
        queries = queries + self.attention(queries, x, at)
        return queries + self.feed_forward(queries)


class Attention(nn.Module):
    """Causal softmax attention. All heads have the d_head of the largest, filled with zeros."""

    def __init__(self, heads: list[HeadPlan], d_model: int):
        super().__init__()
        d_head = max(max(len(h.query), len(h.writes)) for h in heads)
        shape = (len(heads), d_head, d_model)
        q, k, v, o = (torch.zeros(shape, dtype=torch.float64) for _ in range(4))
        for i, head in enumerate(heads):
            assert len(head.query) == len(head.key)
            values = [form for _, form in head.writes]
            for weight, forms in ((q, head.query), (k, head.key), (v, values)):
                rows, biases = to_matrix(forms, d_model)
                assert not biases.any(), "attention has no biases"
                weight[i, : len(rows)] = rows
            for j, (row, _) in enumerate(head.writes):
                o[i, j, row.wire] = 1.0
        self.q, self.k, self.v, self.o = (nn.Parameter(w) for w in (q, k, v, o))

    def forward(
        self,
        queries: Float[Tensor, "B R D"],
        x: Float[Tensor, "B T D"],
        at: Int[Tensor, "B R"],
    ) -> Float[Tensor, "B R D"]:
        """What the heads add at the indices `at`, some queries at a time."""
        q = torch.einsum("brd,hkd->bhrk", queries, self.q)
        k = torch.einsum("btd,hkd->bhtk", x, self.k)
        v = torch.einsum("btd,hkd->bhtk", x, self.v)
        chunk = max(1, MAX_SCORES // (k.shape[0] * k.shape[1] * k.shape[2]))
        parts = [
            attend(q_part, k, v, at_part)
            for q_part, at_part in zip(q.split(chunk, dim=2), at.split(chunk, dim=1), strict=True)
        ]
        return torch.einsum("bhrk,hkd->brd", torch.cat(parts, dim=2), self.o)


class FeedForward(nn.Module):
    """Linear maps with a ReLU between one and the next."""

    def __init__(self, plan: FeedForwardPlan, d_model: int):
        super().__init__()
        width, maps = d_model, list[tuple[Tensor, Tensor]]()
        for layer in plan.layers:
            maps.append(to_matrix(layer.units, width))
            width = len(layer.units)
        outputs = [Form()] * d_model
        for row, form in plan.writes:
            outputs[row.wire] = form
        maps.append(to_matrix(outputs, width))
        self.weights = nn.ParameterList(weight for weight, _ in maps)
        self.biases = nn.ParameterList(bias for _, bias in maps)

    def forward(self, x: Float[Tensor, "B R D"]) -> Float[Tensor, "B R D"]:
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = F.linear(x.relu() if number else x, weight, bias)
        return x


def attend(
    q: Float[Tensor, "B H R K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T K"],
    at: Int[Tensor, "B R"],
) -> Float[Tensor, "B H R K"]:
    """Values mixed by the softmax over the keys 0..at of each query; scores are not scaled."""
    visible = torch.arange(k.shape[2], device=k.device) <= at.unsqueeze(2)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=visible.unsqueeze(1), scale=1.0)
