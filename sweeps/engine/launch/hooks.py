"""Hooks: user code that a launch notifies while it runs.

A hook is a class derived from `Hook`, named on the command line (`--hook my_hooks:Telegram`) or
given to `run_sweeps`. Each runs in its own thread of the launching process: a slow hook delays
neither trials nor other hooks, and an exception in one is reported once and stops nothing.
"""

import math
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pcore.cli.parser import find_own_code
from pcore.registry import describe_error, resolve
from sweeps.engine.executors.news import TrialReport
from sweeps.engine.plan import Plan
from sweeps.engine.spec import Trial
from sweeps.engine.store.store import Store
from sweeps.engine.trial.attempt import Outcome

NOTIFY_SECONDS = 60.0  # that the command of --notify may take


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """One command that runs trials: its sweeps and options, and where results go."""

    plans: Sequence[Plan]  # one per sweep
    store: Store

    @property
    def title(self) -> str:
        return ", ".join(f"{plan.sweep.name} [{plan.scale}]" for plan in self.plans)


class Hook:
    """The base class of hooks; override the methods you need. They are called one after another.

    All of it happens in the process that launched. `trial.cell.label`, `trial.config` and
    `trial.id` say which trial it is; `outcome.status` is that of its rows, or unsaved,
    stopped, done.
    """

    patience = 70.0  # seconds it may take to finish after the last trial

    def on_launch(self, launch: Launch) -> None:
        """Before the first trial, even if there is none to run."""

    def on_start(self, trial: Trial) -> None:
        """An attempt at a trial starts."""

    def on_report(self, trial: Trial, report: TrialReport) -> None:
        """A running trial has a new loss, or exact match at new lengths."""

    def on_finish(self, trial: Trial, outcome: Outcome) -> None:
        """The attempt ended and its rows are stored; a lost one may be followed by another."""

    def on_end(self, launch: Launch, code: int | None) -> None:
        """After tables are drawn. code: the exit code; None if the launch was aborted."""


class Hooks:
    """Passes events to every hook; no method raises, and only `close` waits."""

    def __init__(self, hooks: Sequence[Hook]):
        self.listeners = [_Listener(hook) for hook in hooks]

    def tell(self, call: Callable[[Hook], None]) -> None:
        """Call this method of each hook, in the hook's thread."""
        for listener in self.listeners:
            listener.queue.put(call)

    def close(self, patience: float = math.inf) -> None:
        """Wait until the hooks have handled every event; those that take too long are abandoned."""
        for listener in self.listeners:
            listener.queue.put(None)
        began = time.monotonic()
        for listener in self.listeners:
            seconds = min(patience, listener.hook.patience)
            left = began + seconds - time.monotonic()
            listener.thread.join(min(max(0.0, left), threading.TIMEOUT_MAX))
            if listener.thread.is_alive():
                _say(f"hook {listener.name} took longer than {seconds:.0f} s and was abandoned")


class _Listener:
    """A hook and its thread."""

    def __init__(self, hook: Hook):
        self.hook, self.name, self.failed = hook, type(hook).__name__, False
        self.queue: queue.SimpleQueue[Callable[[Hook], None] | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self) -> None:
        while (call := self.queue.get()) is not None:
            try:
                call(self.hook)
            except Exception as error:  # of a user's own code: the sweep goes on
                if not self.failed:
                    _say(f"hook {self.name}: {describe_error(error)} (reported once)")
                self.failed = True


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


class Notify(Hook):
    """Runs a shell command when a launch is over (`--notify`), however it ended.

    The command gets $PCORE_SWEEPS (names and scales), $PCORE_EXIT_CODE (empty if the launch was
    aborted) and $PCORE_SUMMARY (a readable sentence).
    """

    def __init__(self, command: str):
        self.command, self.statuses = command, dict[str, str]()

    def on_finish(self, trial: Trial, outcome: Outcome) -> None:
        self.statuses[trial.id] = outcome.status

    def on_end(self, launch: Launch, code: int | None) -> None:
        ended = list(self.statuses.values())
        ok = sum(status in ("ok", "done") for status in ended)
        how = {0: "finished", None: "broke off"}.get(code, "ended with unfinished trials")
        summary = f"{launch.title}: {how}; {ok} of {len(ended)} trials of this launch are ok"
        told = {
            "SWEEPS": launch.title,
            "EXIT_CODE": "" if code is None else str(code),
            "SUMMARY": summary,
        }
        variables = os.environ | {f"PCORE_{name}": text for name, text in told.items()}
        subprocess.run(self.command, shell=True, check=True, env=variables, timeout=NOTIFY_SECONDS)
