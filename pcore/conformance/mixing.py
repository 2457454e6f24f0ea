"""Rules for user attention and mixers, checked in every layer of a tiny model."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pcore import model as transformer
from pcore.batch import cut_batch, make_batch
from pcore.conformance.bench import Bench, check_rules, gradient, require_same
from pcore.conformance.report import Broken, Check, run_check, tiny_config
from pcore.mixing import find_attention
from pcore.model import Transformer, find_mixer
from pcore.training import mean_loss


def check_attention(name: str) -> list[Check]:
    """Every rule for attention. If it gives no weights or does not train, only that is reported."""
    first = run_check("weights", partial(_weights, name))
    if not first.passed:
        return [first]  # all other rules would fail for the same reason
    return [first, *_check(find_attention, name, {"model.attention": name})]


def check_mixer(name: str) -> list[Check]:
    """Every rule for mixers. If the class does not train at all, only that is reported."""
    return _check(find_mixer, name, {"model.mixer": name})


def _check(find: Callable[[str], object], name: str, changes: dict[str, Any]) -> list[Check]:
    def make() -> Bench:
        find(name)  # says what is wrong with the class before anything is trained
        return Bench(changes)

    rules = {
        "rows cut = rows padded": _separable,
        "gradient reaches parameters": _gradient,
    }
    return check_rules(make, rules)


@torch.no_grad()
def _weights(name: str) -> str:
    """What the class makes of random scores, as `Attention` documents it."""
    config = tiny_config({"model.attention": name}).model
    rng = torch.Generator().manual_seed(0)
    weigh = find_attention(name)(config, 0, rng)
    size, num_tokens = 3, 7
    scores = torch.randn(size, config.num_heads, num_tokens, num_tokens, generator=rng)
    visible = torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril().expand(size, 1, -1, -1)
    queries = torch.randn(size, config.num_heads, num_tokens, config.d_head, generator=rng)
    weights = weigh(scores, visible, queries)
    if not isinstance(weights, Tensor) or weights.shape != scores.shape:
        got = tuple(weights.shape) if isinstance(weights, Tensor) else type(weights).__name__
        raise Broken(f"forward returned {got}, expected B H R S = {tuple(scores.shape)}")
    last = "change scores first, mask last, and normalise over the keys (dim=3)"
    if not weights.isfinite().all():
        raise Broken(f"weights are not finite: {last}")
    for shift in (-100, 100):
        if not weigh(scores + shift, visible, queries).isfinite().all():
            raise Broken(f"weights are not finite where all scores are near {shift}")
    if hidden := float((weights * ~visible).abs().max()):
        raise Broken(f"a key that must not be seen gets the weight {hidden:.2g}: {last}")
    alone = weigh(scores[:, :, -1:], visible[:, :, -1:], queries[:, :, -1:])
    require_same(weights[:, :, -1:], alone, f"a query sees the other queries ({last})", "weight")
    sums = weights.sum(dim=3)
    low, high = (f"{float(end):.2g}" for end in (sums.min(), sums.max()))
    span = low if low == high else f"{low}-{high}"
    return f"0 on hidden keys; those of a query add up to {span}"


def _gradient(bench: Bench) -> str:
    return gradient(bench, [block.attention for block in bench.model.layers])


def _separable(bench: Bench) -> str:
    """Rows cut at their own length, equal tokens computed once, queries in pieces: all is equal."""
    model = bench.model
    if not model.separable:
        return "not declared (separable): rows are padded, queries asked at once"
    rng = torch.Generator().manual_seed(0)
    mixture = bench.config.task.sample_mixture(16, 1, 3, rng)
    ids = torch.randint(1, 60, (*mixture.tokens.shape, bench.any_ids.shape[2]), generator=rng)
    for copies in (1, 3):  # with copies, at most half of the tokens are distinct
        tokens, mask = (t.repeat(copies, 1) for t in (mixture.tokens, mixture.response_mask))
        batch = make_batch(tokens, ids.repeat(copies, 1, 1), mask)
        whole, cut = (_gradients(model, mean_loss(model, *b)) for b in (batch, cut_batch(batch)))
        require_same(whole, cut, "rows cut at their own length", "gradient")
    whole = bench.logits(bench.tokens, bench.any_ids)
    with _pieces(bytes_at_once=1):
        pieces = bench.logits(bench.tokens, bench.any_ids)
    return require_same(whole, pieces, "queries in pieces")


def _gradients(model: Transformer, loss: Tensor) -> Tensor:
    """All gradients of a loss in one row."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    found = torch.autograd.grad(loss, parameters, materialize_grads=True)
    return torch.cat([gradient.flatten() for gradient in found])


@contextmanager
def _pieces(bytes_at_once: int) -> Generator[None]:
    """Scores of attention one query at a time."""
    limit = transformer.SCORE_BYTES["cpu"]
    transformer.SCORE_BYTES["cpu"] = bytes_at_once
    try:
        yield
    finally:
        transformer.SCORE_BYTES["cpu"] = limit
