"""Which trials train together as one model, whether that is faster, and the loop that runs them.

Trials can be stacked if their forward pass is the same function on the same shapes (`stack_key`):
seeds of a cell, learning rates, starts, kinds of IDs. A stack is faster where a single model leaves
the device idle, as with many small kernels on a GPU. A probe decides on the training device.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from pcore.config import TrialConfig, trial_id
from pcore.evaluation.flops import count_example_flops
from pcore.training.stacked import Stack, StackKey, can_stack, stack_key
from pcore.training.train import Report, Run, learning_rate
from sweeps.engine.arithmetic import process_settings
from sweeps.engine.executors.base import Listener, Policy
from sweeps.engine.executors.news import News
from sweeps.engine.plan import PlannedTrial
from sweeps.engine.prices.price import PROBE_FLOPS, timed
from sweeps.engine.trial.attempt import Outcome, Settings, run_attempt
from sweeps.engine.trial.failures import cell_of
from sweeps.engine.trial.stacked_attempt import run_group

MAX_STACK = 16  # members of a stack that `auto` proposes
MIN_GAIN = 1.2  # times the throughput of one after another from which on `auto` stacks
PROBE_STEPS = 5


def form_stacks(
    pending: Sequence[PlannedTrial],
    settings: Settings,
    num_slots: int,
    measure: Callable[[Sequence[TrialConfig]], float],
) -> list[list[PlannedTrial]]:
    """Trials that train together, in the order of the first of each stack; most are alone.

    `auto` leaves no slot without work for the sake of a larger stack, and asks `measure` for the
    gain of one stack of every kind.
    """
    if settings.stack == 1:
        return [[planned] for planned in pending]
    kinds: dict[StackKey | str, list[PlannedTrial]] = {}
    for planned in pending:
        config = planned.trial.config
        kinds.setdefault(stack_key(config) if can_stack(config) else planned.trial.id, []).append(
            planned
        )
    stacks: list[list[PlannedTrial]] = []
    for alike in kinds.values():
        size = settings.stack
        if size == "auto":
            size = min(MAX_STACK, math.ceil(len(alike) / num_slots))
            configs = [planned.trial.config for planned in _cut(alike, size)[0]]
            size = size if size > 1 and measure(configs) >= MIN_GAIN else 1
        stacks += _cut(alike, size)
    order = {planned.trial.id: i for i, planned in enumerate(pending)}
    return sorted(stacks, key=lambda stack: order[stack[0].trial.id])


def _cut(trials: list[PlannedTrial], size: int) -> list[list[PlannedTrial]]:
    """Stacks of at most `size`, as equal as possible."""
    count = math.ceil(len(trials) / size)
    ends = [len(trials) * i // count for i in range(count + 1)]
    return [trials[a:b] for a, b in itertools.pairwise(ends)]


def measure_gain(configs: Sequence[TrialConfig], settings: Settings) -> float:
    """Training throughput of these trials as a stack, in multiples of one after another; 0 if they
    do not fit into memory together or cannot be batched.

    A few steps on the device, generation of examples included, evaluation not. Steps that by
    themselves keep a CPU busy for long are not tried: a stack of them could exhaust its memory.
    """
    device, compile, optim = settings.device, settings.compiled, configs[0].optim
    flops = 3 * optim.batch_size * count_example_flops(configs[0], configs[0].data.max_length)
    if device == "cpu" and flops > PROBE_FLOPS:
        return 0.0
    small = [_without_side_work(config) for config in configs]
    with process_settings(settings.num_threads):
        try:
            run = Run(small[0], device, compile)
            rate = learning_rate(optim, 0)
            stack = Stack([Run(config, device, compile) for config in small])

            def step_alone() -> object:
                return run.update(run.data.next_batch(), rate)

            def step_together() -> object:
                return stack.update(stack.rates())

            times: list[float] = []
            for step in (step_alone, step_together):
                step()  # warms up
                times.append(timed(step, PROBE_STEPS, device))
        except (RuntimeError, MemoryError):  # torch.OutOfMemoryError among them
            return 0.0
    alone, together = times
    return len(configs) * alone / together


def _without_side_work(config: TrialConfig) -> TrialConfig:
    """The trial without the example list and the held-out sets that a few steps do not need."""
    return dataclasses.replace(
        config,
        data=dataclasses.replace(config.data, num_examples=None),
        eval=dataclasses.replace(config.eval, checkpoints=("last",)),
    )


def run_stacks(
    stacks: Iterable[Sequence[TrialConfig]], settings: Settings, policy: Policy, listener: Listener
) -> None:
    """Run stacks one after another in this process, each trial to its end, until the slice is over.

    Finished trials come out as done, those that the policy stops as stopped.
    """
    news = News()

    def on_report(name: str, report: Report) -> None:
        if new := news.read(name, report):
            listener.advanced(name, new)

    for stack in stacks:
        started, paused = _pass_policy(stack, policy, listener), False
        for name in started:
            news.begin(name)
            listener.begin(name, len(started))
        if len(started) == 1:
            ((name, config),) = started.items()
            outcomes = iter([run_attempt(config, settings, partial(on_report, name))])
        else:
            outcomes = run_group(list(started.values()), settings, on_report, listener.say)
        for outcome in outcomes:
            cell = cell_of(started[outcome.trial_id])
            policy.record(cell, outcome.status, outcome.error)
            listener.finished(outcome)
            paused = paused or outcome.status == "paused"
        if paused:
            listener.say("the slice is over; the same command resumes")
            return


def _pass_policy(
    stack: Sequence[TrialConfig], policy: Policy, listener: Listener
) -> dict[str, TrialConfig]:
    """The trials of a stack that the policy lets start, by id; the others have ended."""
    started: dict[str, TrialConfig] = {}
    for config in stack:
        name = trial_id(config)
        if reason := policy.stop_reason(cell_of(config)):
            stopped = Outcome(trial_id=name, status="stopped", seconds=0.0, error=reason)
            listener.finished(stopped)
        else:
            started[name] = config
    return started
