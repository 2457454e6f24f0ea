"""Progress output of a sweep: one live line on a terminal, plain lines elsewhere."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Sequence

from pcore.cli.text import format_seconds
from sweeps.engine.plan import PlannedTrial, predict_wall
from sweeps.engine.trial.attempt import Outcome
from sweeps.engine.trial.failures import last_line
from sweeps.engine.trial.running import Observer, Running

SIGNS = {"ok": "ok", "done": "ok"}
LOOK = 2.0  # seconds between two looks at what runs
BUSY, QUIET = 5.0, 30.0  # seconds between states of the sweep in a log: after a trial, and without


class Progress:
    """Counts done / running / failed and predicts the time left. Its methods may be called from any
    thread.
    """

    def __init__(
        self,
        name: str,
        pending: Sequence[PlannedTrial],
        num_slots: int,
        on_finish: Callable[[Outcome], None],
        observer: Observer,
    ):
        self.name, self.num_slots, self.out = name, num_slots, sys.stdout
        self.on_finish, self.observer = on_finish, observer
        self.pending = {planned.trial.id: planned for planned in pending}
        self.running: dict[str, Running] = {}  # as of the last look
        self.outcomes: dict[str, Outcome] = {}
        self.reasons: set[str] = set()  # for which trials were stopped
        self.started, self.last_activity = time.monotonic(), time.monotonic()
        self.last_line = float("-inf")
        self.lock, self.closed = threading.RLock(), threading.Event()
        self.live = self.out.isatty()
        self.thread = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> "Progress":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closed.set()
        self.thread.join()
        if self.live:
            self._write("\r\x1b[2K")
        self._log(0)

    def finished(self, outcome: Outcome) -> None:
        """An attempt at a trial ended; print how in one line and call `on_finish`."""
        self._show(outcome)
        self.on_finish(outcome)

    def _show(self, outcome: Outcome) -> None:
        with self.lock:
            self.last_activity = time.monotonic()
            self.running.pop(outcome.trial_id, None)
            if outcome.trial_id in self.outcomes or outcome.trial_id not in self.pending:
                return
            self.outcomes[outcome.trial_id] = outcome
            trial = self.pending[outcome.trial_id].trial
            if outcome.status == "stopped" and not self._first_of(outcome):
                return
            if outcome.status == "held" and not outcome.error:  # another launch was faster
                return
            sign = SIGNS.get(outcome.status, outcome.status.upper())
            text = outcome.summary or last_line(outcome.error)
            took = format_seconds(outcome.seconds)
            self.say(f"  {sign:<8} {trial.name}  ({took})  {text}".rstrip())
            self._log(BUSY)

    def _first_of(self, outcome: Outcome) -> bool:
        """Whether this reason to stop is new: one message for all the trials that it stops."""
        new = outcome.error not in self.reasons
        self.reasons.add(outcome.error)
        return new

    def say(self, text: str) -> None:
        """Print a line above the live one."""
        with self.lock:
            self._write(f"\r\x1b[2K{text}\n" if self.live else f"{text}\n")

    def idle_seconds(self) -> float:
        """Since the last event if no trial is running, else 0."""
        with self.lock:
            return 0.0 if self.running else time.monotonic() - self.last_activity

    def line(self) -> str:
        """The state of the sweep in one line."""
        with self.lock:
            statuses = [outcome.status for outcome in self.outcomes.values()]
            done = sum(status in SIGNS for status in statuses)
            failed, total = len(statuses) - done - statuses.count("held"), len(self.pending)
            elapsed = format_seconds(time.monotonic() - self.started)
            left = self._seconds_left()
            about = f", about {format_seconds(left)} left" if left is not None else ""
            counts = f"{done}/{total} done, {len(self.running)} running, {failed} failed"
            return f"{self.name}: {counts}, {elapsed} so far{about}"

    def _seconds_left(self) -> float | None:
        """Predicted remaining seconds, corrected by the prediction errors so far."""
        price = {name: p.price.seconds for name, p in self.pending.items() if p.price}
        if len(price) < len(self.pending):
            return None
        predicted = sum(price[name] for name, o in self.outcomes.items() if o.status == "ok")
        actual = sum(o.seconds for o in self.outcomes.values() if o.status == "ok")
        for name, one in self.running.items():
            if one.share > 0.1:
                predicted += one.share * price[name]
                actual += one.curve[-1]["seconds"]
        ratio = actual / predicted if predicted > 0 else 1.0
        waiting = [
            p
            for name, p in self.pending.items()
            if name not in self.outcomes and name not in self.running
        ]
        running = [price[name] * (1 - one.share) for name, one in self.running.items()]
        total = sum(running) + sum(price[p.trial.id] for p in waiting)
        floor = max([*running, predict_wall(waiting, self.num_slots)])
        return ratio * max(total / self.num_slots, floor)

    def _tick(self) -> None:
        looked = float("-inf")
        while not self.closed.wait(0.5):
            if time.monotonic() - looked > LOOK:
                self._look()
                looked = time.monotonic()
            if self.live:
                self._write(f"\r\x1b[2K{self.line()}")
            self._log(QUIET)

    def _look(self) -> None:
        """What runs now, as the results folder says."""
        with contextlib.suppress(OSError):  # workers say so
            found = self.observer.look()
            with self.lock:
                mine = self.pending.keys() - self.outcomes.keys()
                self.running = {name: one for name, one in found.items() if name in mine}
                if self.running:
                    self.last_activity = time.monotonic()

    def _log(self, every: float) -> None:
        """Where there is no live line, the state of the sweep, at most once in `every` seconds."""
        with self.lock:
            if not self.live and time.monotonic() - self.last_line > every:
                self.last_line = time.monotonic()
                self._write(self.line() + "\n")

    def _write(self, text: str) -> None:
        with self.lock:
            self.out.write(text)
            self.out.flush()
