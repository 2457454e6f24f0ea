"""The predicted seconds of a trial: measured, from the speed of measured cells alike, or probed.

A measured cell costs what it took. Others cost what they would take on a typical core, times how
much slower cells alike were here (`measured`). Where none was measured, a few training steps are
timed (`probe`).
"""

import dataclasses
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import torch

from pcore.cli.text import plural
from pcore.config import DataConfig, TrialConfig
from pcore.flops import count_example_flops, count_flops, count_train_flops
from pcore.training import Run, learning_rate
from sweeps.engine.arithmetic import process_settings
from sweeps.engine.prices.measured import (
    Measured,
    find_alike,
    read_measured,
    step_of,
    typical_seconds,
    typical_trial_seconds,
)
from sweeps.engine.store.store import Store

CONSTRUCTED_RATE = 2e10  # operations of the trained model of that configuration, per second
PROBE_FLOPS = 2e10  # a probe step larger than this is made smaller by cutting the batch
MAX_CELLS = 300  # measured ones that others are compared with, the newest; more only take time
CLOSE = 0.3  # a prediction within 30 % is called close


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """The predicted duration of one trial on one slot."""

    seconds: float
    source: str  # measured, speed of N cells, probed, or guessed


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Prices:
    """The price of each cell, by its id. note: how well cells alike predict one another; empty if
    no price comes from them.
    """

    by_cell: Mapping[str, Price]
    note: str = ""


def price_cells(
    cells: Mapping[str, TrialConfig],
    store: Store,
    device: str = "cpu",
    num_threads: int = 1,
    local: bool = True,
) -> Prices:
    """The prices of cells, by their ids. local: the trials will run on this host, so only what was
    measured here counts.
    """
    if not cells:
        return Prices(by_cell={})
    pricing = _Pricing(store, device, num_threads, local)
    prices = {cell: pricing.price(cell, config) for cell, config in cells.items()}
    note = ""
    from_speed = any(price.source.startswith("speed") for price in prices.values())
    if from_speed and (ratios := cross_validate(pricing.newest)):
        note = f"cost model: predicted from others alike, cells took {describe_ratios(ratios)}"
    return Prices(by_cell=prices, note=note)


class _Pricing:
    """The shared state of the prices of one plan."""

    def __init__(self, store: Store, device: str, num_threads: int, local: bool):
        self.device, self.num_threads = device, num_threads
        self.measured = read_measured(store, device, num_threads, local)
        # On a GPU a step and an operation cost in other proportions than on the typical core.
        self.newest = list(self.measured.values())[:MAX_CELLS] if device == "cpu" else []
        self.probed: dict[TrialConfig, float | None] = {}

    def price(self, cell: str, config: TrialConfig) -> Price:
        if config.model.kind == "constructed":  # evaluated only: seconds at most
            return Price(seconds=count_flops(config) / CONSTRUCTED_RATE, source="guessed")
        if cell in self.measured:
            return Price(seconds=self.measured[cell].seconds, source="measured")
        seconds = typical_trial_seconds(config)
        if alike := find_alike(self.newest, step_of(config)):
            source = f"speed of {plural(len(alike), 'cell')}"
            return Price(seconds=seconds * _median_slowness(alike), source=source)
        if (slowness := self.probe(config)) is None:
            return Price(seconds=seconds, source="guessed")
        return Price(seconds=seconds * slowness, source="probed")

    def probe(self, config: TrialConfig) -> float | None:
        """How much longer than typical a training step takes here; None if it raises."""
        small = smaller(config)
        if small not in self.probed:
            try:
                seconds = probe(small, self.device, self.num_threads)
                self.probed[small] = seconds / typical_seconds(1, count_train_flops(small))
            except Exception:  # own code: its trials will say what it raises, the others run
                self.probed[small] = None
        return self.probed[small]


def cross_validate(measured: Sequence[Measured]) -> list[float]:
    """Measured over predicted training time of each cell, predicted from cells alike with another
    training step: those with the same one would vouch for each other.
    """
    ratios: list[float] = []
    for cell in measured:
        others = [other for other in measured if other.step != cell.step]
        if alike := find_alike(others, cell.step):
            ratios.append(cell.slowness / _median_slowness(alike))
    return ratios


def _median_slowness(cells: Sequence[Measured]) -> float:
    return statistics.median(cell.slowness for cell in cells)


def describe_error(pairs: Sequence[tuple[float, float]]) -> str:
    """How well trials were predicted, from the predicted and the measured seconds of each."""
    ratios = [took / predicted for predicted, took in pairs]
    whole = sum(took for _, took in pairs) / sum(predicted for predicted, _ in pairs)
    return (
        f"cost model: {plural(len(pairs), 'trial')} took {whole:.2f}x of their predicted time "
        f"(one trial {min(ratios):.2f}x to {max(ratios):.2f}x; {count_close(ratios)} of "
        f"{len(pairs)} within 30 %)"
    )


def describe_ratios(ratios: Sequence[float]) -> str:
    """ "0.90x to 1.20x of their prediction (half within 4 %, 9 of 9 within 30 %)"."""
    half = 100 * statistics.median(abs(ratio - 1) for ratio in ratios)
    return (
        f"{min(ratios):.2f}x to {max(ratios):.2f}x of their prediction "
        f"(half within {half:.0f} %, {count_close(ratios)} of {len(ratios)} within 30 %)"
    )


def count_close(ratios: Sequence[float]) -> int:
    """How many measured times are within 30 % of their prediction."""
    return sum(abs(ratio - 1) <= CLOSE for ratio in ratios)


def smaller(config: TrialConfig) -> TrialConfig:
    """The same step without packed rows, on as many examples as take at most PROBE_FLOPS."""
    per_example = 3 * count_example_flops(config, config.data.max_length)
    batch_size = max(1, min(config.optim.batch_size, int(PROBE_FLOPS / per_example)))
    return dataclasses.replace(
        config,
        optim=dataclasses.replace(config.optim, batch_size=batch_size, num_steps=1),
        data=DataConfig(
            min_length=config.data.min_length,
            max_length=config.data.max_length,
            num_examples=None,
        ),
        eval=dataclasses.replace(config.eval, checkpoints=("last",)),
        seed=0,
        data_seed=0,
    )


def probe(config: TrialConfig, device: str, num_threads: int = 1, num_steps: int = 5) -> float:
    """Seconds of one training step of this configuration, the median of a few."""
    with process_settings(num_threads):  # as in an attempt
        run, rate = Run(config, device), learning_rate(config.optim, 0)
        run.update(run.data.next_batch(), rate)
        return timed(lambda: run.update(run.data.next_batch(), rate), num_steps, device)


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
