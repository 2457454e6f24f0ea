"""`train(config)` yields reports; whoever consumes them decides what to do. Nothing calls back.

Adam with linear warm-up and cosine decay, gradient clipping, mean cross-entropy over all targets of
the batch (arXiv 2405.20671, appendix). A report can hand out the complete state; `train(config,
state=...)` goes on from it exactly: on a CPU an interrupted run equals an uninterrupted one bit for
bit.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from pcore.config import OptimConfig, TrialConfig
from pcore.data import TrainingBatch, TrainingData, cut_by_length
from pcore.evaluate import (
    LengthResult,
    autocast,
    evaluate,
    evaluate_lengths,
    make_held_out_set,
    make_test_set,
)
from pcore.model import Transformer, make_model, target_places
from pcore.tasks.base import Batch
from pcore.validate import validate


class Diverged(RuntimeError):
    """The training loss is not finite."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """One sign of life. loss: mean training loss since the last report (nats per target);
    grad_norm: before clipping, of the last step; seconds: in training steps so far, this process
    only. `results` and `checkpoints` come with the last report: counts per length, and the
    evaluated weights by checkpoint policy.
    """

    step: int
    num_steps: int
    loss: float
    learning_rate: float
    grad_norm: float
    seconds: float
    results: tuple[LengthResult, ...] = ()
    checkpoints: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    state: Callable[[], dict[str, Any]] = dict

    @property
    def finished(self) -> bool:
        return bool(self.results)


def train(
    config: TrialConfig,
    *,
    device: str | torch.device = "cpu",
    state: dict[str, Any] | None = None,
    report_every: int = 50,
) -> Iterator[Report]:
    """Train one trial from its start or from `state`.

    A report every `report_every` steps, the last one with results.
    Raises ValueError for a configuration that cannot work, before any compute; Diverged when the
    loss is not finite.
    """
    validate(config)
    run = Run(config, device)
    if state is not None:
        run.load_state_dict(state)
    run.check_unfinished()
    since = time.perf_counter()
    while True:
        rate = learning_rate(config.optim, run.step)
        loss, grad_norm = run.update(run.data.next_batch(), rate)
        run.count(loss)
        if not run.is_due(report_every):
            continue
        report = run.report(rate, grad_norm, time.perf_counter() - since)
        if run.finished:
            break
        yield report
    yield run.finish(report)


class Run:
    """Everything that changes while a trial trains."""

    def __init__(self, config: TrialConfig, device: str | torch.device):
        self.config, self.device = config, torch.device(device)
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
        self.data = TrainingData(config, device)
        self.step, self.last_report = 0, 0
        self.loss_sum = torch.zeros((), device=device)
        self.candidates = {name: Candidate(batch) for name, batch in candidate_sets(config).items()}

    def update(self, batch: TrainingBatch, rate: float) -> tuple[Tensor, Tensor]:
        """One optimizer step; the loss and the gradient norm, left on the device."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        loss = torch.zeros((), device=self.device)
        num_targets = batch.response_mask.sum()
        # A GPU prefers one large batch of a fixed shape; a CPU pays for every padded token.
        for part in cut_by_length(batch) if self.device.type == "cpu" else [batch]:
            part_loss = sum_losses(self.model, part) / num_targets
            part_loss.backward()
            loss += part_loss.detach()
        limit = self.config.optim.grad_clip or math.inf
        grad_norm = torch.nn.utils.clip_grad_norm_(self.parameters, limit, foreach=True)
        self.optimizer.step()
        return loss, grad_norm

    @property
    def finished(self) -> bool:
        """All steps are done; evaluation is not."""
        return self.step >= self.config.optim.num_steps

    def check_unfinished(self) -> None:
        """Raise ValueError if no step is left."""
        if self.finished:
            raise ValueError(
                f"the state is at step {self.step} of {self.config.optim.num_steps}: "
                "nothing is left to train"
            )

    def count(self, loss: Tensor) -> None:
        """An optimizer step was made with this mean loss."""
        self.loss_sum += loss
        self.step += 1
        self.track_candidates()

    def is_due(self, report_every: int) -> bool:
        """Whether a report belongs behind the step just made."""
        return self.step % report_every == 0 or self.finished

    def report(self, rate: float, grad_norm: Tensor, seconds: float) -> Report:
        """What happened since the last report. Raises Diverged if its mean loss is not finite."""
        mean = float(self.loss_sum) / (self.step - self.last_report)
        self.loss_sum, self.last_report = torch.zeros((), device=self.device), self.step
        if not math.isfinite(mean):
            raise Diverged(f"training loss is {mean} after step {self.step}")
        return Report(
            step=self.step,
            num_steps=self.config.optim.num_steps,
            loss=mean,
            learning_rate=rate,
            grad_norm=float(grad_norm),
            seconds=seconds,
            state=self.state_dict,
        )

    def finish(self, report: Report) -> Report:
        """The last report, with the results of the finished run."""
        results, checkpoints = self.evaluate()
        return replace(report, results=results, checkpoints=checkpoints)

    def track_candidates(self) -> None:
        """Measure the candidates for the policies `best` and `oracle` at evenly spaced steps."""
        num_steps, checks = self.config.optim.num_steps, self.config.eval.num_checks
        if (
            not self.candidates
            or self.step * checks // num_steps == (self.step - 1) * checks // num_steps
        ):
            return
        for candidate in self.candidates.values():
            counts = evaluate(self.model, candidate.batch, self.config)
            candidate.offer(counts.loss_sum / counts.num_tokens, self.step, self.model)

    def evaluate(self) -> tuple[tuple[LengthResult, ...], dict[str, dict[str, Tensor]]]:
        """Results and weights of every checkpoint policy of the configuration."""
        last = snapshot(self.model.state_dict())
        chosen = {"last": (self.step, last)} | {
            name: (c.step, c.weights) for name, c in self.candidates.items()
        }
        results: list[LengthResult] = []
        for name in self.config.eval.checkpoints:
            step, weights = chosen[name]
            self.model.load_state_dict(weights)
            results += evaluate_lengths(self.model, self.config, name, step)
        self.model.load_state_dict(last)
        return tuple(results), {name: chosen[name][1] for name in self.config.eval.checkpoints}

    def state_dict(self) -> dict[str, Any]:
        """Everything that exact resume needs, as tensors and plain values."""
        return {
            "step": self.step,
            "last_report": self.last_report,
            "loss_sum": self.loss_sum.clone(),
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


def snapshot(value: Any) -> Any:
    """A copy of a state whose tensors have memory of their own: those of a stacked model are views
    of tensors that hold all members, and `copy.deepcopy` would copy these whole.
    """
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, Mapping):
        return {name: snapshot(part) for name, part in value.items()}
    if isinstance(value, list):
        return [snapshot(part) for part in value]
    return value


def candidate_sets(config: TrialConfig) -> dict[str, Batch]:
    """The examples on which each checkpoint policy other than `last` chooses."""
    sets: dict[str, Batch] = {}
    if "best" in config.eval.checkpoints:
        sets["best"] = make_held_out_set(config)
    if "oracle" in config.eval.checkpoints:
        sets["oracle"] = make_test_set(config, max(config.eval.test_lengths))
    return sets


def batch_loss(model: Transformer, batch: TrainingBatch) -> Tensor:
    """Mean cross-entropy over all targets of the batch, in float32."""
    return sum_losses(model, batch) / batch.response_mask.sum()


def sum_losses(model: Transformer, batch: TrainingBatch) -> Tensor:
    """Cross-entropy summed over all targets of the batch, in float32."""
    places, real = target_places(batch.response_mask)
    with autocast(batch.tokens.device):
        logits = model(batch.tokens[:, :-1], batch.ids[:, :-1], places)
    targets = batch.tokens.gather(1, places + 1)
    return F.cross_entropy(logits[real].float(), targets[real], reduction="sum")


def learning_rate(optim: OptimConfig, step: int) -> float:
    """The rate of step 0, 1, ...

    Linear from 0 to its top, then a cosine to `final_lr_fraction` of it.
    """
    warmup = max(1, round(optim.warmup_fraction * optim.num_steps))
    if step < warmup:
        return optim.learning_rate * (step + 1) / warmup
    progress = (step - warmup) / max(1, optim.num_steps - warmup)
    low = optim.final_lr_fraction
    return optim.learning_rate * (low + (1 - low) * 0.5 * (1 + math.cos(math.pi * progress)))
