"""The obvious model: plain loops over the specification, nothing saved, nothing shared with pcore.

Every block runs over the whole sequence, one example, one head and one query at a time; it reads
the same state dict. Learned and rotary position signals are written out again; other encodings are
left to their own tests.
"""

import math

import torch
from torch import Tensor


def reference_logits(
    weights: dict[str, Tensor], config, tokens: Tensor, ids: Tensor
) -> list[Tensor]:
    """Logits at every place of each example: "T V" each, from unpadded or padded rows alike."""
    return [_one_example(weights, config, t, i) for t, i in zip(tokens, ids, strict=True)]


def _one_example(w: dict[str, Tensor], config, tokens: Tensor, ids: Tensor) -> Tensor:
    model = config.model
    x = [w["embedding"][token] for token in tokens]
    if config.position.encoding == "learned":
        table = w["encoding.table"]
        x = [v + sum(table[i] for i in levels) for v, levels in zip(x, ids, strict=True)]
    for layer in range(model.num_layers):
        x = _block(w, f"blocks.{layer}.", config, x, ids)
    x = [_norm(w, "final_norm.weight", model.norm, v) for v in x]
    return torch.stack([w["embedding"] @ (v / math.sqrt(model.d_model)) for v in x])


def _block(w: dict[str, Tensor], prefix: str, config, x: list[Tensor], ids: Tensor) -> list[Tensor]:
    model = config.model
    pre, post = model.norm_placement in ("both", "pre"), model.norm_placement in ("both", "post")

    def norm(number: int, v: Tensor, wanted: bool) -> Tensor:
        return _norm(w, f"{prefix}norm{number}.weight", model.norm, v) if wanted else v

    normed = [norm(1, v, pre) for v in x]
    mixed = _attention(w, f"{prefix}attention.", config, normed, ids)
    x = [norm(2, a + b, post) for a, b in zip(x, mixed, strict=True)]
    out = []
    for v in x:
        u = norm(3, v, pre)
        hidden = _gelu(w[f"{prefix}feed_forward.w0"] @ u) * (w[f"{prefix}feed_forward.w1"] @ u)
        out.append(norm(4, v + w[f"{prefix}feed_forward.wo"] @ hidden, post))
    return out


def _attention(
    w: dict[str, Tensor], prefix: str, config, x: list[Tensor], ids: Tensor
) -> list[Tensor]:
    model = config.model
    heads: list[list[Tensor]] = [[] for _ in x]
    for head in range(model.num_heads):
        rows = slice(head * model.d_head, (head + 1) * model.d_head)
        q = [w[f"{prefix}q"][rows] @ v for v in x]
        k = [w[f"{prefix}k"][rows] @ v for v in x]
        values = [w[f"{prefix}v"][rows] @ v for v in x]
        if config.position.encoding == "rotary":
            base = config.position.rotary_base
            q = [_turn(u, int(i[0]), base) for u, i in zip(q, ids, strict=True)]
            k = [_turn(u, int(i[0]), base) for u, i in zip(k, ids, strict=True)]
        for place in range(len(x)):
            scores = torch.stack([q[place] @ k[seen] for seen in range(place + 1)])
            if model.attention_scale == "log-length":
                scores = scores * math.log(place + 1, model.log_base or math.e)
            shares, at_sink = torch.exp(scores), 0.0
            if model.attention_sink == "learned":
                logit = q[place] @ w[f"{prefix}sink"][head]
                if model.attention_scale == "log-length":
                    logit = logit * math.log(place + 1, model.log_base or math.e)
                at_sink = torch.exp(logit)
            shares = shares / (shares.sum() + at_sink)
            heads[place].append(sum(s * values[seen] for seen, s in enumerate(shares)))
    return [w[f"{prefix}o"] @ torch.cat(parts) for parts in heads]


def _turn(u: Tensor, position: int, base: float) -> Tensor:
    """Each pair (2j, 2j+1) turned by position / base^(2j/K)."""
    out = []
    for j in range(0, len(u), 2):
        angle = position * base ** (-j / len(u))
        c, s = math.cos(angle), math.sin(angle)
        out += [u[j] * c - u[j + 1] * s, u[j] * s + u[j + 1] * c]
    return torch.stack(out)


def _norm(w: dict[str, Tensor], name: str, kind: str, v: Tensor) -> Tensor:
    if kind == "layer":
        v = v - v.mean()
    return w[name] * v / torch.sqrt((v * v).mean() + 1e-6)


def _gelu(v: Tensor) -> Tensor:
    return 0.5 * v * (1 + torch.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))
