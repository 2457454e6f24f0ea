"""The obvious version of the model, of a training step and of an evaluation, written out from the
specification: what pcore is measured against, and has to equal.

Logits at every place, every batch padded to its longest example, each operation by itself, one
parameter after the other in clipping and optimizer, the loss read after every step. It works on the
parameters of a pcore model; learned position tables, rotary encodings and NoPE only.
"""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from pcore.batch import TrainingBatch
from pcore.config import TrialConfig
from pcore.evaluation import LengthResult
from pcore.model import Transformer
from pcore.tasks import Batch


class ObviousTrainer:
    """Trains a model step by step in the obvious way."""

    def __init__(self, model: Transformer, config: TrialConfig):
        self.model, self.config = model, config
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        o = config.optim
        self.optimizer = torch.optim.AdamW(
            self.parameters,
            lr=o.learning_rate,
            betas=(o.beta1, o.beta2),
            eps=o.eps,
            foreach=False,
            fused=False,
        )

    def update(self, batch: TrainingBatch, rate: float, decay: float) -> tuple[float, float]:
        """One step; its mean loss and the norm of its gradient before clipping."""
        for group in self.optimizer.param_groups:
            group.update(lr=rate, weight_decay=decay)
        self.optimizer.zero_grad()
        loss = mean_loss(self.model, self.config, batch)
        loss.backward()
        limit = self.config.optim.grad_clip or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, limit, foreach=False)
        self.optimizer.step()
        return loss.item(), norm.item()


def mean_loss(model: Transformer, config: TrialConfig, batch: TrainingBatch) -> Tensor:
    """Cross-entropy over the targets of a padded batch."""
    logits = forward(_weights_of(model), config, batch.tokens, batch.ids)
    targets = torch.full(batch.tokens.shape, -100)
    for row, (places, following) in enumerate(zip(batch.places, batch.targets, strict=True)):
        real = following != -100
        targets[row, places[real]] = following[real]
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)


@torch.no_grad()
def find_right(model: Transformer, config: TrialConfig, batch: Batch, ids: Tensor) -> Tensor:
    """Which examples with these position IDs are right in every target."""
    predicted = forward(_weights_of(model), config, batch.tokens[:, :-1], ids[:, :-1]).argmax(dim=2)
    wrong = (predicted != batch.tokens[:, 1:]) & batch.response_mask[:, 1:]
    return ~wrong.any(dim=1)


@torch.no_grad()
def outcomes(result: LengthResult) -> list[bool]:
    """Which examples are right, as they are stored: a bit each."""
    bits = np.unpackbits(np.frombuffer(result.outcomes, np.uint8), count=result.counts.num_examples)
    return bits.astype(bool).tolist()


def judge_plainly(
    model: Transformer, config: TrialConfig, batch: Batch, ids: Tensor
) -> tuple[dict[str, int], float, list[list[int]]]:
    """Counts by name, summed loss, and for each example the places of the answer that are wrong."""
    logits = forward(_weights_of(model), config, batch.tokens[:, :-1], ids[:, :-1]).detach()
    eos = config.task.vocab.index[config.task.eos]
    kinds = ("correct", "missed_stop", "early_stop", "wrong_symbol")
    counts, loss, wrong = dict.fromkeys(kinds, 0), 0.0, list[list[int]]()
    for row, mask in enumerate(batch.response_mask):
        at = mask.nonzero().squeeze(1)
        targets, guesses = batch.tokens[row, at], logits[row, at - 1].argmax(dim=1)
        loss += float(F.cross_entropy(logits[row, at - 1].double(), targets, reduction="sum"))
        wrong.append((targets != guesses).nonzero().squeeze(1).tolist())
        if not wrong[-1]:
            counts["correct"] += 1
        elif targets[wrong[-1][0]] == eos:
            counts["missed_stop"] += 1
        else:
            stopped = guesses[wrong[-1][0]] == eos
            counts["early_stop" if stopped else "wrong_symbol"] += 1
    return counts, loss, wrong


def _weights_of(model: Transformer) -> dict[str, Tensor]:
    return dict(model.named_parameters()) | dict(model.named_buffers())


def forward(
    weights: Mapping[str, Tensor], config: TrialConfig, tokens: Tensor, ids: Tensor
) -> Tensor:
    """Logits "B T V" at every place."""
    m = config.model

    def norm(w: Mapping[str, Tensor], number: int, x: Tensor) -> Tensor:
        before = number % 2 == 1
        wanted = m.norm_placement in ("both", "pre" if before else "post")
        return _norm(w[f"norm{number}.weight"], m.norm, x) if wanted else x

    x = weights["embedding"][tokens]
    if config.position.encoding == "learned":
        x = x + weights["encoding.table"][ids].sum(dim=2)
    for layer in range(m.num_layers):
        w = {
            name.removeprefix(f"blocks.{layer}."): tensor
            for name, tensor in weights.items()
            if name.startswith(f"blocks.{layer}.")
        }
        x = norm(w, 2, x + _attend(w, config, norm(w, 1, x), ids))
        u = norm(w, 3, x)
        hidden = _gelu(u @ w["feed_forward.w0"].T) * (u @ w["feed_forward.w1"].T)
        x = norm(w, 4, x + hidden @ w["feed_forward.wo"].T)
    x = _norm(weights["final_norm.weight"], m.norm, x) / math.sqrt(m.d_model)
    return x @ weights["embedding"].T


def _attend(w: Mapping[str, Tensor], config: TrialConfig, x: Tensor, ids: Tensor) -> Tensor:
    m, places = config.model, torch.arange(x.shape[1])
    q, k, v = (
        (x @ w[f"attention.{name}"].T).unflatten(2, (m.num_heads, m.d_head)).transpose(1, 2)
        for name in "qkv"
    )
    if config.position.encoding == "rotary":
        q, k = (_turn(u, ids[:, None, :, 0], config.position.rotary_base) for u in (q, k))
    if m.attention_scale == "log-length":
        logs = (places + 1).log() / math.log(m.log_base or math.e)
        q = q * logs[:, None]
    scores = (q @ k.transpose(2, 3)).masked_fill(places > places[:, None], -math.inf)
    if m.attention_sink == "learned":  # a key without a value
        sink = (q * w["attention.sink"][:, None]).sum(dim=3, keepdim=True)
        scores = torch.cat([scores, sink], dim=3)
    mixed = torch.softmax(scores, dim=3)[..., : len(places)] @ v
    return mixed.transpose(1, 2).flatten(2) @ w["attention.o"].T


def _turn(u: Tensor, ids: Tensor, base: float) -> Tensor:
    """Each pair (2j, 2j+1) of "... K" turned by ID / base^(2j/K)."""
    size = u.shape[-1]
    angles = ids[..., None] * base ** (-torch.arange(0, size, 2).to(u) / size)
    even, odd, c, s = u[..., ::2], u[..., 1::2], angles.cos(), angles.sin()
    return torch.stack([even * c - odd * s, even * s + odd * c], dim=-1).flatten(-2)


def _norm(weight: Tensor, kind: str, x: Tensor) -> Tensor:
    if kind == "layer":
        x = x - x.mean(dim=-1, keepdim=True)
    return weight * x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + 1e-6)


def _gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
