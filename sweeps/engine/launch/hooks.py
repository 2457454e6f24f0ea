"""Hooks: user code that is told what happens to the trials of a launch.

A hook is a class derived from `Hook`, named on the command line (`--hook my_hooks:Telegram`). Each
runs in its own thread of the launching process, which looks at the results folder again and again:
a slow hook delays neither trials nor other hooks, and an exception in one is reported once and
stops nothing.
"""

import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import get_args

from pcore.cli.parser import find_own_code
from pcore.registry import describe_error, resolve
from sweeps.engine.plan import Plan
from sweeps.engine.spec import Trial
from sweeps.engine.store.names import Shard
from sweeps.engine.store.schema import REPORT, Record
from sweeps.engine.store.store import Store
from sweeps.engine.trial.attempt import Outcome, outcome_of
from sweeps.engine.trial.running import Observer, Row

UNTRAINED: Row = dict.fromkeys(REPORT, 0) | {"loss": math.nan}  # a constructed model
LOOK = 2.0  # seconds between two looks at the results folder


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """Exact match at one length, under one checkpoint policy."""

    checkpoint: str  # policy
    length: int
    second_length: int | None
    range: str  # train, near, test
    num_correct: int
    num_examples: int

    @property
    def curve(self) -> str:
        """The name of the curve over lengths that it is of: "last", with a second one "last_3"."""
        return self.checkpoint + (f"_{self.second_length}" if self.second_length else "")


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialReport:
    """The progress of a running trial."""

    step: int
    num_steps: int
    loss: float  # mean training loss since the report before, nats per target
    learning_rate: float
    grad_norm: float  # before clipping
    seconds: float  # in training steps so far, of this attempt
    measured: tuple[Measured, ...] = ()  # lengths measured since the report before


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """One command that runs trials: its sweeps and options, and where results go."""

    plans: Sequence[Plan]  # one per sweep
    store: Store

    @property
    def title(self) -> str:
        return ", ".join(f"{plan.sweep.name} [{plan.scale}]" for plan in self.plans)


class Hook:
    """The base class of hooks; override the methods you need. They are called one after another,
    some seconds after what they tell of.

    All of it happens in the process that launched. `trial.cell.label`, `trial.config` and
    `trial.id` say which trial it is; `outcome.status` is that of its rows, or interrupted.
    """

    patience = 70.0  # seconds it may take to finish after the last trial

    def on_launch(self, launch: Launch) -> None:
        """Before the first trial, even if there is none to run."""

    def on_start(self, trial: Trial) -> None:
        """An attempt at a trial starts."""

    def on_report(self, trial: Trial, report: TrialReport) -> None:
        """A running trial has a new loss, or exact match at new lengths."""

    def on_finish(self, trial: Trial, outcome: Outcome) -> None:
        """The attempt ended; a lost or interrupted one may be followed by another."""

    def on_end(self, launch: Launch, code: int | None) -> None:
        """After tables are drawn. code: the exit code; None if the launch was aborted."""


class Hooks:
    """The hooks of a launch, each in its thread; no method raises, and only `close` waits."""

    def __init__(self, launch: Launch, hooks: Sequence[Hook]):
        self.listeners = [_Listener(launch, hook) for hook in hooks]

    def close(self, code: int | None, patience: float = math.inf) -> None:
        """The launch is over: wait until the hooks have heard of everything; those that take too
        long are abandoned.
        """
        for listener in self.listeners:
            listener.code = code
            listener.over.set()
        began = time.monotonic()
        for listener in self.listeners:
            seconds = min(patience, listener.hook.patience)
            left = began + seconds - time.monotonic()
            listener.thread.join(min(max(0.0, left), threading.TIMEOUT_MAX))
            if listener.thread.is_alive():
                _say(f"hook {listener.name} took longer than {seconds:.0f} s and was abandoned")


class _Listener:
    """A hook and its thread."""

    def __init__(self, launch: Launch, hook: Hook):
        self.launch, self.hook, self.name, self.failed = launch, hook, type(hook).__name__, False
        self.store = Store(launch.store.root)  # its own: stores are not shared between threads
        self.observer = Observer(self.store.folder)
        self.known = {shard.name for shard in self.store.shards()}  # what was there is no news
        self.begun: dict[str, str] = {}  # the attempt that the hook knows of, by trial
        self.told: dict[str, tuple[int, int]] = {}  # last step and number of lengths, by trial
        self.code: int | None = None
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self) -> None:
        self._call(lambda hook: hook.on_launch(self.launch))
        over = False
        while not over:
            over = self.over.wait(LOOK)
            self._call(lambda hook: self._look())
        self._call(lambda hook: hook.on_end(self.launch, self.code))

    def _call(self, call: Callable[[Hook], None]) -> None:
        try:
            call(self.hook)
        except Exception as error:  # of a user's own code: the sweep goes on
            if not self.failed:
                _say(f"hook {self.name}: {describe_error(error)} (reported once)")
            self.failed = True

    def _look(self) -> None:
        """Tell the hook what has changed, an end before a new start. Of an attempt that was over
        between two looks only its shard is seen, which has all that it reported.
        """
        trials = {p.trial.id: p.trial for plan in self.launch.plans for p in plan.trials}
        running = self.observer.look()  # before the shards: what ends in between is seen twice
        new = [shard for shard in self.store.shards() if shard.name not in self.known]
        self.known.update(shard.name for shard in new)
        for shard in new:
            if shard.trial_id in trials:
                self._end(trials[shard.trial_id], shard)
        for name in trials.keys() & running.keys() - {shard.trial_id for shard in new}:
            one = running[name]
            if self.begun.get(name, one.attempt) != one.attempt:
                self._interrupt(trials[name])
            self._begin(trials[name], one.attempt)
            self._report(trials[name], one.curve, one.results)
        for name in self.begun.keys() - running.keys():
            self._interrupt(trials[name])

    def _begin(self, trial: Trial, attempt: str) -> None:
        if trial.id not in self.begun:
            self._call(lambda hook: hook.on_start(trial))
        self.begun[trial.id] = attempt

    def _report(self, trial: Trial, curve: Sequence[Row], results: Sequence[Row]) -> None:
        """What it has reported since the hook last heard of it."""
        last, count = self.told.get(trial.id, (-1, 0))
        self.told[trial.id] = (curve[-1]["step"] if curve else last, len(results))
        facts = [{key: row[key] for key in REPORT} for row in curve]
        new = [row for row in facts if row["step"] > last]
        if measured := [
            Measured(**{f.name: row[f.name] for f in fields(Measured)}) for row in results[count:]
        ]:
            new.append({**(facts[-1] if facts else UNTRAINED), "measured": tuple(measured)})
        for row in new:
            report = TrialReport(num_steps=trial.config.optim.num_steps, **row)
            self._call(lambda hook, report=report: hook.on_report(trial, report))

    def _end(self, trial: Trial, shard: Shard) -> None:
        self._begin(trial, self.begun.get(trial.id, ""))
        rows = self.store.load_shards([shard]).to_pylist()
        of = {kind: [row for row in rows if row["record"] == kind] for kind in get_args(Record)}
        self._report(trial, of["report"], of["evaluation"])
        (head,) = of["trial"]
        self._finish(trial, outcome_of(trial.id, head, of["evaluation"]))

    def _interrupt(self, trial: Trial) -> None:
        self._finish(trial, Outcome(trial_id=trial.id, status="interrupted", seconds=0.0))

    def _finish(self, trial: Trial, outcome: Outcome) -> None:
        self.begun.pop(trial.id)
        self._call(lambda hook: hook.on_finish(trial, outcome))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def load_hook(name: str) -> Hook:
    """The hook of `package.module:Class`, made without arguments; own code may lie in the working
    directory.

    Raises ValueError in a sentence.
    """
    if ":" not in name:
        raise ValueError(f"--hook {name!r} is not package.module:Class")
    find_own_code()
    cls = resolve(name, {"Hook": Hook}, "--hook")
    try:
        return cls()
    except Exception as error:  # own code may raise anything
        raise ValueError(f"--hook {name!r}: {type(error).__name__}: {error}") from error
