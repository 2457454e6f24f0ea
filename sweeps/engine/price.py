"""The predicted seconds of a trial: the median time of its cell here, else the time that its steps
and operations take on a typical core, times how much slower the cells measured here were.
"""

import functools
import socket
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow.compute as pc
import torch

from pcore.cli.text import plural
from pcore.config import TrialConfig
from pcore.flops import count_flops
from pcore.settings import OptimConfig
from sweeps.engine.store.store import Store

STEP_SECONDS = 4e-3  # of a training step, beside its operations: one core of a 2024 server
OPERATION_SECONDS = 2.2e-11  # the same core
MIN_SHARE = 0.2  # of its steps that an attempt must have run itself to count
_count_flops = functools.cache(count_flops)
COLUMNS = ("cell_id", "train_seconds", "eval_seconds", "train_flops", "first_step")
ORIGIN = ("status", "device", "num_threads", "host")


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """The predicted duration of one trial on one slot."""

    seconds: float
    source: str  # measured, speed of N cells, or a typical core


def price_cells(
    cells: Mapping[str, TrialConfig],
    store: Store,
    device: str = "cpu",
    num_threads: int = 1,
    local: bool = True,
) -> dict[str, Price]:
    """The price of each cell, by its id. local: the trials will run on this host, so only what was
    measured here counts, with this many threads on this kind of device.
    """
    if not cells:
        return {}
    measured, slowness = _read_times(store, _usable(device, num_threads, local))
    known = f"speed of {plural(len(measured), 'cell')}" if slowness else "a typical core"
    return {
        cell: Price(seconds=measured[cell], source="measured")
        if cell in measured
        else Price(seconds=(slowness or 1.0) * typical_trial_seconds(config), source=known)
        for cell, config in cells.items()
    }


def typical_seconds(num_steps: int, operations: float) -> float:
    """Seconds on a typical core."""
    return STEP_SECONDS * num_steps + OPERATION_SECONDS * operations


def typical_trial_seconds(config: TrialConfig) -> float:
    """Of a whole trial."""
    optim = config.optim
    same = replace(OptimConfig(), num_steps=optim.num_steps, batch_size=optim.batch_size)
    operations = _count_flops(replace(config, optim=same, seed=0, data_seed=0))
    return typical_seconds(optim.num_steps, operations)


def _read_times(store: Store, usable: pc.Expression) -> tuple[dict[str, float], float]:
    """The median seconds of each measured cell, and the median of how much slower than typical
    their training was; 0 if none was measured.
    """
    names = [*COLUMNS, "optim.num_steps", *ORIGIN]
    table = store.load_shards(store.visible().values(), "trial", names).filter(usable)
    seconds: dict[str, list[float]] = {}
    slower: list[float] = []
    for row in table.select([*COLUMNS, "optim.num_steps"]).to_pylist():
        share = 1 - row["first_step"] / row["optim.num_steps"]  # of the steps, after a resume
        trained = row["train_seconds"] / share
        seconds.setdefault(row["cell_id"], []).append(trained + row["eval_seconds"])
        if row["train_flops"]:
            slower.append(trained / typical_seconds(row["optim.num_steps"], row["train_flops"]))
    medians = {cell: statistics.median(times) for cell, times in seconds.items()}
    return medians, statistics.median(slower) if slower else 0.0


def _usable(device: str, num_threads: int, local: bool) -> pc.Expression:
    """Trials that ran all or most of their steps."""
    usable = (pc.field("status") == "ok") & (pc.field("num_threads") == num_threads)
    usable &= (pc.field("train_seconds") > 0) & (pc.field("eval_seconds") > 0)
    usable &= pc.field("first_step") <= pc.field("optim.num_steps") * pc.scalar(1 - MIN_SHARE)
    if local:
        usable &= pc.field("host") == socket.gethostname()
    if device == "cpu":
        return usable & (pc.field("device") == "cpu")
    if torch.cuda.is_available():
        return usable & (pc.field("device") == torch.cuda.get_device_name())
    return usable & (pc.field("device") != "cpu")
