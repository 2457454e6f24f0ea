"""The harness: rules in their order, a report; a tiny trained model, and rules for any such model.

The training steps matter: a parameter that starts at zero has no effect before.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pcore.batch import make_batch, target_places
from pcore.config import TrialConfig, make_generator, override
from pcore.encodings.position_ids import select_relative_ids, test_position_ids
from pcore.model import Cache, Transformer, make_model
from pcore.registry import describe_error
from pcore.training import mean_loss, train

NUM_STEPS = 20  # training before a class is checked
TOLERANCE = 3e-4  # of the largest logit: float32 at IDs of some thousands


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One rule: kept or not, and what was measured."""

    name: str
    passed: bool
    detail: str


class Broken(Exception):
    """A rule is not kept; the message says how."""


def format_checks(name: str, checks: Iterable[Check]) -> str:
    """A report for people: one line per rule, then the verdict."""
    checks = list(checks)
    width = max((len(c.name) for c in checks), default=0)
    lines = [f"{'ok  ' if c.passed else 'FAIL'}  {c.name:<{width}}  {c.detail}" for c in checks]
    failed = sum(not c.passed for c in checks)
    total = f"{len(checks)} checks"
    verdict = f"{failed} of {total} failed" if failed else f"{total} passed"
    return "\n".join([*lines, f"{name}: {verdict}"])


Measure: TypeAlias = Callable[[], str]  # a rule: says what was measured, or raises


def run_checks(needed: Mapping[str, Measure], others: Mapping[str, Measure]) -> list[Check]:
    """The needed rules one after the other, and the others if all of those are kept.

    After the first needed one that is not, only how many wait for it: they would fail for the same
    reason.
    """
    checks: list[Check] = []
    for name, rule in needed.items():
        checks.append(check := _run(name, rule))
        if not check.passed:
            waiting = len(needed) + len(others) - len(checks)
            detail = f"{check.detail} ({waiting} more checks need this one first)"
            return [*checks[:-1], replace(check, detail=detail)]
    return checks + [_run(name, rule) for name, rule in others.items()]


def _run(name: str, rule: Measure) -> Check:
    try:
        return Check(name=name, passed=True, detail=rule())
    except Broken as broken:
        return Check(name=name, passed=False, detail=str(broken))
    except Exception as error:  # own code may raise anything: that is the finding
        return Check(name=name, passed=False, detail=describe_error(error))


def tiny_config(changes: dict[str, Any]) -> TrialConfig:
    """Addition of numbers of 1-3 digits, two layers, a few steps."""
    base = {
        "model.num_layers": 2,
        "model.num_heads": 2,
        "model.d_model": 32,
        "model.d_head": 16,
        "model.d_ff": 64,
        "data.max_length": 3,
        "data.num_examples": None,
        "optim.num_steps": NUM_STEPS,
        "optim.batch_size": 16,
        "optim.learning_rate": 1e-2,
        "eval.train_lengths": "2",
        "eval.test_lengths": "4",
        "eval.num_examples": 16,
    }
    return override(TrialConfig(), base | changes)


def train_tiny(config: TrialConfig) -> Transformer:
    """The model that a trial trains and evaluates."""
    with torch.random.fork_rng():
        *_, report = train(config)
        model = make_model(config)
    model.load_state_dict(report.checkpoints["last"])
    return model.eval()


class Bench:
    """A trained tiny model with these settings, and examples with arbitrary IDs."""

    def __init__(self, changes: dict[str, Any]):
        self.config = tiny_config(changes)
        self.model = train_tiny(self.config)
        rng = make_generator("conformance")
        self.batch = self.config.task.sample_length(16, 3, rng)
        relative_ids = select_relative_ids(self.batch, self.config.position, self.config.task)
        self.ids = test_position_ids(relative_ids, self.config.position)
        self.tokens = self.batch.tokens
        self.any_ids = torch.randint(1, 60, self.ids.shape, generator=rng)
        self.other_ids = torch.randint(1, 60, self.ids.shape, generator=rng)
        vocab = len(self.config.task.vocab)
        self.other_tokens = torch.randint(1, vocab, self.tokens.shape, generator=rng)

    @torch.no_grad()
    def logits(self, tokens: Tensor, ids: Tensor, *rest: Tensor) -> Float[Tensor, "B R V"]:
        return self.model(tokens, ids, *rest)


def difference(a: Tensor, b: Tensor) -> float:
    """Largest difference as a share of the largest logit; infinite if anything is not finite."""
    if not (a.isfinite().all() and b.isfinite().all()):
        return float("inf")
    return float((a - b).abs().max() / a.abs().max())


def require_same(a: Tensor, b: Tensor, what: str, kind: str = "logit") -> str:
    gap = difference(a.detach(), b.detach())
    if not gap <= TOLERANCE:
        raise Broken(f"{what}: {kind}s differ by {gap:.1e} of the largest")
    return f"difference {gap:.0e} of the largest {kind}"


def causality(bench: Bench) -> str:
    """Nothing after a token, neither tokens nor IDs, changes the logits at it."""
    plain = bench.logits(bench.tokens, bench.any_ids)
    num_tokens = plain.shape[1]
    for index in range(num_tokens - 1):
        after = torch.arange(num_tokens) > index
        tokens = torch.where(after, bench.other_tokens, bench.tokens)
        ids = torch.where(after[:, None], bench.other_ids, bench.any_ids)
        what = f"token {index} sees what comes after it"
        require_same(plain[:, : index + 1], bench.logits(tokens, ids)[:, : index + 1], what)
    return f"{num_tokens - 1} tokens, later tokens and IDs replaced"


def padding(bench: Bench) -> str:
    """PAD with ID 0 on the right changes no logits at real tokens."""
    plain, num_tokens = bench.logits(bench.tokens, bench.any_ids), bench.tokens.shape[1]
    for extra in (1, 40):
        tokens = torch.nn.functional.pad(bench.tokens, (0, extra))
        ids = torch.nn.functional.pad(bench.any_ids, (0, 0, 0, extra))
        padded = bench.logits(tokens, ids)[:, :num_tokens]
        require_same(plain, padded, f"{extra} PAD on the right act on real tokens")
    return "1 and 40 PAD on the right"


def examples_apart(bench: Bench) -> str:
    plain = bench.logits(bench.tokens, bench.any_ids)
    alone = [
        bench.logits(bench.tokens[b : b + 1], bench.any_ids[b : b + 1])
        for b in range(len(bench.tokens))
    ]
    return require_same(plain, torch.cat(alone), "an example sees the others of its batch")


def targets_only(bench: Bench) -> str:
    """The last block asks for some queries only: biases must go by query IDs, not by row number."""
    indices, _ = target_places(bench.batch.response_mask)
    plain = bench.logits(bench.tokens, bench.any_ids)
    chosen = plain.gather(1, indices.unsqueeze(2).expand(-1, -1, plain.shape[2]))
    some = bench.logits(bench.tokens, bench.any_ids, indices)
    return require_same(chosen, some, "fewer queries than keys")


@torch.no_grad()
def cached(bench: Bench) -> str:
    """Token by token with a KV cache gives the logits of one parallel pass.

    By induction, exact match under teacher forcing is then exact match of free decoding.
    """
    cache: Cache = {}
    parts: list[Tensor] = []
    for end in range(1, bench.tokens.shape[1] + 1):
        new, ids = bench.tokens[:, end - 1 : end], bench.any_ids[:, :end]
        parts.append(bench.model(new, ids, cache=cache))
    plain = bench.logits(bench.tokens, bench.any_ids)
    return require_same(plain, torch.cat(parts, dim=1), "decoding with a cache")


def gradient(bench: Bench, modules: Iterable[nn.Module]) -> str:
    """The loss reaches every tensor of these parts of the model that is not a buffer."""
    modules = list(modules)
    for module in (part for whole in modules for part in whole.modules()):
        if loose := [name for name, value in vars(module).items() if isinstance(value, Tensor)]:
            raise Broken(
                f"{', '.join(loose)} is a plain tensor, neither trained nor stored nor moved to a "
                "GPU: wrap it in nn.Parameter, or call register_buffer"
            )
    batch = make_batch(bench.tokens, bench.any_ids, bench.batch.response_mask)
    bench.model.zero_grad(set_to_none=True)
    mean_loss(bench.model, *batch).backward()
    found = (pair for module in modules for pair in module.named_parameters())
    trainable = [(name, parameter) for name, parameter in found if parameter.requires_grad]
    for name, parameter in trainable:
        grad = parameter.grad
        if grad is None or not grad.abs().max() > 0:
            raise Broken(f"no gradient reaches {name}")
        if not grad.isfinite().all():
            raise Broken(f"the gradient of {name} is not finite")
    names = ", ".join(dict.fromkeys(name for name, _ in trainable))
    return names or "no trainable parameters"


def deterministic(bench: Bench) -> str:
    """Weights and logits depend on the trial's seed alone, not on the global random state."""
    models: list[Transformer] = []
    outputs: list[Tensor] = []
    with torch.random.fork_rng():
        for global_seed in (1, 2):
            torch.manual_seed(global_seed)
            models.append(make_model(bench.config).train())
            outputs.append(models[-1](bench.tokens, bench.any_ids).detach())
        outputs.append(models[0](bench.tokens, bench.any_ids).detach())
    first, second = (model.state_dict() for model in models)
    for name, values in first.items():
        if not torch.equal(values, second[name]):
            raise Broken(f"two models of one seed start with different {name}")
    if not all(torch.equal(outputs[0], other) for other in outputs[1:]):
        raise Broken("two passes of one model, in training mode, give different logits")
    return "same weights and logits under any global random state"


EVERYWHERE: dict[str, Callable[[Bench], str]] = {
    "causality": causality,
    "padding invariance": padding,
    "examples apart": examples_apart,
    "targets only = everywhere": targets_only,
    "cached = uncached decoding": cached,
    "deterministic under seed": deterministic,
}
