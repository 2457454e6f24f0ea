"""Measured times of finished trials by cell, to which the cost model is fitted.

Other work on the machine can slow a trial down but never speeds it up, so the lower quartile of a
cell's trials represents the cell.
"""

import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from pcore.config import TrialConfig, unflatten
from pcore.encodings import find_encoding
from pcore.model.mixing import mixing_parts
from sweeps.engine.prices.cost_model import MIN_STEPS, Measurement, count_amounts
from sweeps.engine.store.store import Store

MIN_SHARE = 0.2  # of its steps that an attempt must have run itself to count
CELLS_PER_KIND = 3  # of cells that differ only in learning rates and similar fields
MAX_KINDS = 150  # the newest; more only take time

TIMES = ("train_seconds", "eval_seconds", "first_step", "optim.num_steps")
ORIGIN = ("status", "device", "num_threads", "host", "started_at", "stacked")
KIND = ("task.name", "position.encoding", "num_parameters", "train_flops")


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """The durations in a store."""

    seconds: Mapping[str, float]  # of each cell in the store
    sample: Mapping[TrialConfig, Measurement]  # cells of all kinds, each at one of its seeds
    here: bool  # whether all this was measured on this host


def read_measured(store: Store, device: str, num_threads: int = 1) -> Measured:
    """What the store has measured on this kind of device with this many threads: on this host if
    that is enough for a fit, else on all hosts.
    """
    visible = store.visible()
    columns = ["trial_id", "cell_id", *TIMES, *ORIGIN, *KIND]
    table = store.load_shards(visible.values(), "trial", columns)
    rows = _usable(table, device, num_threads)
    local = [row for row in rows if row["host"] == socket.gethostname()]
    here = len({_kind(row) for row in local}) >= MIN_STEPS or len(local) == len(rows)
    by_cell: dict[str, list[dict[str, Any]]] = {}
    for row in local if here else rows:
        by_cell.setdefault(row["cell_id"], []).append(row)
    seconds = {cell: _low([_seconds(row) for row in rows]) for cell, rows in by_cell.items()}
    chosen = {by_cell[cell][0]["trial_id"]: cell for cell in _of_all_kinds(by_cell)}
    shards = [visible[name] for name in chosen]
    sample: dict[TrialConfig, Measurement] = {}
    for row in store.load_shards(shards, "trial", ["trial_id", "config_json"]).to_pylist():
        if (config := _read(row["config_json"])) is not None:
            took = seconds[chosen[row["trial_id"]]]
            sample[config] = Measurement(amounts=count_amounts(config), seconds=took)
    return Measured(seconds=seconds, sample=sample, here=here)


def _usable(table: pa.Table, device: str, num_threads: int) -> list[dict[str, Any]]:
    """Rows of unstacked trials that ran all or most of their steps."""
    on_cpu = pc.field("device") == "cpu"
    whole = (pc.field("status") == "ok") & (pc.field("num_threads") == num_threads)
    whole &= on_cpu if device == "cpu" else ~on_cpu
    whole &= pc.field("stacked").is_null() | (pc.field("stacked") == 1)
    whole &= (pc.field("train_seconds") > 0) & (pc.field("eval_seconds") > 0)
    rows = table.filter(whole).to_pylist()
    if device != "cpu" and torch.cuda.is_available():
        rows = [row for row in rows if row["device"] == torch.cuda.get_device_name()]
    return [row for row in rows if _share(row) >= MIN_SHARE]


def _share(row: Mapping[str, Any]) -> float:
    """The share of its steps that an attempt ran itself."""
    return 1 - row["first_step"] / row["optim.num_steps"]


def _seconds(row: Mapping[str, Any]) -> float:
    """Seconds of the trial; of one that was interrupted what its last attempt ran, scaled up."""
    return row["train_seconds"] / _share(row) + row["eval_seconds"]


def _of_all_kinds(by_cell: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """The newest cells of the newest kinds."""
    last = {cell: max(row["started_at"] or "" for row in by_cell[cell]) for cell in by_cell}
    kinds: dict[tuple[object, ...], list[str]] = {}
    for cell in sorted(by_cell, key=last.__getitem__, reverse=True):
        kinds.setdefault(_kind(by_cell[cell][0]), []).append(cell)
    return [cell for cells in list(kinds.values())[:MAX_KINDS] for cell in cells[:CELLS_PER_KIND]]


def _kind(row: Mapping[str, Any]) -> tuple[object, ...]:
    return tuple(row[name] for name in KIND)


def _read(text: str) -> TrialConfig | None:
    """The configuration; None if it cannot be read, or names code that is not this launch's."""
    try:
        config = unflatten(json.loads(text))
        find_encoding(config.position.encoding)
        mixing_parts(config.model)
    except (ValueError, TypeError, AttributeError):  # JSON that is not a flat dictionary
        return None
    return config


def _low(values: Sequence[float]) -> float:
    return float(np.quantile(values, 0.25, method="lower"))
