"""Stacked trials: trials of equal tensor shapes trained as one batched model.

Each trial keeps its own generators, data, schedule, candidates, evaluation and state, which are
those of an ordinary `Run`, so states are interchangeable between stacked and solo runs. The
expensive work is done once for all M members: forward and backward by `torch.func.vmap` over their
weights, clipping and AdamW on tensors that hold the weights of all members. A member's loss,
gradient and update never affect another's.

A member equals its solo run up to rounding: the same numbers are added in a different order.
"""

import dataclasses
import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from pcore.config import TrialConfig
from pcore.encodings import ENCODINGS, find_encoding
from pcore.encodings.position_ids import num_levels
from pcore.evaluation.predict import autocast
from pcore.model.compiled import Compiled, Loss, can_compile, find_obstacle
from pcore.model.targets import NO_TARGET, TrainingBatch
from pcore.model.transformer import Transformer
from pcore.training.train import Diverged, Report, Run, learning_rate, weight_decay
from pcore.training.validate import task_name, validate

ALIGNMENT = 64  # weights begin at multiples of this many numbers, which suits matrix kernels

StackKey: TypeAlias = tuple[tuple[str, object], ...]


def train_stacked(
    configs: Sequence[TrialConfig],
    *,
    device: str | torch.device = "cpu",
    states: Sequence[dict[str, Any] | None] | None = None,
    report_every: int = 50,
    compile: bool = False,
) -> Iterator[Mapping[int, Report | Diverged]]:
    """Train trials together, each from its start or from its state; updates keyed by index into
    `configs`.

    A member has the reports that `train` gives, then leaves the stack; those of its evaluation come
    alone. A member whose loss is not finite leaves with a `Diverged`
    instead. `Report.seconds` is the member's share of the time that the stack trained. compile: as
    of `train`.
    Raises ValueError before any compute if a configuration cannot work or they cannot be stacked.
    """
    for config in configs:
        validate(config)
    check_stackable(configs)
    runs = [Run(config, device, compile) for config in configs]
    for run, state in zip(runs, states or [None] * len(runs), strict=True):
        if state is not None:
            run.load_state_dict(state)
    seconds = [0.0] * len(runs)
    for i, run in enumerate(runs):
        if run.trained:  # a state from within its evaluation
            yield from ({i: report} for report in run.evaluate(0.0))
    active = [i for i, run in enumerate(runs) if not run.trained]
    while active:
        stack, together = Stack([runs[i] for i in active]), active
        since = time.perf_counter()
        while active == together:
            rates = stack.rates()
            losses, grad_norms = stack.update(rates)
            for i, loss in zip(active, losses, strict=True):
                runs[i].count(loss)
            due = [index for index, i in enumerate(active) if runs[i].is_due(report_every)]
            if due:
                losses.cpu()  # waits for the device: seconds are those of finished steps
            share = (time.perf_counter() - since) / len(active)
            for i in active:
                seconds[i] += share
            updates: dict[int, Report | Diverged] = {}
            for index in due:
                i = active[index]
                try:
                    updates[i] = runs[i].report(rates[index], grad_norms[index], seconds[i])
                except Diverged as error:
                    updates[i] = error.with_traceback(None)
            if updates:
                yield updates
            active = [i for i in active if not isinstance(updates.get(i), Diverged)]
            for i in list(active):
                if runs[i].trained:
                    yield from ({i: report} for report in runs[i].evaluate(seconds[i]))
                    active = [j for j in active if j != i]
            since = time.perf_counter()


def can_stack(config: TrialConfig) -> bool:
    """Whether the trial is trained, and its model can be computed for many trials at once."""
    return config.model.kind == "trained" and can_compile(config)


def stack_key(config: TrialConfig) -> StackKey:
    """What trials must have in common to be stacked, with the name of each thing: the function that
    a forward pass computes, the shapes of all its tensors, and how many steps there are.

    Free are seeds, optimiser settings but batch size, and what only decides initial weights or
    data: start, kind of IDs, table_init.
    """
    p, model, data = config.position, config.model, config.data
    levels = num_levels(config.task, p)
    encoding: dict[str, object] = {"position.freeze_table": p.freeze_table}
    if p.encoding not in ENCODINGS:  # own code may make anything of any setting
        encoding = {"position": p}
    elif find_encoding(p.encoding).bounded:
        encoding["position.max_position"] = p.level_limits(levels)
    if p.moduli:
        encoding["position.moduli"] = p.moduli
    if p.encoding in ENCODINGS and levels > 1:
        encoding["position.level_tables"] = p.level_tables
    names = [f.name for f in dataclasses.fields(model) if f.name != "query_init"]
    graph = {f"model.{name}": getattr(model, name) for name in names}
    return tuple(
        {
            "task.name": task_name(config.task),
            "the number of symbols": len(config.task.vocab),
            "the number of levels of IDs": levels,
            "position.encoding": p.encoding,
            **encoding,
            **graph,
            "data.max_length": data.max_length,
            "data.problems_per_row": data.problems_per_row,
            "data.packing_begins": data.packing_begins,
            "data.single_problems": data.single_problems,
            "optim.batch_size": config.optim.batch_size,
            "optim.num_steps": config.optim.num_steps,
        }.items()
    )


def check_stackable(configs: Sequence[TrialConfig]) -> None:
    """Raise ValueError that names the first thing that keeps these trials from being stacked."""
    if not configs:
        raise ValueError("there are no trials to stack")
    for config in configs:
        if not can_stack(config):
            raise ValueError(
                f"{find_obstacle(config) or 'model.kind=constructed'} cannot be stacked: what it "
                "computes may depend on the values of a batch"
            )
    first = dict(stack_key(configs[0]))
    for number, config in enumerate(configs[1:], start=1):
        other = dict(stack_key(config))
        for name in first | other:
            if first.get(name) != other.get(name):
                raise ValueError(
                    f"trials 0 and {number} cannot be stacked: {name} is {first.get(name)} "
                    f"and {other.get(name)}"
                )


class Stack:
    """The weights of several runs in one index, and the step that they take together.

    While it lives, parameters and optimizer states of the runs are views of its tensors: they are
    those of the runs at every moment, and a state of a run is a solo state.
    """

    def __init__(self, runs: Sequence[Run]):
        self.runs, self.device, self.model = list(runs), runs[0].device, runs[0].model
        self.shapes = {n: p.shape for n, p in self.model.named_parameters() if p.requires_grad}
        sizes = [-(-shape.numel() // ALIGNMENT) * ALIGNMENT for shape in self.shapes.values()]
        self.flat = torch.zeros(len(self.runs), sum(sizes), device=self.device)
        self.gradients = torch.zeros_like(self.flat)
        self.moments = (torch.zeros_like(self.flat), torch.zeros_like(self.flat))
        self.limits = torch.tensor(
            [run.config.optim.grad_clip or torch.inf for run in self.runs], device=self.device
        )
        self.trained = {n: w.detach().requires_grad_() for n, w in self._views(self.flat).items()}
        self.gradient_of = self._views(self.gradients)
        self.losses = Compiled(stacked_losses, self.device, self.runs[0].mean_loss.active)
        self.fixed = self._stack_fixed()
        self.optimizer = self._adopt()

    def rates(self) -> list[float]:
        """The learning rate of the coming step of each run."""
        return [learning_rate(run.config.optim, run.step) for run in self.runs]

    def update(self, rates: Sequence[float]) -> tuple[Float[Tensor, " M"], Float[Tensor, " M"]]:
        """One optimizer step of every run on its next batch, at its own rate; mean losses and
        gradient norms before clipping, left on the device.
        """
        losses = self.backward([run.data.next_batch() for run in self.runs])
        norms = torch.linalg.vector_norm(self.gradients, dim=1)
        self.gradients.mul_((self.limits / (norms + 1e-6)).clamp(max=1.0).unsqueeze(1))
        for run, rate in zip(self.runs, rates, strict=True):
            decay = weight_decay(run.config.optim, run.step)
            run.optimizer.param_groups[0].update(lr=rate, weight_decay=decay)
        for group in self.optimizer.param_groups:
            own = self.runs[group["first"]].optimizer.param_groups[0]
            group.update(lr=own["lr"], weight_decay=own["weight_decay"])
        self.optimizer.step()
        return losses, norms

    def backward(self, batches: Sequence[TrainingBatch]) -> Float[Tensor, " M"]:
        """Mean cross-entropy of every run on its batch; its gradients are left in `gradients`."""
        batch = pad_together(batches)
        losses = self.losses.use(lambda function: self._backward(batch, function))
        for run in self.runs:
            run.mean_loss.active = self.losses.active
        return losses

    def _backward(self, batch: TrainingBatch, function: Loss) -> Float[Tensor, " M"]:
        """batch: the examples of all runs, with the run as first axis."""
        with autocast(self.device), _attention(self.device):
            losses = function(self.model, self.trained, self.fixed, *batch)
        gradients = torch.autograd.grad(losses.sum(), list(self.trained.values()))
        for name, gradient in zip(self.trained, gradients, strict=True):
            self.gradient_of[name].copy_(gradient)
        return losses.detach().clone()

    def _views(self, flat: Tensor) -> dict[str, Tensor]:
        """Of each trained weight the part of `flat` that holds it, with the run as first axis."""
        views: dict[str, Tensor] = {}
        begin = 0
        for name, shape in self.shapes.items():
            part = flat[:, begin : begin + shape.numel()]
            views[name] = part.unflatten(1, shape) if shape else part.squeeze(1)
            begin += -(-shape.numel() // ALIGNMENT) * ALIGNMENT
        return views

    def _stack_fixed(self) -> dict[str, Tensor]:
        """Buffers and frozen parameters of all runs."""
        tensors = [
            dict(run.model.named_parameters()) | dict(run.model.named_buffers())
            for run in self.runs
        ]
        names = [name for name in tensors[0] if name not in self.shapes]
        return {name: torch.stack([t[name].detach() for t in tensors]) for name in names}

    def _adopt(self) -> torch.optim.AdamW:
        """Move the weights and moments of the runs here; the optimizer of all runs, in which those
        of equal settings and step share a group.
        """
        weights = {name: weight.detach() for name, weight in self.trained.items()}
        first, second = (self._views(moment) for moment in self.moments)
        groups: dict[object, dict[str, Any]] = {}
        states: dict[Tensor, dict[str, Tensor]] = {}
        for index, run in enumerate(self.runs):
            parameters = dict(run.model.named_parameters())
            step = torch.tensor(float(run.step), device=self.device)
            for name in self.shapes:
                parameter = parameters[name]
                old = run.optimizer.state.get(parameter, {})
                new = {
                    "step": step,
                    "exp_avg": first[name][index],
                    "exp_avg_sq": second[name][index],
                }
                for key in ("exp_avg", "exp_avg_sq"):
                    if key in old:
                        new[key].copy_(old[key])
                weights[name][index].copy_(parameter.data)
                parameter.data = weights[name][index]
                run.optimizer.state[parameter] = new
            whole = nn.Parameter(self.flat[index])
            whole.grad = self.gradients[index]
            moments = {"exp_avg": self.moments[0][index], "exp_avg_sq": self.moments[1][index]}
            states[whole] = {"step": step, **moments}
            o = run.config.optim
            settings = {"betas": (o.beta1, o.beta2), "eps": o.eps, "weight_decay": o.weight_decay}
            group = groups.setdefault((o, run.step), {**settings, "params": [], "first": index})
            group["params"].append(whole)
        optimizer = torch.optim.AdamW(list(groups.values()), fused=True)
        optimizer.state.update(states)
        return optimizer


def stacked_losses(
    model: Transformer,
    trained: Mapping[str, Tensor],
    fixed: Mapping[str, Tensor],
    tokens: Int[Tensor, "M B T"],
    ids: Int[Tensor, "M B T P"],
    places: Int[Tensor, "M B R"],
    targets: Int[Tensor, "M B R"],
) -> Float[Tensor, " M"]:
    """Mean cross-entropy of every run, each with its own weights; `model` lends its code only."""
    logits = vmap(functools.partial(_logits, model))(trained, fixed, tokens, ids, places)
    losses = F.cross_entropy(
        logits.flatten(0, 2).float(),
        targets.flatten(),
        ignore_index=NO_TARGET,
        reduction="none",
    )
    num_targets = (targets != NO_TARGET).flatten(1).sum(dim=1)
    return losses.view(len(targets), -1).sum(dim=1) / num_targets


def _logits(
    model: Transformer,
    trained: Mapping[str, Tensor],
    fixed: Mapping[str, Tensor],
    tokens: Tensor,
    ids: Tensor,
    places: Tensor,
) -> Tensor:
    """Of one run; `vmap` makes all of it."""
    return functional_call(model, {**trained, **fixed}, (tokens, ids, places))


def pad_together(batches: Sequence[TrainingBatch]) -> TrainingBatch:
    """Batches of equal size with the run as first axis, padded to the longest."""

    def join(parts: Sequence[Tensor], fill: int) -> Tensor:
        width = max(part.shape[1] for part in parts)
        if all(part.shape[1] == width for part in parts):
            return torch.stack(list(parts))
        rows, _, *rest = parts[0].shape
        whole = parts[0].new_full((len(parts), rows, width, *rest), fill)
        for index, part in enumerate(parts):
            whole[index, :, : part.shape[1]] = part
        return whole

    return TrainingBatch(*map(join, zip(*batches, strict=True), (0, 0, 0, NO_TARGET)))


def _attention(device: torch.device) -> AbstractContextManager[object]:
    """`vmap` has no rule for the fused attention kernel of a CPU; that of a GPU has one."""
    return sdpa_kernel(SDPBackend.MATH) if device.type == "cpu" else nullcontext()
