"""What a trial will cost: floating-point operations of its configuration over a rate that was
measured.

The rate comes, in this order, from finished trials of the same cell in the store, from finished
trials of any configuration, or from a few training steps timed here (`probe`). A prediction, not a
promise: its error is printed after a sweep.
"""

import dataclasses
import json
import statistics
import time
from collections.abc import Callable, Iterable, Mapping

import torch

from pcore.config import TrialConfig, trial_id, unflatten, without_seeds
from pcore.evaluate import evaluation_lengths
from pcore.train import Run, learning_rate
from sweeps.engine.store import Store

PROBE_FLOPS = 2e10  # a probe step larger than this is made smaller by cutting the batch


def count_flops(config: TrialConfig) -> float:
    """Operations of a whole trial: forward and backward of all steps, forward of all
    evaluations.
    """
    data = config.data
    typical = max(data.min_length, round((data.min_length + 2 * data.max_length) / 3))
    training = 3 * config.optim.num_steps * config.optim.batch_size * _forward(config, typical)
    lengths = [length for values in evaluation_lengths(config).values() for length in values]
    evaluation = sum(config.eval.num_examples * _forward(config, length) for length in lengths)
    return training + evaluation * len(config.eval.checkpoints)


def _forward(config: TrialConfig, length: int) -> float:
    """Operations of one example: all blocks on all tokens, but the last block's queries and
    feed-forward on targets only.
    """
    m, num_tokens = config.model, config.task.num_tokens(length)
    layout = config.task.layout(config.task.largest_shape(length))
    num_targets = len(layout.sources) - layout.num_query + 1
    inner = m.num_heads * m.d_head
    keys = 4 * m.d_model * inner
    queries = 4 * m.d_model * inner + 6 * m.d_model * m.d_ff + 4 * num_tokens * inner
    inside = (m.num_layers - 1) * num_tokens * (keys + queries)
    return (
        inside
        + num_tokens * keys
        + num_targets * (queries + 2 * m.d_model * len(config.task.vocab))
    )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """Predicted seconds of one trial on one slot, and where the prediction comes from."""

    seconds: float
    source: str


def price_cells(cells: Iterable[TrialConfig], store: Store, device: str) -> dict[str, Price]:
    """The price of each configuration (seeds ignored), by the trial id of its cell.

    What the store has not measured on this kind of device is probed: at most a second or two per
    cell.
    """
    measured = _measured_rates(store, device)
    prices: dict[str, Price] = {}
    for config in cells:
        cell = trial_id(without_seeds(config))
        if cell in prices:
            continue
        flops = count_flops(config)
        if cell in measured:
            prices[cell] = Price(seconds=flops / measured[cell], source="measured")
        else:
            prices[cell] = Price(seconds=flops / probe(config, device), source="probed")
    return prices


def _measured_rates(store: Store, device: str) -> Mapping[str, float]:
    """Operations per second of finished, never interrupted trials, by cell."""
    columns = ["config_json", "trial_id", "wall_seconds", "first_step", "device", "status"]
    table = store.load(record="trial", columns=["record", *columns])
    rates: dict[str, list[float]] = {}
    for row in table.to_pylist():
        same_kind = (row["device"] == "cpu") == (device == "cpu")
        if row["status"] != "ok" or row["first_step"] or not same_kind or not row["wall_seconds"]:
            continue
        config = _config_of(row["config_json"])
        if config is not None:
            cell = trial_id(without_seeds(config))
            rates.setdefault(cell, []).append(count_flops(config) / row["wall_seconds"])
    return {cell: statistics.median(values) for cell, values in rates.items()}


def _config_of(text: str) -> TrialConfig | None:
    try:
        return unflatten(json.loads(text))
    except ValueError:  # a row of another version of the code
        return None


def probe(config: TrialConfig, device: str, num_steps: int = 5) -> float:
    """Operations per second of a few training steps of this configuration on one thread (or one
    GPU).
    """
    per_example = 3 * _forward(config, config.data.max_length)
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
    data = small.data
    typical = max(data.min_length, round((data.min_length + 2 * data.max_length) / 3))
    return 3 * batch_size * _forward(small, typical) / seconds


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
