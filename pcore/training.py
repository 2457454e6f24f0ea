"""The training loop: `train(config)` yields reports and calls nothing back.

One step (`Run.update`), as in arXiv 2405.20671, appendix:

    batch = run.data.next_batch()             # tokens, ids, places, targets
    loss = mean_loss(run.model, *batch)
    loss.backward()
    clip_grad_norm_(parameters, grad_clip)
    optimizer.step()                          # AdamW, at learning_rate(step) and weight_decay(step)

Batch: `optim.batch_size` problems. The task draws their lengths (uniformly from the trained ones,
each operand by itself) and contents, once for all epochs or endlessly; `Task.layout` orders them as
BOS, query, response, EOS and gives each token its relative ID. Position ID = start + relative ID;
starts are drawn anew at every visit, one for each example and level
(`pcore.encodings.position_ids`). A row may hold several problems (`pcore.packing`).
Targets: the tokens of the response and EOS, none of the query. `places` are the tokens before them.
Loss: cross-entropy, the mean over all targets of the batch, so that long responses count more.
Rate: linear warm-up, then a cosine. weight_decay is 0 as published; AdamW is then Adam.

On a CPU a batch is cut into parts with almost no padding, on a GPU it has a static shape and the
loss may be compiled (`pcore.packing`); the loss and its gradients are the same. The step without
any of this, one operation after the other, is `tests/support/obvious.py`;
`tests/pcore/training/test_obvious.py` shows that losses and gradients are equal.

A report can return the complete state, from which `train(config, state=...)` resumes exactly: on a
CPU an interrupted run equals an uninterrupted one bit for bit.
"""

import copy
import functools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F

from pcore.batch import NO_TARGET, Part, TrainingBatch, cut_batch
from pcore.config import TrialConfig
from pcore.data import TrainingData
from pcore.evaluation import (
    LengthResult,
    autocast,
    evaluate_lengths,
    judge,
    make_held_out_set,
    make_test_set,
)
from pcore.model import LanguageModel, Transformer, make_model
from pcore.settings import OptimConfig
from pcore.tasks.base import Batch
from pcore.theory.exactness import make_constructed
from pcore.validation import validate

# CUDA graphs replay a step without Python. Gradients then lie in the memory of the graph until the
# next replay: clipping and AdamW come before it, and they are dropped when it begins.
BACKEND: str | Callable[..., Any] = "inductor"
MODES = {"cpu": "default", "cuda": "reduce-overhead"}
MAX_SHAPES = 64  # compiled in one process: shapes of batches times kinds of models


class Diverged(RuntimeError):
    """The training loss is not finite."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """A progress report of a trial."""

    step: int
    num_steps: int
    loss: float  # mean training loss since the last report, nats per target
    learning_rate: float
    grad_norm: float  # of the last step, before clipping
    seconds: float  # in training steps so far, of this process only
    results: tuple[LengthResult, ...] = ()  # counts of the lengths evaluated so far
    # The evaluated weights by checkpoint policy, in the last report only.
    checkpoints: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    state: Callable[[], dict[str, Any]] = dict  # everything that an exact resume needs
    compiled: bool = False  # whether the steps of this process ran compiled

    @property
    def finished(self) -> bool:
        return bool(self.checkpoints)


def train(
    config: TrialConfig,
    *,
    device: str | torch.device = "cpu",
    state: dict[str, Any] | None = None,
    report_every: int = 50,
    compile: bool = False,
) -> Iterator[Report]:
    """Train one trial from its start or from `state`, then evaluate it.

    A report every `report_every` steps and after the last one, then one for each evaluated length,
    then one with the weights. Training can resume from the state of any of them.
    compile: translate the loss (`compile_loss`), which changes no more than rounding.
    Raises ValueError for a configuration that cannot work, before any compute; Diverged when the
    loss is not finite.
    """
    validate(config)
    if config.model.kind == "constructed":
        yield evaluate_constructed(config, device)
        return
    run = Run(config, device, compile)
    if state is not None:
        run.load_state_dict(state)
    since = time.perf_counter()
    while not run.trained:
        rate = learning_rate(config.optim, run.step)
        loss, grad_norm = run.update(run.data.next_batch(), rate)
        run.count(loss)
        if run.step % report_every == 0 or run.trained:
            yield run.report(rate, grad_norm, since)
            since = time.perf_counter()  # what the consumer did is not training
    yield from run.evaluate()


def mean_loss(
    model: LanguageModel,
    tokens: Int[Tensor, "B T"],
    ids: Int[Tensor, "B T P"],
    places: Int[Tensor, "B R"],
    targets: Int[Tensor, "B R"],
    parts: tuple[Part, ...] | None = None,
) -> Tensor:
    """Mean cross-entropy over all targets of a batch, in float32: what a trial minimises."""
    if parts is None:
        logits = model(tokens, ids, places)
    else:
        logits = model(tokens, ids, places, parts=parts, shared=model.share(tokens, ids))
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=NO_TARGET)


@functools.cache
def compile_loss(device: str) -> Callable[..., Tensor]:
    """`mean_loss` by `torch.compile`, one for all trials of a process: only a new shape of batches
    or kind of model is compiled again. Only batches of static shape go through it, never the model
    itself, so weights keep their names and states move between compiled and plain runs.
    """
    from torch._dynamo import config as dynamo  # pyright: ignore[reportPrivateUsage]  # slow

    dynamo.recompile_limit = max(dynamo.recompile_limit, MAX_SHAPES)
    return torch.compile(mean_loss, dynamic=False, backend=BACKEND, mode=MODES[device])


def learning_rate(optim: OptimConfig, step: int) -> float:
    """The rate of step 0, 1, ...

    Linear over W warm-up steps, from top / W at step 0 to the top at step W - 1; then a cosine to
    `final_lr_fraction` of the top.
    """
    warmup = max(1, round(optim.warmup_fraction * optim.num_steps))
    if step < warmup:
        return optim.learning_rate * (step + 1) / warmup
    progress = (step - warmup) / max(1, optim.num_steps - warmup)
    return optim.learning_rate * cosine(progress, optim.final_lr_fraction)


def weight_decay(optim: OptimConfig, step: int) -> float:
    """The decay of step 0, 1, ...: a cosine over all steps to `final_decay_fraction` of itself."""
    return optim.weight_decay * cosine(step / optim.num_steps, optim.final_decay_fraction)


def cosine(progress: float, low: float) -> float:
    """From 1 at progress 0 to `low` at progress 1."""
    return low + (1 - low) * 0.5 * (1 + math.cos(math.pi * progress))


def evaluate_constructed(config: TrialConfig, device: str | torch.device) -> Report:
    """The only report of a constructed model; every checkpoint policy has the same weights."""
    model = make_constructed(config).to(device)
    policies = config.eval.checkpoints
    return Report(
        step=0,
        num_steps=0,
        loss=math.nan,
        learning_rate=0.0,
        grad_norm=0.0,
        seconds=0.0,
        results=tuple(r for name in policies for r in evaluate_lengths(model, config, name, 0)),
        checkpoints=dict.fromkeys(policies, model.state_dict()),
    )


@dataclass(slots=True)
class Candidate:
    """The best checkpoint so far on one set of examples."""

    batch: Batch
    loss: float = math.inf
    step: int = 0
    weights: dict[str, Tensor] = field(default_factory=dict)

    def offer(self, loss: float, step: int, model: Transformer) -> None:
        if loss < self.loss:
            self.loss, self.step, self.weights = loss, step, snapshot(model.state_dict())


def candidate_sets(config: TrialConfig) -> dict[str, Batch]:
    """The examples on which each checkpoint policy other than `last` chooses."""
    sets: dict[str, Batch] = {}
    if "best" in config.eval.checkpoints:
        sets["best"] = make_held_out_set(config)
    if "oracle" in config.eval.checkpoints:
        longest = max(config.eval.test_lengths)
        sets["oracle"] = make_test_set(config, longest, config.task.default_second(longest))
    return sets


def snapshot(value: Any) -> Any:
    """A copy of a state whose tensors have memory of their own."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, Mapping):
        return {name: snapshot(part) for name, part in value.items()}
    if isinstance(value, list):
        return [snapshot(part) for part in value]
    return value


class Run:
    """Everything that changes while a trial trains.

    dtype: of autocast in training; None = bf16 on a GPU, float32 on a CPU.
    """

    def __init__(
        self,
        config: TrialConfig,
        device: str | torch.device,
        compile: bool = False,
        dtype: torch.dtype | None = None,
    ):
        self.config, self.device, self.dtype = config, torch.device(device), dtype
        self.model: Transformer = make_model(config).to(device)
        o = config.optim
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(
            self.parameters,
            lr=o.learning_rate,
            betas=(o.beta1, o.beta2),
            eps=o.eps,
            weight_decay=o.weight_decay,
            fused=True,
        )
        # A GPU prefers one large batch of a fixed shape; a CPU pays for every padded token.
        static = compile or self.device.type != "cpu"
        self.data = TrainingData(config, device, static)
        self.compiled = compile
        self.loss = compile_loss(self.device.type) if compile else mean_loss
        self.step, self.last_report, self.seconds = 0, 0, 0.0
        self.loss_sum = torch.zeros((), device=device)
        self.facts: dict[str, float] = {}  # of the last report
        self.results: list[LengthResult] = []
        self.candidates = {name: Candidate(batch) for name, batch in candidate_sets(config).items()}

    def update(self, batch: TrainingBatch, rate: float) -> tuple[Tensor, Tensor]:
        """One optimizer step; the loss and the gradient norm, left on the device."""
        decay = weight_decay(self.config.optim, self.step)
        for group in self.optimizer.param_groups:
            group.update(lr=rate, weight_decay=decay)
        loss = self.backward(batch)
        limit = self.config.optim.grad_clip or math.inf
        grad_norm = torch.nn.utils.clip_grad_norm_(self.parameters, limit, foreach=True)
        self.optimizer.step()
        return loss, grad_norm

    def backward(self, batch: TrainingBatch) -> Tensor:
        """Leave the gradients of the mean loss in the parameters; that loss."""
        self.optimizer.zero_grad(set_to_none=True)
        if not self.data.static and self.model.separable:
            batch = cut_batch(batch)
        if self.compiled and self.device.type == "cuda":
            torch.compiler.cudagraph_mark_step_begin()
        with autocast(self.device, self.dtype):
            mean = self.loss(self.model, *batch)
        mean.backward()
        return mean.detach().clone()  # the next replay of a CUDA graph overwrites the original

    @property
    def trained(self) -> bool:
        """All steps are done; evaluation may not be."""
        return self.step >= self.config.optim.num_steps

    def count(self, loss: Tensor) -> None:
        """An optimizer step was made with this mean loss."""
        self.loss_sum += loss
        self.step += 1
        self.track_candidates()

    def report(self, rate: float, grad_norm: Tensor, since: float) -> Report:
        """What happened since the last report, which was at `since` of the clock. Raises Diverged
        if its mean loss is not finite.
        """
        mean = float(self.loss_sum) / (self.step - self.last_report)
        self.loss_sum, self.last_report = torch.zeros((), device=self.device), self.step
        if not math.isfinite(mean):
            raise Diverged(f"training loss is {mean} after step {self.step}")
        self.facts = {"loss": mean, "learning_rate": rate, "grad_norm": float(grad_norm)}
        self.seconds += time.perf_counter() - since  # the device has come to here as well
        return self.make_report()

    def make_report(self) -> Report:
        """Where the trial stands."""
        return Report(
            step=self.step,
            num_steps=self.config.optim.num_steps,
            loss=self.facts["loss"],
            learning_rate=self.facts["learning_rate"],
            grad_norm=self.facts["grad_norm"],
            seconds=self.seconds,
            results=tuple(self.results),
            state=self.state_dict,
            compiled=self.compiled,
        )

    def track_candidates(self) -> None:
        """Measure the candidates for the policies `best` and `oracle` at evenly spaced steps."""
        num_steps, checks = self.config.optim.num_steps, self.config.eval.num_checks
        if (
            not self.candidates
            or self.step * checks // num_steps == (self.step - 1) * checks // num_steps
        ):
            return
        for candidate in self.candidates.values():
            counts = judge(self.model, candidate.batch, self.config).counts
            candidate.offer(counts.loss_sum / counts.num_tokens, self.step, self.model)

    def evaluate(self) -> Iterator[Report]:
        """Every checkpoint policy at every length that has no result yet: a report for each, and
        the last one of the trial.

        The weights of a policy go into a model of their own, so that a state saved in between holds
        the trained ones.
        """
        model, chosen = copy.deepcopy(self.model), self.chosen_weights()
        done = {result.key for result in self.results}
        for name, (step, weights) in chosen.items():
            model.load_state_dict(weights)
            for result in evaluate_lengths(model, self.config, name, step, done):
                self.results.append(result)
                yield self.make_report()
        checkpoints = {name: weights for name, (_, weights) in chosen.items()}
        yield replace(self.make_report(), checkpoints=checkpoints)

    def chosen_weights(self) -> dict[str, tuple[int, dict[str, Tensor]]]:
        """Step and weights of every checkpoint policy of the configuration."""
        chosen = {"last": (self.step, snapshot(self.model.state_dict()))} | {
            name: (c.step, c.weights) for name, c in self.candidates.items()
        }
        return {name: chosen[name] for name in self.config.eval.checkpoints}

    def state_dict(self) -> dict[str, Any]:
        """Everything that exact resume needs, as tensors and plain values."""
        return {
            "step": self.step,
            "last_report": self.last_report,
            "loss_sum": self.loss_sum.clone(),
            "facts": dict(self.facts),
            "results": [asdict(result) for result in self.results],
            "model": snapshot(self.model.state_dict()),
            "optimizer": snapshot(self.optimizer.state_dict()),
            "data": self.data.state_dict(),
            "candidates": {
                name: {"loss": c.loss, "step": c.step, "weights": c.weights}
                for name, c in self.candidates.items()
            },
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.step, self.last_report = state["step"], state["last_report"]
        self.loss_sum = state["loss_sum"].to(self.device)
        self.facts = dict(state["facts"])
        self.results = [LengthResult.from_plain(values) for values in state["results"]]
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(snapshot(state["optimizer"]))
        self.data.load_state_dict(state["data"])
        for name, kept in state["candidates"].items():
            candidate = self.candidates[name]
            candidate.loss, candidate.step, candidate.weights = (
                kept["loss"],
                kept["step"],
                kept["weights"],
            )
