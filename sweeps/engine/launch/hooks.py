"""Hooks: user code that is told what happens to the trials of a launch.

A hook is a class derived from `Hook`, named on the command line (`--hook my_hooks:Telegram`) or
given to `run_sweeps`. Each runs in its own thread of the launching process and reads the results
folder (see `watch`): a slow hook delays neither trials nor other hooks, and an exception in one is
reported once and stops nothing.
"""

import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pcore.cli.parser import find_own_code
from pcore.registry import describe_error, resolve
from sweeps.engine.launch.watch import Change, Reports, TrialReport, Watch
from sweeps.engine.plan import Plan
from sweeps.engine.spec import Trial
from sweeps.engine.store.store import Store
from sweeps.engine.trial.attempt import Outcome

__all__ = ["Hook", "Hooks", "Launch", "TrialReport", "load_hook"]

LOOK = 2.0  # seconds between two looks at the results folder


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
        store = Store(launch.store.root)  # its own: stores are not shared between threads
        self.watch, self.reports = Watch(store), Reports(store)
        self.begun: dict[str, str] = {}  # the attempt that the hook knows of, by trial
        self.code: int | None = None
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self) -> None:
        self._call(lambda hook: hook.on_launch(self.launch))
        over = False
        while not over:
            over = self.over.wait(LOOK)
            self._call(lambda hook: self._pass_on())
        self._call(lambda hook: hook.on_end(self.launch, self.code))

    def _call(self, call: Callable[[Hook], None]) -> None:
        try:
            call(self.hook)
        except Exception as error:  # of a user's own code: the sweep goes on
            if not self.failed:
                _say(f"hook {self.name}: {describe_error(error)} (reported once)")
            self.failed = True

    def _pass_on(self) -> None:
        """Tell the hook what has changed, each attempt from its start on."""
        trials = {p.trial.id: p.trial for plan in self.launch.plans for p in plan.trials}
        for change in self.watch.look():
            if trial := trials.get(change.trial_id):
                self._tell(trial, change)

    def _tell(self, trial: Trial, change: Change) -> None:
        attempt = change.running.attempt if change.running else self.begun.get(trial.id, "unseen")
        if self.begun.get(trial.id) != attempt:
            self.begun[trial.id] = attempt
            self._call(lambda hook: hook.on_start(trial))
        for report in self.reports.read(change):
            self._call(lambda hook, report=report: hook.on_report(trial, report))
        if change.running is None:
            self.begun.pop(trial.id)
            outcome = self._outcome(change)
            self._call(lambda hook: hook.on_finish(trial, outcome))

    def _outcome(self, change: Change) -> Outcome:
        if change.shard is None:
            return Outcome(trial_id=change.trial_id, status="interrupted", seconds=0.0)
        columns = ["status", "error", "wall_seconds", "first_step"]
        (row,) = self.reports.store.load_shards([change.shard], "trial", columns).to_pylist()
        return Outcome(
            trial_id=change.trial_id,
            status=row["status"],
            seconds=row["wall_seconds"] or 0.0,
            first_step=row["first_step"] or 0,
            error=row["error"] or "",
        )


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
