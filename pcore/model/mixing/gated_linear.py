"""Linear attention with a gate: a state of fixed size instead of all keys and values."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from pcore.config import ModelConfig
from pcore.encodings import Encoding
from pcore.model.mixing.base import Mixer, State, make_weight

CHUNK = 128  # tokens whose pairs are computed at once; between chunks only the state goes on
SLOWNESS = 16  # of forgetting, as published: the gate's logarithm is divided by it


class GatedLinear(Mixer):
    """State <- gate * state + key value^T; output = query state, normed, gated, projected.

    The gate is a sigmoid of the token, one for each head, so a head forgets by content and knows
    order without positions. IDs do not act. Sources: gated linear attention (Yang et al. 2023,
    arXiv 2312.06635), with one gate for a head as in Mamba-2 (Dao & Gu 2024, arXiv 2405.21060).
    """

    separable = True

    def __init__(self, config: ModelConfig, layer: int, rng: torch.Generator):
        super().__init__(config, layer, rng)
        d, inner = config.d_model, config.num_heads * config.d_head
        self.num_heads = config.num_heads
        self.q = make_weight(inner, d, 1 / d, rng)
        self.k = make_weight(inner, d, 1 / d, rng)
        self.v = make_weight(inner, d, 1 / d, rng)
        self.o = make_weight(d, inner, 1 / inner, rng)
        self.gate = make_weight(config.num_heads, d, 1 / d, rng)
        self.output_gate = make_weight(inner, d, 1 / d, rng)

    def step(
        self,
        x: Float[Tensor, "B N D"],
        ids: Int[Tensor, "B S P"],
        encoding: Encoding,
        past: State | None,
    ) -> tuple[Float[Tensor, "B N D"], State]:
        """As of `Mixer`; the state is "B H K K"."""
        del ids, encoding
        q, k, v = (self._split(F.linear(x, w)).float() for w in (self.q, self.k, self.v))
        log_gates = F.logsigmoid(F.linear(x, self.gate).float()).transpose(1, 2) / SLOWNESS
        state = past[0] if past else q.new_zeros(*q.shape[:2], q.shape[3], v.shape[3])
        mixed: list[Tensor] = []
        for first in range(0, q.shape[2], CHUNK):
            some = slice(first, first + CHUNK)
            parts = q[:, :, some], k[:, :, some], v[:, :, some]
            output, state = _mix_chunk(*parts, log_gates[:, :, some], state)
            mixed.append(output)
        heads = F.rms_norm(torch.cat(mixed, dim=2), q.shape[3:], eps=1e-6)
        gated = heads.transpose(1, 2).flatten(2) * F.silu(F.linear(x, self.output_gate))
        return F.linear(gated, self.o), (state,)

    def _split(self, x: Float[Tensor, "B N I"]) -> Float[Tensor, "B H N K"]:
        return x.unflatten(2, (self.num_heads, -1)).transpose(1, 2)


def _mix_chunk(
    q: Float[Tensor, "B H C K"],
    k: Float[Tensor, "B H C K"],
    v: Float[Tensor, "B H C K"],
    log_gates: Float[Tensor, "B H C"],
    state: Float[Tensor, "B H K K"],
) -> tuple[Float[Tensor, "B H C K"], Float[Tensor, "B H K K"]]:
    """The outputs at a chunk of tokens, and the state after it."""
    passed = log_gates.cumsum(dim=2)  # of what came before the chunk, how much is left: logarithm
    between = passed.unsqueeze(3) - passed.unsqueeze(2)
    later = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).triu(1)
    kept = between.masked_fill(later, -math.inf).exp()
    inside = (q @ k.transpose(2, 3) * kept) @ v
    before = passed.exp().unsqueeze(3) * (q @ state)
    whole = passed[:, :, -1:]
    new = (k * (whole - passed).exp().unsqueeze(3)).transpose(2, 3) @ v
    return inside + before, whole.exp().unsqueeze(3) * state + new
