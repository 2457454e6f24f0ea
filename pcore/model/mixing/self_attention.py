"""The attention sublayer of the papers: projections, scores, weights, values, output.

Shapes as in `pcore.model.transformer`; S keys, R queries.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from pcore.config import ModelConfig
from pcore.encodings import Encoding
from pcore.model.mixing.attentions import Softmax, find_attention, softmax
from pcore.model.mixing.base import Attention, Mixer, State, make_weight, take

# Of attention scores at once without gradients: 30,000 tokens never have all of theirs.
SCORE_BYTES = {"cpu": 2**26, "gpu": 2**30}


class SelfAttention(Mixer):
    """Multi-head causal attention; softmax in float32, or another way from scores to weights."""

    separable = True

    def __init__(self, config: ModelConfig, layer: int, rng: torch.Generator):
        super().__init__(config, layer, rng)
        d, inner = config.d_model, config.num_heads * config.d_head
        self.num_heads, self.scale = config.num_heads, config.attention_scale
        self.log_base = config.log_base
        self.q = make_weight(inner, d, 1 / (d * config.d_head), rng)
        self.k = make_weight(inner, d, 1 / d, rng)
        self.v = make_weight(inner, d, 1 / d, rng)
        self.o = make_weight(d, inner, 1 / inner, rng)
        if config.query_init == "zero":  # drawn all the same: the other weights stay what they are
            nn.init.zeros_(self.q)
        # Zero, not drawn: at first a key like any other on average, which moves no other weight.
        sink = torch.zeros(config.num_heads, config.d_head)
        self.sink = nn.Parameter(sink) if config.attention_sink == "learned" else None
        self.weigh = find_attention(config.attention)(config, layer, rng)

    def forward(
        self,
        x: Float[Tensor, "B N D"],
        ids: Int[Tensor, "B S P"],
        encoding: Encoding,
        factor: float,
        at: Int[Tensor, "B R"] | None = None,
        past: State | None = None,
    ) -> tuple[Float[Tensor, "B R D"], State]:
        """As of `Mixer`; the state is keys and values of all tokens, "B H S K", keys rotated."""
        num_past = ids.shape[1] - x.shape[1]
        new_ids = ids[:, num_past:]
        q, k, v = self.project(x, new_ids, take(x, at), take(new_ids, at), encoding)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        everywhere = torch.arange(x.shape[1], device=x.device).expand(len(x), -1)
        positions = num_past + (everywhere if at is None else at)
        return self.attend(q, k, v, ids, positions, encoding, factor), (k, v)

    def project(
        self,
        x: Float[Tensor, "B N D"],
        ids: Int[Tensor, "B N P"],
        queries: Float[Tensor, "B R D"],
        query_ids: Int[Tensor, "B R P"],
        encoding: Encoding,
    ) -> tuple[Float[Tensor, "B H R K"], Float[Tensor, "B H N K"], Float[Tensor, "B H N K"]]:
        """q of the queries, k and v of x; q and k rotated by their IDs, q not yet scaled."""
        q = encoding.rotate(self.split(F.linear(queries, self.q)), query_ids, self.layer)
        k = encoding.rotate(self.split(F.linear(x, self.k)), ids, self.layer)
        return q, k, self.split(F.linear(x, self.v))

    def attend(
        self,
        q: Float[Tensor, "B H R K"],
        k: Float[Tensor, "B H S K"],
        v: Float[Tensor, "B H S K"],
        ids: Int[Tensor, "B S P"],
        at: Int[Tensor, "B R"],
        encoding: Encoding,
        factor: float,
    ) -> Float[Tensor, "B R D"]:
        """The output of attention from queries at the indices `at` of S tokens."""
        q = self.scale_queries(q, at, factor)
        size = q.shape[2] if torch.is_grad_enabled() else self.queries_at_once(q, k, encoding)
        mixed: list[Tensor] = []
        for first in range(0, q.shape[2], size):
            some, q_part = at[:, first : first + size], q[:, :, first : first + size]
            seen = k.shape[2] if size >= q.shape[2] else int(some.max()) + 1
            bias = encoding.bias(take(ids, some), ids[:, :seen], self.layer)
            keys, values = k[:, :, :seen], v[:, :, :seen]
            mixed.append(attend(q_part, keys, values, some, bias, self.sink, self.weigh))
        whole = mixed[0] if len(mixed) == 1 else torch.cat(mixed, dim=2)
        return F.linear(whole.transpose(1, 2).flatten(2), self.o)

    def queries_at_once(
        self, q: Float[Tensor, "B H R K"], k: Float[Tensor, "B H S K"], encoding: Encoding
    ) -> int:
        """Queries whose scores fit into SCORE_BYTES; all of them where a kernel keeps no scores,
        or where they do not count each by itself.
        """
        has_bias = type(encoding).bias is not Encoding.bias
        fused = type(self.weigh) is Softmax and not has_bias and self.sink is None
        if (q.shape[2] == k.shape[2] and fused) or not self.weigh.separable:
            return q.shape[2]
        kind = "cpu" if k.device.type == "cpu" else "gpu"
        return max(1, SCORE_BYTES[kind] // (4 * len(k) * self.num_heads * k.shape[2]))

    def scale_queries(
        self, q: Float[Tensor, "B H R K"], at: Int[Tensor, "B R"], factor: float
    ) -> Float[Tensor, "B H R K"]:
        """attention_scale=log-length: times the logarithm of the number of visible keys."""
        if self.scale == "log-length":
            logs = (at + 1).log() / (math.log(self.log_base) if self.log_base else 1.0)
            q = q * logs.to(q.dtype)[:, None, :, None]
        return q * factor if factor != 1.0 else q

    def split(self, x: Float[Tensor, "B N I"]) -> Float[Tensor, "B H N K"]:
        return x.unflatten(2, (self.num_heads, -1)).transpose(1, 2)


def attend(
    q: Float[Tensor, "B H R K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S K"],
    at: Int[Tensor, "B R"],
    bias: Float[Tensor, "B H R S"] | None,
    sink: Float[Tensor, "H K"] | None = None,
    weigh: Attention | None = None,
) -> Float[Tensor, "B H R K"]:
    """Values mixed by the softmax over the keys 0..at of each query; scores are not scaled.

    sink: an extra key that every query sees, with value 0 and without a bias. weigh: makes the
    weights instead of softmax. The fused kernel supports only softmax and no gradient of a bias, so
    everything else takes the plain path.
    """
    fused = bias is None and (weigh is None or type(weigh) is Softmax)
    if sink is not None:
        k = torch.cat([sink[:, None].to(k.dtype).expand(len(k), -1, -1, -1), k], dim=2)
        v = F.pad(v, (0, 0, 1, 0))
        at = at + 1
        bias = None if bias is None else F.pad(bias, (1, 0))
    elif fused and q.shape[2] == k.shape[2]:  # a query at every token
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0)
    visible = (torch.arange(k.shape[2], device=k.device) <= at.unsqueeze(2)).unsqueeze(1)
    if fused:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=visible, scale=1.0)
    scores = (q @ k.transpose(2, 3)).float()
    scores = scores if bias is None else scores + bias
    weights = softmax(scores, visible) if weigh is None else weigh(scores, visible, q)
    return weights.to(v.dtype) @ v
