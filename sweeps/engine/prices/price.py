"""The predicted seconds of a trial: measured, fitted to measured trials, or probed.

A measured cell costs what it took. Others are predicted by the cost model fitted to all measured
ones (`cost_model`). If there are too few of these, or none is comparable, a few training steps are
timed here (`probe`).
"""

import dataclasses
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import torch

from pcore.cli.text import plural
from pcore.config import DataConfig, ModelConfig, TrialConfig
from pcore.evaluation.flops import count_example_flops, count_flops
from pcore.training.train import Run, learning_rate
from sweeps.engine.arithmetic import process_settings
from sweeps.engine.prices.cost_model import (
    TYPICAL,
    Amounts,
    count_amounts,
    cross_validate,
    fit,
    is_enough,
)
from sweeps.engine.prices.measured import read_measured
from sweeps.engine.store.store import Store

CONSTRUCTED_RATE = 2e10  # operations of the trained model of that configuration, per second
PROBE_FLOPS = 2e10  # a probe step larger than this is made smaller by cutting the batch
FAR = 4.0  # a step with this many times more or fewer operations than all measured is probed
CLOSE = 0.3  # a prediction within 30 % is called close


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """The predicted duration of one trial on one slot."""

    seconds: float
    source: str  # measured, fitted on N cells, probed, or guessed


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Prices:
    """The price of each cell, by its id. note: how good fitted prices are; empty if none is."""

    by_cell: Mapping[str, Price]
    note: str = ""


def price_cells(
    cells: Mapping[str, TrialConfig],
    store: Store,
    device: str = "cpu",
    num_threads: int = 1,
    local: bool = True,
) -> Prices:
    """The prices of cells, by their ids. local: the trials will run on this host, whose speed can
    be probed.
    """
    if not cells:
        return Prices(by_cell={})
    pricing = _Pricing(store, device, num_threads)
    if local and not pricing.measured.here:
        trained = [config for config in cells.values() if config.model.kind == "trained"]
        pricing.calibrate(trained)
    prices = {cell: pricing.price(cell, config) for cell, config in cells.items()}
    fitted = any(price.source.startswith("fitted") for price in prices.values())
    return Prices(by_cell=prices, note=pricing.describe() if fitted else "")


class _Pricing:
    """The shared state of the prices of one plan."""

    def __init__(self, store: Store, device: str, num_threads: int):
        self.device, self.num_threads = device, num_threads
        self.measured = read_measured(store, device, num_threads)
        self.sample = list(self.measured.sample.values())
        self.fitted = is_enough(self.sample)
        self.model = fit(self.sample) if self.sample else TYPICAL
        self.steps = [m.amounts.step_operations for m in self.sample]
        self.measured_parts = {_parts(config) for config in self.measured.sample}
        self.speed = 1.0  # time here over time where the rows were measured
        self.probed: dict[TrialConfig, float | None] = {}

    def calibrate(self, configs: Sequence[TrialConfig]) -> None:
        """Compare rows measured on other hosts with this host."""
        if not configs:
            return
        middle = configs[len(configs) // 2]
        ratios = [self.probe(config) for config in (configs[0], middle, configs[-1])]
        self.speed = statistics.median([r for r in ratios if r is not None] or [1.0])

    def price(self, cell: str, config: TrialConfig) -> Price:
        if config.model.kind == "constructed":  # evaluated only: seconds at most
            return Price(seconds=count_flops(config) / CONSTRUCTED_RATE, source="guessed")
        if cell in self.measured.seconds:
            return Price(seconds=self.measured.seconds[cell] * self.speed, source="measured")
        amounts = count_amounts(config)
        seconds = self.model.seconds(amounts)
        if self.fitted and not self._is_far(amounts) and self._is_comparable(config):
            source = f"fitted on {len(self.sample)} cells"
            return Price(seconds=seconds * self.speed, source=source)
        if (ratio := self.probe(config)) is None:
            return Price(seconds=seconds * self.speed, source="guessed")
        return Price(seconds=seconds * ratio, source="probed")

    def probe(self, config: TrialConfig) -> float | None:
        """How much longer a training step takes here than the model says; None if it raises."""
        small = smaller(config)
        if small not in self.probed:
            try:
                seconds = probe(small, self.device, self.num_threads)
                self.probed[small] = seconds / self.model.step_seconds(count_amounts(small))
            except Exception:  # own code: its trials will say what it raises, the others run
                self.probed[small] = None
        return self.probed[small]

    def describe(self) -> str:
        """The error of the model, from cells that were left out of the fit."""
        return (
            f"cost model: fitted on {len(self.sample)} cells; "
            f"cells left out of the fit took {describe_ratios(cross_validate(self.sample))}"
        )

    def _is_far(self, amounts: Amounts) -> bool:
        return not min(self.steps) / FAR <= amounts.step_operations <= max(self.steps) * FAR

    def _is_comparable(self, config: TrialConfig) -> bool:
        """False for own code, and for attention that is not plain, that no measured trial had."""
        m, default = config.model, ModelConfig()
        ours = ":" not in config.position.encoding and m.attention == default.attention
        ours = ours and m.mixer == default.mixer
        ours = ours and type(config.task).__module__.startswith("pcore.")
        return ours or _parts(config) in self.measured_parts


def _parts(config: TrialConfig) -> tuple[object, ...]:
    m = config.model
    return config.position.encoding, type(config.task), m.attention, m.mixer


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
