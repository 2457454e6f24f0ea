"""What finished trials took, by cell: the rows that prices are fitted to.

A trial may be slowed down by other work on the machine, never sped up: the lower quartile of a
cell's trials stands for the cell.
"""

import dataclasses
import json
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from pcore.config import TrialConfig, unflatten
from pcore.encodings import find_encoding
from sweeps.engine.prices.cost_model import MIN_STEPS, Measurement, Shape, shape_of
from sweeps.engine.store.store import Store

MIN_SHARE = 0.2  # of its steps that an attempt must have run itself to count
CELLS_PER_KIND = 3  # of cells that are alike in all but learning rates and the like
MAX_KINDS = 150  # the newest; more only take time

TIMES = ("train_seconds", "eval_seconds", "first_step", "optim.num_steps")
PLACE = ("status", "device", "num_threads", "host", "started_at", "stacked")
KIND = ("task.name", "position.encoding", "num_parameters", "train_flops")


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredCell:
    """A cell and the seconds that training and everything after it took."""

    cell: str
    config: TrialConfig
    training: float
    evaluation: float
    num_trials: int

    @property
    def seconds(self) -> float:
        return self.training + self.evaluation


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """seconds: of each cell in the store. sample: cells of all kinds there are, with their
    configuration. here: whether all this was measured on this host.
    """

    seconds: Mapping[str, float]
    sample: tuple[MeasuredCell, ...]
    here: bool


def read_measured(store: Store, device: str, num_threads: int = 1) -> Measured:
    """What the store has measured on this kind of device with so many threads: on this host if that
    is enough for a fit, else on all hosts.
    """
    visible = store.visible()
    columns = ["trial_id", "cell_id", *TIMES, *PLACE, *KIND]
    table = store.load_shards(visible.values(), "trial", columns)
    rows = _usable(table, device, num_threads)
    own = [row for row in rows if row["host"] == socket.gethostname()]
    here = len({_kind(row) for row in own}) >= MIN_STEPS or len(own) == len(rows)
    by_cell: dict[str, list[dict[str, Any]]] = {}
    for row in own if here else rows:
        by_cell.setdefault(row["cell_id"], []).append(row)
    chosen = {by_cell[cell][0]["trial_id"]: cell for cell in _of_all_kinds(by_cell)}
    texts = store.load_shards(
        [visible[name] for name in chosen], "trial", ["trial_id", "config_json"]
    )
    sample = [
        _measure(cell, by_cell[cell], config)
        for row in texts.to_pylist()
        for cell in [chosen[row["trial_id"]]]
        for config in _read(row["config_json"])
    ]
    seconds = {
        cell: sum(_quartile(members, part) for part in ("train_seconds", "eval_seconds"))
        for cell, members in by_cell.items()
    }
    return Measured(seconds=seconds, sample=tuple(sample), here=here)


def by_shape(cells: Iterable[MeasuredCell], device: str) -> dict[Shape, list[MeasuredCell]]:
    """The cells of each shape: those whose trials should take equally long."""
    shapes: dict[Shape, list[MeasuredCell]] = {}
    for cell in cells:
        config = dataclasses.replace(cell.config, seed=0, data_seed=0)
        shapes.setdefault(shape_of(config, device), []).append(cell)
    return shapes


def measurements(shapes: Mapping[Shape, Sequence[MeasuredCell]]) -> list[Measurement]:
    """What each shape took: the lower quartile of its cells."""
    return [
        Measurement(
            shape=shape,
            training=_low([cell.training for cell in cells]),
            evaluation=_low([cell.evaluation for cell in cells]),
        )
        for shape, cells in shapes.items()
    ]


def _usable(table: pa.Table, device: str, num_threads: int) -> list[dict[str, Any]]:
    """Rows of whole trials; of those that were interrupted what the last attempt ran, scaled up."""
    on_cpu = pc.field("device") == "cpu"
    whole = (pc.field("status") == "ok") & (pc.field("num_threads") == num_threads)
    whole &= on_cpu if device == "cpu" else ~on_cpu
    whole &= pc.field("stacked").is_null() | (pc.field("stacked") == 1)
    whole &= (pc.field("train_seconds") > 0) & (pc.field("eval_seconds") > 0)
    rows = table.filter(whole).to_pylist()
    if device != "cpu" and torch.cuda.is_available():
        rows = [row for row in rows if row["device"] == torch.cuda.get_device_name()]
    usable: list[dict[str, Any]] = []
    for row in rows:
        num_steps = row["optim.num_steps"]
        share = 1 - row["first_step"] / num_steps
        if share >= MIN_SHARE:
            usable.append(row | {"train_seconds": row["train_seconds"] / share})
    return usable


def _of_all_kinds(by_cell: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """The newest cells of the newest kinds."""
    last = {cell: max(row["started_at"] or "" for row in by_cell[cell]) for cell in by_cell}
    newest = sorted(by_cell, key=last.__getitem__, reverse=True)
    kinds: dict[tuple[object, ...], list[str]] = {}
    for cell in newest:
        kinds.setdefault(_kind(by_cell[cell][0]), []).append(cell)
    return [cell for cells in list(kinds.values())[:MAX_KINDS] for cell in cells[:CELLS_PER_KIND]]


def _kind(row: Mapping[str, Any]) -> tuple[object, ...]:
    return tuple(row[name] for name in KIND)


def _read(text: str) -> list[TrialConfig]:
    """The configuration, if it means something here: not one of own code that is gone."""
    try:
        config = unflatten(json.loads(text))
        find_encoding(config.position.encoding)
    except ValueError:
        return []
    return [config]


def _measure(cell: str, members: Sequence[Mapping[str, Any]], config: TrialConfig) -> MeasuredCell:
    return MeasuredCell(
        cell=cell,
        config=config,
        training=_quartile(members, "train_seconds"),
        evaluation=_quartile(members, "eval_seconds"),
        num_trials=len(members),
    )


def _quartile(rows: Sequence[Mapping[str, Any]], column: str) -> float:
    return _low([row[column] for row in rows])


def _low(values: Sequence[float]) -> float:
    return float(np.quantile(values, 0.25, method="lower"))
