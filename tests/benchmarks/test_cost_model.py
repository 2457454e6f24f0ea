"""How well measured cells predict one another: `pytest -m benchmark -s` on this file.

Once from the published laptop rows (`-k published`), beside how much equal trials there differ;
once from NUM_SHAPES training steps, drawn from all sweeps at laptop scale and timed now
(`-k timed`) in CPU seconds of one thread, which other work on the machine changes little.
"""

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import pytest

from pcore.config import OWN_CODE, TrialConfig, override
from pcore.flops import count_train_flops
from pcore.training import Run, learning_rate
from sweeps.commands.catalogue import find_sweep, sweep_names
from sweeps.engine.arithmetic import process_settings
from sweeps.engine.prices.measured import (
    Measured,
    Step,
    _step,
    read_measured,
    step_of,
    typical_seconds,
)
from sweeps.engine.prices.price import count_close, cross_validate, describe_ratios
from sweeps.engine.store.store import Store

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]
PUBLISHED = "results/published/laptop"
HOURS = 3.0  # after which other work on the machine is taken to be another
NUM_SHAPES = 40
NUM_STEPS = 15


def test_published_cells_are_predicted_from_others_alike(capsys):
    """More than half of them within 30 %."""
    ratios = cross_validate(list(read_measured(Store(PUBLISHED), "cpu", local=False).values()))
    with capsys.disabled():
        print(f"\npublished cells, from others alike: {describe_ratios(ratios)}")
    assert count_close(ratios) > 0.5 * len(ratios)


def test_published_trials_with_equal_steps_differ(capsys):
    """Each trial predicted from those with the same training step: what no count of operations can
    explain.
    """
    columns = ["started_at", "first_step", "train_seconds", "train_flops", "optim.num_steps"]
    table = Store(PUBLISHED).load(record="trial", columns=[*columns, *OWN_CODE])
    rows = [row for row in table.to_pylist() if row["train_seconds"] and not row["first_step"]]
    with capsys.disabled():
        for hours in (0.0, HOURS):
            text = describe_ratios(_repeat(rows, hours))
            print(f"\npublished trials, from equal steps {hours:.0f} h apart or more: {text}")


def _repeat(rows: Sequence[Mapping[str, Any]], hours: float) -> list[float]:
    """Seconds of a training step of each trial over the median of others with the same step that
    started at least so many hours before or after it.
    """
    by_step: dict[Step, list[tuple[datetime, float]]] = {}
    for row in rows:
        seconds = row["train_seconds"] / row["optim.num_steps"]
        times = datetime.fromisoformat(row["started_at"]), seconds
        by_step.setdefault(_step(row), []).append(times)
    ratios: list[float] = []
    for trials in by_step.values():
        for i, (start, seconds) in enumerate(trials):
            others = [
                other
                for j, (begin, other) in enumerate(trials)
                if i != j and abs((begin - start).total_seconds()) >= 3600 * hours
            ]
            if others:
                ratios.append(seconds / statistics.median(others))
    return ratios


def draw_configs() -> list[TrialConfig]:
    """Configurations no two of which are equal in the operations of their training step."""
    cells = [cell.config for name in sweep_names() for cell in find_sweep(name).cells("laptop")]
    cells = [override(c, {"data.num_examples": None}) for c in cells if c.model.kind == "trained"]
    by_step = {step_of(config).operations: config for config in cells}
    return [by_step[step] for step in random.Random(0).sample(sorted(by_step), NUM_SHAPES)]


def cpu_seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def measure(config: TrialConfig) -> Measured:
    """A trial whose steps all take as long as a few of them, without its evaluation."""
    run, rate = Run(config, "cpu"), learning_rate(config.optim, 0)

    def steps(count: int) -> None:
        for _ in range(count):
            run.update(run.data.next_batch(), rate)

    steps(2)
    count = config.optim.num_steps
    training = count * cpu_seconds(lambda: steps(NUM_STEPS)) / NUM_STEPS
    return Measured(
        seconds=training,
        slowness=training / typical_seconds(count, count_train_flops(config)),
        step=step_of(config),
    )


def test_shapes_timed_now_are_predicted_from_others_alike(capsys):
    """Two of three are within 30 %."""
    with process_settings(num_threads=1):  # as in an attempt
        ratios = cross_validate([measure(config) for config in draw_configs()])
    with capsys.disabled():
        print(f"\n{NUM_SHAPES} shapes timed now, from others alike: {describe_ratios(ratios)}")
    assert 3 * count_close(ratios) >= 2 * len(ratios)
