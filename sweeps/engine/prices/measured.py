"""Measured times of finished trials, by cell."""

import math
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc
import torch

from pcore.config import OWN_CODE, TrialConfig, flatten
from pcore.flops import count_flops, count_train_flops
from sweeps.engine.store.store import Store

STEP_SECONDS = 4e-3  # of a training step, beside its operations: one core of a 2024 server
OPERATION_SECONDS = 2.2e-11  # the same core
MIN_SHARE = 0.2  # of its steps that an attempt must have run itself to count
FAR = 4.0  # training steps with this many times more or fewer operations are not alike

DEFAULTS = flatten(TrialConfig())
TIMES = ("train_seconds", "eval_seconds", "train_flops", "first_step", "optim.num_steps")
ORIGIN = ("cell_id", "status", "device", "num_threads", "host", "started_at", "stacked")


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A training step. kind: names of task, encoding, attention and mixer; operations: rounded, to
    be equal in trials that differ in their length.
    """

    kind: tuple[object, ...]
    operations: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """The times of a cell. seconds: of a trial; slowness: of its training, over typical seconds."""

    seconds: float
    slowness: float
    step: Step


def typical_seconds(num_steps: int, operations: float) -> float:
    """Seconds on a typical core."""
    return STEP_SECONDS * num_steps + OPERATION_SECONDS * operations


def typical_trial_seconds(config: TrialConfig) -> float:
    """Of a whole trial. Every second length is an evaluation of its own."""
    training = count_train_flops(config)
    evaluation = (count_flops(config) - training) * max(1, len(config.eval.second_lengths))
    return typical_seconds(config.optim.num_steps, training + evaluation)


def step_of(config: TrialConfig) -> Step:
    """The training step of a configuration."""
    return _step(flatten(config) | {"train_flops": count_train_flops(config)})


def find_alike(measured: Iterable[Measured], step: Step) -> list[Measured]:
    """The cells whose slowness says something about this step."""
    return [
        cell
        for cell in measured
        if cell.step.kind == step.kind and 1 / FAR <= cell.step.operations / step.operations <= FAR
    ]


def read_measured(
    store: Store, device: str, num_threads: int = 1, local: bool = True
) -> dict[str, Measured]:
    """The cells measured on this kind of device with this many threads, newest first. local: on
    this host.
    """
    columns = [*ORIGIN, *TIMES, *OWN_CODE]
    table = store.load_shards(store.visible().values(), "trial", columns)
    newest = table.filter(_usable(device, num_threads, local)).sort_by(
        [("started_at", "descending")]
    )
    by_cell: dict[str, list[dict[str, Any]]] = {}
    for row in newest.to_pylist():
        row["train_flops"] = row["train_flops"] or math.nan  # not recorded: like no other
        by_cell.setdefault(row["cell_id"], []).append(row)
    return {cell: _measured(rows) for cell, rows in by_cell.items()}


def _usable(device: str, num_threads: int, local: bool) -> pc.Expression:
    """Trials that ran all or most of their steps, alone."""
    usable = (pc.field("status") == "ok") & (pc.field("num_threads") == num_threads)
    usable &= pc.field("stacked").is_null() | (pc.field("stacked") == 1)
    usable &= (pc.field("train_seconds") > 0) & (pc.field("eval_seconds") > 0)
    usable &= pc.field("first_step") <= pc.field("optim.num_steps") * pc.scalar(1 - MIN_SHARE)
    if local:
        usable &= pc.field("host") == socket.gethostname()
    if device == "cpu":
        return usable & (pc.field("device") == "cpu")
    if torch.cuda.is_available():
        return usable & (pc.field("device") == torch.cuda.get_device_name())
    return usable & (pc.field("device") != "cpu")


def _measured(rows: Sequence[Mapping[str, Any]]) -> Measured:
    """The trial at the lower quartile represents its cell: other work on the machine can slow a
    trial down but never speeds it up.
    """
    row = sorted(rows, key=_seconds)[(len(rows) - 1) // 4]
    typical = typical_seconds(row["optim.num_steps"], row["train_flops"])
    slowness = _train_seconds(row) / typical
    return Measured(seconds=_seconds(row), slowness=slowness, step=_step(row))


def _seconds(row: Mapping[str, Any]) -> float:
    return _train_seconds(row) + row["eval_seconds"]


def _train_seconds(row: Mapping[str, Any]) -> float:
    """Of an interrupted trial what its last attempt ran, scaled up."""
    return row["train_seconds"] / (1 - row["first_step"] / row["optim.num_steps"])


def _step(row: Mapping[str, Any]) -> Step:
    """Names are missing in rows from before they were recorded."""
    return Step(
        kind=tuple(DEFAULTS[name] if row[name] is None else row[name] for name in OWN_CODE),
        operations=float(f"{row['train_flops'] / row['optim.num_steps']:.4g}"),
    )
