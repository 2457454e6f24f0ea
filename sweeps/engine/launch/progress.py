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
SILENCE = 60.0  # seconds without a sign of life until the progress line says so
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
        observer: Observer,
        describe_use: Callable[[], str],
    ):
        """describe_use: says why no trial runs, which Ray keeps silent about."""
        self.name, self.num_slots, self.out = name, num_slots, sys.stdout
        self.observer, self.describe_use = observer, describe_use
        self.pending = {planned.trial.id: planned for planned in pending}
        self.running: dict[str, Running] = {}  # as of the last look
        self.outcomes: dict[str, Outcome] = {}
        self.reasons: set[str] = set()  # for which trials were stopped
        self.started, self.last_activity = time.monotonic(), time.monotonic()
        self.last_line = self.complained = float("-inf")
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
        """An attempt at a trial ended; print how in one line."""
        with self.lock:
            self.last_activity = time.monotonic()
            self.running.pop(outcome.trial_id, None)
            self.outcomes[outcome.trial_id] = outcome
            if outcome.status == "stopped" and not self._first_of(outcome):
                return
            if outcome.status == "held" and not outcome.error:  # another launch was faster
                return
            sign = SIGNS.get(outcome.status, outcome.status.upper())
            text = outcome.summary or last_line(outcome.error)
            took = format_seconds(outcome.seconds)
            name = self.pending[outcome.trial_id].trial.name
            self._say(f"  {sign:<8} {name}  ({took})  {text}".rstrip())
            self._log(BUSY)

    def _first_of(self, outcome: Outcome) -> bool:
        """Whether this reason to stop is new: one message for all the trials that it stops."""
        new = outcome.error not in self.reasons
        self.reasons.add(outcome.error)
        return new

    def _say(self, text: str) -> None:
        """Print a line above the live one."""
        with self.lock:
            self._write(f"\r\x1b[2K{text}\n" if self.live else f"{text}\n")

    def line(self) -> str:
        """The state of the sweep in one line."""
        with self.lock:
            statuses = [outcome.status for outcome in self.outcomes.values()]
            done = sum(status in SIGNS for status in statuses)
            failed, total = len(statuses) - done - statuses.count("held"), len(self.pending)
            elapsed = time.monotonic() - self.started
            left = self._seconds_left(elapsed)
            about = f", about {format_seconds(left)} left" if left is not None else ""
            counts = f"{done}/{total} done, {len(self.running)} running, {failed} failed"
            return f"{self.name}: {counts}, {format_seconds(elapsed)} so far{about}"

    def _seconds_left(self, elapsed: float) -> float | None:
        """If the rest goes on as what is done, where prices say how much that is."""
        price = {name: p.price.seconds for name, p in self.pending.items() if p.price}
        if len(price) < len(self.pending):
            return None
        shares = dict.fromkeys(self.outcomes, 1.0)
        shares |= {name: one.share for name, one in self.running.items()}
        done = sum(share * price[name] for name, share in shares.items())
        if done < 0.1 * max(price.values()):  # too early to tell
            return predict_wall(list(self.pending.values()), self.num_slots)
        return elapsed * (sum(price.values()) / done - 1)

    def _tick(self) -> None:
        looked = float("-inf")
        while not self.closed.wait(0.5):
            if time.monotonic() - looked > LOOK:
                self._look()
                self._complain()
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

    def _complain(self) -> None:
        """Say once in a while that nothing moves."""
        now = time.monotonic()
        silent = 0.0 if self.running else now - self.last_activity
        if silent > SILENCE and now - self.complained > SILENCE:
            self.complained = now
            self._say(f"no trial could be placed for {silent:.0f} s; {self.describe_use()}")

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
