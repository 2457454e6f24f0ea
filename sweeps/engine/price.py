"""What a trial will cost: floating-point operations of its configuration over a rate that was
measured.

The rate comes from finished trials of the same cell in the store, else from a few training steps
timed here (`probe`). A prediction, not a promise.
"""

import dataclasses
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import pyarrow.compute as pc
import torch

from pcore.config import TrialConfig
from pcore.cost import count_example_flops, count_flops, typical_length
from pcore.train import Run, learning_rate
from sweeps.engine.store import Store

PROBE_FLOPS = 2e10  # a probe step larger than this is made smaller by cutting the batch


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """Predicted seconds of one trial on one slot, and where the prediction comes from."""

    seconds: float
    source: str


def price_cells(cells: Mapping[str, TrialConfig], store: Store, device: str) -> dict[str, Price]:
    """The price of each cell, by its id.

    What the store has not measured on this kind of device is probed: at most a second or two per
    shape.
    """
    measured = _measured_rates(cells, store, device)
    prices: dict[str, Price] = {}
    probed: dict[tuple[object, ...], float] = {}
    for cell, config in cells.items():
        flops = count_flops(config)
        if cell in measured:
            prices[cell] = Price(seconds=flops / measured[cell], source="measured")
            continue
        shape = _shape(config)
        if shape not in probed:
            probed[shape] = probe(config, device)
        prices[cell] = Price(seconds=flops / probed[shape], source="probed")
    return prices


def describe_error(pairs: Sequence[tuple[float, float]]) -> str:
    """How well trials were predicted, from the predicted and the measured seconds of each."""
    ratios = [took / predicted for predicted, took in pairs]
    whole = sum(took for _, took in pairs) / sum(predicted for predicted, _ in pairs)
    close = sum(abs(ratio - 1) <= 0.3 for ratio in ratios)
    return (
        f"cost model: {len(pairs)} trials took {whole:.2f}x of their predicted time "
        f"(one trial {min(ratios):.2f}x to {max(ratios):.2f}x; {close} of {len(pairs)} within 30 %)"
    )


def _shape(config: TrialConfig) -> tuple[object, ...]:
    """What decides the speed of a training step, so that one probe serves all cells alike in it."""
    p = config.position
    batch = (config.optim.batch_size, config.data.max_length, config.optim.grad_clip > 0)
    return (config.task, config.model, p.encoding, p.ids, p.candidate, p.max_position, *batch)


def _measured_rates(
    cells: Mapping[str, TrialConfig], store: Store, device: str
) -> dict[str, float]:
    """Operations per second of finished, never interrupted trials of these cells."""
    if not cells:
        return {}
    columns = ["cell_id", "wall_seconds", "first_step", "device", "status"]
    table = store.load(record="trial", columns=columns)
    cpu = pc.field("device") == "cpu"
    same_kind = cpu if device == "cpu" else ~cpu
    usable = (pc.field("status") == "ok") & (pc.field("first_step") == 0) & same_kind
    usable &= pc.field("cell_id").isin(list(cells)) & (pc.field("wall_seconds") > 0)
    seconds: dict[str, list[float]] = {}
    for row in table.filter(usable).to_pylist():
        seconds.setdefault(row["cell_id"], []).append(row["wall_seconds"])
    return {cell: count_flops(cells[cell]) / statistics.median(t) for cell, t in seconds.items()}


def probe(config: TrialConfig, device: str, num_steps: int = 5) -> float:
    """Operations per second of a few training steps of this configuration on one thread (or one
    GPU).
    """
    per_example = 3 * count_example_flops(config, config.data.max_length)
    batch_size = max(1, min(config.optim.batch_size, int(PROBE_FLOPS / per_example)))
    small = dataclasses.replace(
        config,
        optim=dataclasses.replace(config.optim, batch_size=batch_size),
        data=dataclasses.replace(config.data, num_examples=None),
        eval=dataclasses.replace(config.eval, checkpoints=("last",)),
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # as an attempt does
    run = Run(small, device)
    rate = learning_rate(small.optim, 0)
    run.update(run.data.next_batch(), rate)
    seconds = timed(lambda: run.update(run.data.next_batch(), rate), num_steps, device)
    torch.set_num_threads(threads)
    torch.set_flush_denormal(False)
    return 3 * batch_size * count_example_flops(small, typical_length(small)) / seconds


def timed(step: Callable[[], object], count: int, device: str) -> float:
    """Median seconds of `step` over `count` calls."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        step()
        if device != "cpu":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
