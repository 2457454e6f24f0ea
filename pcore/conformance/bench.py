"""A tiny trained model that contains the user code, and rules that hold for any model.

The training steps matter: a parameter that starts at zero has no effect before.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pcore.batch import make_batch, target_places
from pcore.config import make_generator
from pcore.conformance.report import NUM_STEPS, Broken, Check, run_check, tiny_config
from pcore.decoding import decode_freely
from pcore.encodings.position_ids import select_relative_ids, test_position_ids
from pcore.model import Cache, Transformer, make_model
from pcore.training import mean_loss, train

TOLERANCE = 3e-4  # of the largest logit: float32 at IDs of some thousands


class Bench:
    """A trained tiny model with these settings, and examples with arbitrary IDs."""

    def __init__(self, changes: dict[str, Any]):
        self.config = tiny_config(changes)
        with torch.random.fork_rng():
            report = list(train(self.config))[-1]
            self.model = make_model(self.config)
        self.model.load_state_dict(report.checkpoints["last"])
        self.model.eval()
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
    """Token by token with a KV cache gives the logits of one parallel pass."""
    cache: Cache = {}
    parts: list[Tensor] = []
    for end in range(1, bench.tokens.shape[1] + 1):
        new, ids = bench.tokens[:, end - 1 : end], bench.any_ids[:, :end]
        parts.append(bench.model(new, ids, cache=cache))
    plain = bench.logits(bench.tokens, bench.any_ids)
    return require_same(plain, torch.cat(parts, dim=1), "decoding with a cache")


def free(bench: Bench) -> str:
    """Greedy free decoding with a cache; teacher forcing on what it wrote predicts just that.

    By induction, exact match under teacher forcing is exact match of free decoding.
    """
    written = decode_freely(bench.model, bench.batch, bench.config)
    num_query = bench.tokens.shape[1] - written.shape[1]
    tokens = torch.cat([bench.tokens[:, :num_query], written], dim=1)
    forced = bench.logits(tokens, bench.ids)[:, num_query - 1 : -1].argmax(dim=2)
    eos = bench.config.task.vocab.index[bench.config.task.eos]
    stopped = (written == eos).cumsum(dim=1) - (written == eos).long() > 0  # after EOS
    if bad := int(((forced != written) & ~stopped).any(dim=1).sum()):
        raise Broken(f"{bad} of {len(tokens)} examples decode differently when running freely")
    return f"{len(tokens)} examples, {int((~stopped).sum())} tokens"


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


Rule: TypeAlias = Callable[[Bench], str]  # says what was measured, or raises Broken
EVERYWHERE: dict[str, Rule] = {
    "causality": causality,
    "padding invariance": padding,
    "examples apart": examples_apart,
    "targets only = everywhere": targets_only,
    "cached = uncached decoding": cached,
    "teacher-forced = free decoding": free,
    "deterministic under seed": deterministic,
}


def check_rules(make: Callable[[], Bench], rules: Mapping[str, Rule]) -> list[Check]:
    """The rules that hold for any model, and these, on the bench that `make` trains. If it does not
    train at all, only that is reported.
    """
    bench: Bench | None = None

    def trains() -> str:
        nonlocal bench
        bench = make()
        return f"{NUM_STEPS} steps on addition, then evaluated"

    first = run_check("trains and evaluates", trains)
    if bench is None:
        return [first]
    every = EVERYWHERE | dict(rules)
    return [first, *(run_check(rule, partial(check, bench)) for rule, check in every.items())]
