"""Rules for encodings, attention and mixers, checked inside a tiny trained model."""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pcore import model as transformer
from pcore.batch import cut_batch, make_batch
from pcore.config import make_generator, override
from pcore.conformance.bench import (
    EVERYWHERE,
    NUM_STEPS,
    TOLERANCE,
    Bench,
    Broken,
    Check,
    Measure,
    difference,
    gradient,
    require_same,
    run_checks,
    tiny_config,
)
from pcore.encodings import Encoding, find_encoding
from pcore.mixing import find_attention
from pcore.model import Transformer, make_model
from pcore.training import mean_loss
from pcore.validation import validate

LARGEST_ID = 2100  # max_position of the checked model
SHIFTS = (1, 7, 2000)  # added to all IDs


def check_encoding(name: str) -> list[Check]:
    """Every rule for encodings."""
    rules = {
        "uses_ids stated = measured": _uses_ids,
        "offset stated = measured": _offset,
        "ID bound": _bound,
        "levels": _levels,
        "gradient reaches parameters": _gradient,
    }
    return _check(partial(_settings, name), {"shapes": partial(_shapes, name)}, rules)


def check_attention(name: str) -> list[Check]:
    """Every rule for attention."""
    settings = partial(dict[str, Any], {"model.attention": name})
    return _check(settings, {"weights": partial(_weights, name)}, IN_LAYERS)


def check_mixer(name: str) -> list[Check]:
    """Every rule for mixers."""
    return _check(partial(dict[str, Any], {"model.mixer": name}), {}, IN_LAYERS)


def _check(
    settings: Callable[[], dict[str, Any]],
    first: Mapping[str, Measure],
    rules: Mapping[str, Callable[[Bench], str]],
) -> list[Check]:
    """These rules and those for any model, on a bench with these settings."""
    made: list[Bench] = []

    def trains() -> str:
        made.append(Bench(settings()))
        return f"{NUM_STEPS} steps on addition, then evaluated"

    def keeps(rule: Callable[[Bench], str]) -> str:
        return rule(made[0])

    others = {name: partial(keeps, rule) for name, rule in (EVERYWHERE | dict(rules)).items()}
    return run_checks({**first, "trains and evaluates": trains}, others)


def _settings(name: str) -> dict[str, Any]:
    settings = {"position.encoding": name, "position.max_position": LARGEST_ID}
    return settings | find_encoding(name).needs


@torch.no_grad()
def _shapes(name: str) -> str:
    """What the methods of the class return, as `Encoding` documents it."""
    config = tiny_config(_settings(name))
    encoding, model = make_model(config).encoding, config.model
    sizes = {"B": 3, "T": 7, "Q": 5, "H": model.num_heads, "K": model.d_head, "D": model.d_model}
    ids = torch.arange(1, 22).reshape(3, 7, 1)
    x = torch.ones(3, model.num_heads, 7, model.d_head)
    results: dict[str, tuple[object, str]] = {
        "embed": (encoding.embed(ids), "BTD"),
        "rotate": (encoding.rotate(x, ids, 0), "BHTK"),
        "bias": (encoding.bias(ids[:, :5], ids, 0), "BHQT"),
    }
    for method, (result, letters) in results.items():
        if result is None:
            continue
        expected = tuple(sizes[letter] for letter in letters)
        if not isinstance(result, Tensor) or result.shape != expected:
            got = tuple(result.shape) if isinstance(result, Tensor) else type(result).__name__
            raise Broken(f"{method} returned {got}, expected {' '.join(letters)} = {expected}")
        if result.dtype != torch.float32:
            raise Broken(f"{method} returned {result.dtype}, expected torch.float32")
    cls = type(encoding)
    defined = [name for name in results if getattr(cls, name) is not getattr(Encoding, name)]
    return ", ".join(defined) or "no method defined"


def _uses_ids(bench: Bench) -> str:
    plain = bench.logits(bench.tokens, bench.any_ids)
    gap = difference(plain, bench.logits(bench.tokens, bench.other_ids))
    if (gap > TOLERANCE) != bench.model.encoding.uses_ids:
        raise Broken(
            f"the class states uses_ids = {bench.model.encoding.uses_ids}, but other IDs change "
            f"logits by {gap:.1e}; if that is meant, write uses_ids = {gap > TOLERANCE}"
        )
    return f"{bench.model.encoding.uses_ids}: other IDs change logits by {gap:.0e}"


def _offset(bench: Bench) -> str:
    """Add a constant to all IDs."""
    plain = bench.logits(bench.tokens, bench.any_ids)
    gaps = [difference(plain, bench.logits(bench.tokens, bench.any_ids + s)) for s in SHIFTS]
    measured = "dependent" if max(gaps) > TOLERANCE else "invariant"
    detail = f"shifts of {', '.join(map(str, SHIFTS))} change logits by {max(gaps):.1e} at most"
    if measured != bench.model.encoding.offset:
        stated = bench.model.encoding.offset
        raise Broken(
            f"the class states offset = {stated!r}, but it is {measured!r}: {detail}; if that is "
            f"meant, write offset = {measured!r}"
        )
    return f"{measured}: {detail}"


def _bound(bench: Bench) -> str:
    """Every ID that `validate` lets through has a finite effect; too small a bound is refused."""
    ids = bench.any_ids.clone()
    ids[:, -1] = LARGEST_ID
    try:
        finite = bench.logits(bench.tokens, ids).isfinite().all()
    except IndexError as error:
        rows = "IDs run from 0 to position.max_position, so a table has max_position + 1 rows"
        raise Broken(f"{error}: {rows}") from error
    if not finite:
        raise Broken(f"logits are not finite at max_position={LARGEST_ID}")
    if not bench.model.encoding.bounded:
        far = 20 * LARGEST_ID
        if not bench.logits(bench.tokens, bench.any_ids + far).isfinite().all():
            raise Broken(f"stated bounded=False, but logits are not finite at IDs around {far}")
        return f"stated unbounded: IDs around {far} work"
    try:
        validate(override(bench.config, {"position.max_position": 5}))
    except ValueError as error:
        return f"refused: {error}"
    raise Broken("stated bounded=True, but max_position=5 is accepted where IDs go up to 6")


def _levels(bench: Bench) -> str:
    """Two levels of IDs work, or are refused with a ValueError."""
    config = override(bench.config, {"task.scratchpad": True})
    try:
        model = make_model(config)
    except ValueError as error:
        return f"two levels are refused: {error}"
    batch = config.task.sample_length(2, 2, make_generator("conformance"))
    if not model(batch.tokens, batch.relative_ids + 1).isfinite().all():
        raise Broken("logits are not finite with two levels of IDs")
    return "two levels work"


def _gradient(bench: Bench) -> str:
    return gradient(bench, [bench.model.encoding])


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


def _gradient_in_layers(bench: Bench) -> str:
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


IN_LAYERS = {
    "rows cut = rows padded": _separable,
    "gradient reaches parameters": _gradient_in_layers,
}


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
