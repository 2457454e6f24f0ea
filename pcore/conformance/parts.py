"""Rules for encodings, attention and mixers, checked inside a tiny trained model.

That a model computes its logits once, whole and in a batch is the plain way; the others (a part of
the tokens, of the rows, of the queries, of the bytes, or one token after another) must agree.
"""

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any
from unittest.mock import patch

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pcore import model as transformer
from pcore.batch import cut_batch, make_batch, target_places
from pcore.config import TrialConfig, make_generator, override
from pcore.conformance.bench import NUM_STEPS, Broken, tiny_config, train_tiny
from pcore.encodings import Encoding, find_encoding
from pcore.encodings.position_ids import num_levels
from pcore.mixing import find_attention
from pcore.model import Cache, Transformer, make_model
from pcore.training import mean_loss
from pcore.validation import validate

TOLERANCE = 3e-4  # of the largest logit: float32 at IDs of some thousands
LARGEST_ID = 2100  # max_position of the checked model


class Bench:
    """A model, with tokens and IDs to ask it about. tolerance: of the largest logit."""

    def __init__(self, model: Transformer, tokens: Tensor, ids: Tensor, tolerance: float):
        self.model, self.tokens, self.ids, self.tolerance = model, tokens, ids, tolerance

    @property
    def many(self) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T P"], Iterable[int]]:
        """Rows with their IDs, and where to cut them."""
        num_tokens = self.tokens.shape[1]
        return self.tokens, self.ids, range(num_tokens - 1, 0, -(num_tokens // 9 | 1))

    @property
    def some(self) -> Int[Tensor, "B R"]:
        """Indices of some of the tokens of each row."""
        return torch.arange(0, self.tokens.shape[1], 3).expand(len(self.tokens), -1)

    @torch.no_grad()
    def logits(self, tokens: Tensor, ids: Tensor, *rest: Tensor) -> Float[Tensor, "B R V"]:
        return self.model(tokens, ids, *rest)

    @cached_property
    def plain(self) -> Float[Tensor, "B T V"]:
        return self.logits(self.tokens, self.ids)


def trial_bench(config: TrialConfig, num_tokens: int) -> Bench:
    """The model of a trial, not trained, and random tokens with random IDs. Noise on its weights
    shows what a parameter that starts at zero hides.
    """
    model, rng = make_model(config).eval(), make_generator("conformance")
    top = min(config.position.max_positions or (config.position.max_position,))
    tokens = torch.randint(1, len(config.task.vocab), (2, num_tokens), generator=rng)
    shape = (2, num_tokens, num_levels(config.task, config.position))
    ids = torch.randint(1, top + 1, shape, generator=rng)
    plain = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():
        for weight in model.parameters():
            width = weight.shape[-1] if weight.dim() else 1
            weight += torch.randn(weight.shape, generator=rng) * 0.5 / width**0.5
        if not model(tokens, ids).isfinite().all():
            model.load_state_dict(plain)
    return Bench(model, tokens, ids, 10 * TOLERANCE)


class PartBench(Bench):
    """A tiny model with a class of this name in it, made and trained when a rule first needs it,
    and examples with arbitrary IDs.
    """

    def __init__(self, field: str, name: str):
        self.field, self.name, self.tolerance = field, name, TOLERANCE
        self.batch = tiny_config({}).task.sample_length(16, 3, make_generator("conformance"))
        self.tokens = self.batch.tokens

    @cached_property
    def config(self) -> TrialConfig:
        changes: dict[str, Any] = {self.field: self.name}
        if self.field == "position.encoding":
            changes |= {"position.max_position": LARGEST_ID, **find_encoding(self.name).needs}
        return tiny_config(changes)

    @cached_property
    def model(self) -> Transformer:
        return train_tiny(self.config)

    @cached_property
    def ids(self) -> Int[Tensor, "B T P"]:
        shape = (*self.tokens.shape, num_levels(self.config.task, self.config.position))
        return torch.randint(1, 60, shape, generator=make_generator("conformance"))

    @property
    def many(self) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T P"], Iterable[int]]:
        """Rows over the chunks in which recurrent mixers are often computed."""
        num_tokens = self.tokens.shape[1]
        tokens, ids = self.tokens[:2].repeat(1, 20), self.ids[:2].repeat(1, 20, 1)
        return tokens, ids, [*range(1, num_tokens), *range(num_tokens, tokens.shape[1], 31)]

    @property
    def some(self) -> Int[Tensor, "B R"]:
        return target_places(self.batch.response_mask)[0]


def difference(a: Tensor, b: Tensor) -> float:
    """Largest difference as a share of the largest logit; infinite if anything is not finite."""
    if not (a.isfinite().all() and b.isfinite().all()):
        return float("inf")
    return float((a - b).abs().max() / a.abs().max())


def require_same(
    a: Tensor, b: Tensor, what: str, kind: str = "logit", tolerance: float = TOLERANCE
) -> str:
    gap = difference(a.detach(), b.detach())
    if not gap <= tolerance:
        raise Broken(f"{what}: {kind}s differ by {gap:.1e} of the largest")
    return f"difference {gap:.0e} of the largest {kind}"


def require_shape(method: str, result: object, **sizes: int) -> None:
    """Whether a method returned a tensor of these sizes, in float32."""
    expected = tuple(sizes.values())
    if not isinstance(result, Tensor) or result.shape != expected:
        got = tuple(result.shape) if isinstance(result, Tensor) else type(result).__name__
        raise Broken(f"{method} returned {got}, expected {' '.join(sizes)} = {expected}")
    if result.dtype != torch.float32:
        raise Broken(f"{method} returned {result.dtype}, expected torch.float32")


# Of everything ------------------------------------------------------------------------------------


def trains(bench: PartBench) -> str:
    return f"{NUM_STEPS} steps on addition, then evaluated" if bench.model else ""


def causality(bench: Bench) -> str:
    """Nothing after a token, neither tokens nor IDs nor padding, changes the logits at it."""
    tokens, ids, ends = bench.many
    whole = bench.logits(tokens, ids)
    for end in ends:
        what = f"token {end - 1} sees what comes after it, or how many tokens do"
        cut = bench.logits(tokens[:, :end], ids[:, :end])
        require_same(whole[:, :end], cut, what, tolerance=bench.tolerance)
    return f"{tokens.shape[1]} tokens, cut after one or another"


def examples_apart(bench: Bench) -> str:
    rows = zip(bench.tokens.split(1), bench.ids.split(1), strict=True)
    alone = torch.cat([bench.logits(tokens, ids) for tokens, ids in rows])
    what = "an example sees the others of its batch"
    return require_same(bench.plain, alone, what, tolerance=bench.tolerance)


def targets_only(bench: Bench) -> str:
    """The last block asks for some queries only: biases must go by query IDs, not by row number."""
    some = bench.logits(bench.tokens, bench.ids, bench.some)
    chosen = bench.plain.gather(1, bench.some.unsqueeze(2).expand_as(some))
    return require_same(chosen, some, "fewer queries than keys", tolerance=bench.tolerance)


def repeats(bench: Bench) -> str:
    again = bench.logits(bench.tokens, bench.ids)
    return require_same(bench.plain, again, "two passes of one model, in evaluation mode")


@torch.no_grad()
def cached(bench: PartBench) -> str:
    """Token by token with a KV cache gives the logits of one parallel pass.

    By induction, exact match under teacher forcing is then exact match of free decoding.
    """
    cache: Cache = {}
    parts = [
        bench.model(tokens, bench.ids[:, : end + 1], cache=cache)
        for end, tokens in enumerate(bench.tokens.split(1, dim=1))
    ]
    return require_same(bench.plain, torch.cat(parts, dim=1), "decoding with a cache")


def deterministic(bench: PartBench) -> str:
    """Weights and logits depend on the trial's seed alone, not on the global random state."""
    starts: list[dict[str, Tensor]] = []
    outputs: list[Tensor] = []
    with torch.random.fork_rng():
        for global_seed in (1, 2):
            torch.manual_seed(global_seed)
            model = make_model(bench.config).train()
            starts.append({name: value.clone() for name, value in model.state_dict().items()})
            outputs.append(model(bench.tokens, bench.ids).detach())
    for name, values in starts[0].items():
        if not torch.equal(values, starts[1][name]):
            raise Broken(f"two models of one seed start with different {name}")
    if not torch.equal(*outputs):
        raise Broken(
            "logits in training depend on the global random state, as with nn.Dropout: a trial "
            "cannot be repeated; draw from a generator that is seeded by `rng`"
        )
    return "same weights and logits under any global random state"


def separable(bench: PartBench) -> str:
    """Rows cut at their own length, equal tokens computed once, queries in pieces: all is equal."""
    model, rng = bench.model, torch.Generator().manual_seed(0)
    if not model.separable:
        return "not declared (separable): rows are padded, queries asked at once"
    mixture = bench.config.task.sample_mixture(16, 1, 3, rng)
    ids = torch.randint(1, 60, (*mixture.tokens.shape, bench.ids.shape[2]), generator=rng)
    for copies in (1, 3):  # with copies, at most half of the tokens are distinct
        tokens, mask = (t.repeat(copies, 1) for t in (mixture.tokens, mixture.response_mask))
        batch = make_batch(tokens, ids.repeat(copies, 1, 1), mask)
        whole, cut = (_gradients(model, mean_loss(model, *b)) for b in (batch, cut_batch(batch)))
        require_same(whole, cut, "rows cut at their own length", "gradient")
    with patch.dict(transformer.SCORE_BYTES, cpu=1):  # scores of one query at a time
        pieces = bench.logits(bench.tokens, bench.ids)
    return require_same(bench.plain, pieces, "queries in pieces")


def _gradients(model: Transformer, loss: Tensor) -> Tensor:
    """All gradients of a loss in one row."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    found = torch.autograd.grad(loss, parameters, materialize_grads=True)
    return torch.cat([gradient.flatten() for gradient in found])


def gradient(bench: PartBench) -> str:
    """The loss reaches every tensor of the checked class that is not a buffer."""
    modules: Iterable[nn.Module] = [bench.model.encoding]
    if bench.field != "position.encoding":
        modules = [block.attention for block in bench.model.layers]
    for module in (part for whole in modules for part in whole.modules()):
        if loose := [name for name, value in vars(module).items() if isinstance(value, Tensor)]:
            raise Broken(
                f"{', '.join(loose)} is a plain tensor, neither trained nor stored nor moved to a "
                "GPU: wrap it in nn.Parameter, or call register_buffer"
            )
    batch = make_batch(bench.tokens, bench.ids, bench.batch.response_mask)
    bench.model.zero_grad(set_to_none=True)
    mean_loss(bench.model, *batch).backward()
    found = [pair for module in modules for pair in module.named_parameters()]
    names = [name for name, parameter in found if parameter.requires_grad]
    for name, parameter in found:
        grad = parameter.grad
        if parameter.requires_grad and (grad is None or not grad.abs().max() > 0):
            raise Broken(f"no gradient reaches {name}")
        if grad is not None and not grad.isfinite().all():
            raise Broken(f"the gradient of {name} is not finite")
    return ", ".join(dict.fromkeys(names)) or "no trainable parameters"


# Of encodings -------------------------------------------------------------------------------------


@torch.no_grad()
def shapes(bench: PartBench) -> str:
    """What the methods of the class return, as `Encoding` documents it."""
    encoding, model = make_model(bench.config).encoding, bench.config.model
    ids = torch.arange(1, 22).reshape(3, 7, 1)
    x = torch.ones(3, model.num_heads, 7, model.d_head)
    results: dict[str, tuple[object, dict[str, int]]] = {
        "embed": (encoding.embed(ids), {"B": 3, "T": 7, "D": model.d_model}),
        "rotate": (encoding.rotate(x, ids, 0), dict(zip("BHTK", x.shape, strict=True))),
        "bias": (encoding.bias(ids[:, :5], ids, 0), {"B": 3, "H": x.shape[1], "Q": 5, "T": 7}),
    }
    for method, (result, sizes) in results.items():
        if result is not None:
            require_shape(method, result, **sizes)
    cls = type(encoding)
    defined = [name for name in results if getattr(cls, name) is not getattr(Encoding, name)]
    return ", ".join(defined) or "no method defined"


def stated(bench: PartBench) -> str:
    """Whether IDs have any effect is what the class says."""
    stated = bench.model.encoding.uses_ids
    others = difference(bench.plain, bench.logits(bench.tokens, bench.ids.roll(1, dims=0)))
    said, measured = f"other IDs change logits by {others:.1e}", others > TOLERANCE
    if stated != measured:
        raise Broken(
            f"the class states uses_ids = {stated}, but it is {measured}: {said}; if that is "
            f"meant, write uses_ids = {measured}"
        )
    return f"uses_ids = {stated}: {said}"


def bound(bench: PartBench) -> str:
    """Every ID that `validate` lets through has a finite effect; too small a bound is refused."""
    ids = bench.ids.clone()
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
        if not bench.logits(bench.tokens, bench.ids + far).isfinite().all():
            raise Broken(f"stated bounded=False, but logits are not finite at IDs around {far}")
        return f"stated unbounded: IDs around {far} work"
    try:
        validate(override(bench.config, {"position.max_position": 5}))
    except ValueError as error:
        return f"refused: {error}"
    raise Broken("stated bounded=True, but max_position=5 is accepted where IDs go up to 6")


def levels(bench: PartBench) -> str:
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


# Of attention -------------------------------------------------------------------------------------


@torch.no_grad()
def weights(bench: PartBench) -> str:
    """What the class makes of random scores, as `Attention` documents it."""
    config, rng = bench.config.model, torch.Generator().manual_seed(0)
    weigh = find_attention(bench.name)(config, 0, rng).eval()
    sizes = {"B": 3, "H": config.num_heads, "R": 7, "S": 7}
    scores = torch.randn(*sizes.values(), generator=rng)
    visible = torch.ones(7, 7, dtype=torch.bool).tril().expand(3, 1, -1, -1)
    queries = torch.randn(3, config.num_heads, 7, config.d_head, generator=rng)
    found = weigh(scores, visible, queries)
    require_shape("forward", found, **sizes)
    last = "change scores first, mask last, and normalise over the keys (dim=3)"
    if not found.isfinite().all():
        raise Broken(f"weights are not finite: {last}")
    for shift in (-100, 100):
        if not weigh(scores + shift, visible, queries).isfinite().all():
            raise Broken(f"weights are not finite where all scores are near {shift}")
    if hidden := float((found * ~visible).abs().max()):
        raise Broken(f"a key that must not be seen gets the weight {hidden:.2g}: {last}")
    alone = weigh(scores[:, :, -1:], visible[:, :, -1:], queries[:, :, -1:])
    require_same(found[:, :, -1:], alone, f"a query sees the other queries ({last})", "weight")
    sums = found.sum(dim=3)
    low, high = (f"{float(end):.2g}" for end in (sums.min(), sums.max()))
    span = low if low == high else f"{low}-{high}"
    return f"0 on hidden keys; those of a query add up to {span}"


# Which rules there are, by kind -------------------------------------------------------------------

Rules = dict[str, Callable[[PartBench], str]]
# Without which numbers would be false: exact match is measured under teacher forcing.
SOUND: dict[str, Callable[[Bench], str]] = {
    "evaluation repeats": repeats,
    "causality": causality,
    "examples apart": examples_apart,
    "targets only = everywhere": targets_only,
}
EVERYWHERE: Rules = {
    **SOUND,
    "cached = uncached decoding": cached,
    "deterministic under seed": deterministic,
    "gradient reaches parameters": gradient,
    "rows cut = rows padded": separable,
}
OF_IDS: Rules = {
    "stated = measured": stated,
    "ID bound": bound,
    "levels": levels,
}
TRAINS: Rules = {"trains and evaluates": trains}
# By the field that names a class: the rules that all others need, and those.
PARTS: dict[str, tuple[Rules, Rules]] = {
    "position.encoding": ({"shapes": shapes, **TRAINS}, EVERYWHERE | OF_IDS),
    "model.attention": ({"weights": weights, **TRAINS}, EVERYWHERE),
    "model.mixer": (TRAINS, EVERYWHERE),
}
