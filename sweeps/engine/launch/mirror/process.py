"""The mirror process: reads events of a launch as JSON lines on standard input.

    {"target": ..., "shown": [...]}                            first
    {"time": ms, "start": ID, "config": {...}, "label": CELL}  an attempt begins
    {"time": ms, "report": ID, "points": [[NAME, VALUE, STEP], ...]}
    {"time": ms, "finish": ID, "status": STATUS}
    {"time": ms, "close": [FOLDER, ...], "labels": [...]}      last

Its output is a line per progress report, then what went wrong.

If the server fails, the process retries from time to time and once more at the end, when it reads
everything missing from the store. Input that ends without the last line means that the launch died.
"""

import contextlib
import fcntl
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pcore.cli.parser import first_line
from sweeps.engine.launch.leases import LaunchLease
from sweeps.engine.launch.mirror.target import Shown, Target, stamp
from sweeps.engine.launch.mirror.tracking import Experiment, connect
from sweeps.engine.store.store import Shard, Store

NICENESS = 5  # trials come first
TICK = 0.25  # seconds between two looks for something to send
RETRY_SECONDS = 30.0  # until a server that failed is asked again
SAVE_SECONDS = 2.0  # how often at most is noted what was mirrored
WITHOUT_ROWS = ("paused", "unsaved", "stopped")  # outcomes that leave no shard


class Mirrored:
    """The sweeps of an MLflow target, as far as MLflow shows them."""

    def __init__(
        self, target: Target, shown: Sequence[Shown], tick: Callable[[], None] = lambda: None
    ):
        """tick: called whenever something came to its end."""
        self.target, self.shown, self.store = target, shown, Store(target.results)
        self.tick = tick
        self.experiments: list[Experiment] = []
        self.notes = {one.view: target.read_notes(one.view) for one in shown}
        self.changed, self.saved = set[str](), time.monotonic()

    def open(self) -> list[Experiment]:
        """Connect, unless that was done."""
        if not self.experiments:
            client = connect(self.target.uri)
            self.tick()
            self.experiments = [Experiment(client, s, self.store, self.target) for s in self.shown]
        return self.experiments

    def write(self, experiment: Experiment, name: str, shard: Shard, force: bool = False) -> bool:
        """Show the visible shard of a trial; False if it is already shown."""
        shown = self.notes[experiment.shown.view].get(name) == shard.name
        if name not in experiment.shown.labels:
            return False
        if shown and not force and name not in experiment.running:
            return False
        experiment.write(name, shard, force)
        self.tick()
        self._note(experiment.shown.view, name, shard.name)
        return True

    def complete(self, artifacts: Sequence[Path], live: bool, force: bool = False) -> None:
        """Show what is missing of all sweeps, and their reports; trials held by another launch are
        left to it. force: also rewrite what is there.
        """
        with self._alone():
            busy = LaunchLease(self.store.folder).held_by_others()
            visible = {n: shard for n, shard in self.store.visible().items() if n not in busy}
            for experiment, folder in zip(self.open(), artifacts, strict=True):
                view, files = experiment.shown.view, stamp(folder)
                names = [name for name in experiment.shown.labels if name in visible]
                new = [n for n in names if self.write(experiment, n, visible[n], force)]
                if live or new or self.notes[view].get("artifacts") != files:
                    experiment.finish(folder, live)
                    self._note(view, "artifacts", files)
            self.save()

    @contextlib.contextmanager
    def _alone(self) -> Generator[None]:
        """A lock: two processes that complete one database would add the same trial twice."""
        if self.target.database is None:
            yield
            return
        self.target.database.parent.mkdir(parents=True, exist_ok=True)
        with open(f"{self.target.database}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _note(self, view: str, name: str, text: str) -> None:
        self.notes[view][name] = text
        self.changed.add(view)
        if time.monotonic() - self.saved > SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        """Save the notes of what was mirrored."""
        for view in self.changed:
            self.target.write_notes(view, self.notes[view])
        self.changed, self.saved = set(), time.monotonic()


class Follower:
    """Follows a launch. problem: what went wrong last, until it went well again."""

    def __init__(self, target: Target, shown: Sequence[Shown]):
        self.mirrored = Mirrored(target, shown, _give_sign)
        self.live: dict[str, tuple[Mapping[str, Any], int]] = {}  # configuration, start
        self.problem, self.quiet_until = "", float("-inf")

    def follow(self, events: "queue.SimpleQueue[str | None]") -> str:
        """Until the launch is over; what went wrong."""
        while True:
            try:
                line = events.get(timeout=TICK)
            except queue.Empty:
                self._attempt(self._send)
                continue
            if line is None:
                self._attempt(self._kill)
                return self.problem
            event = json.loads(line)
            if "close" in event:
                self.quiet_until = float("-inf")
                for shown, labels in zip(self.mirrored.shown, event["labels"], strict=True):
                    shown.labels.update(labels)  # a search has more than at its start
                self._attempt(self._complete, [Path(folder) for folder in event["close"]])
                self.mirrored.save()
                return self.problem
            self._remember(event)
            self._attempt(self._handle, event)
            self._attempt(self._send)

    def _remember(self, event: Mapping[str, Any]) -> None:
        if "start" in event:
            self.live[event["start"]] = (event["config"], event["time"])
            for shown in self.mirrored.shown:
                if shown.search:
                    shown.labels[event["start"]] = event["label"]
        elif "finish" in event:
            self.live.pop(event["finish"], None)

    def _attempt(self, act: Callable[..., object], *arguments: Any) -> None:
        """Do this unless the server failed a moment ago."""
        if time.monotonic() < self.quiet_until:
            return
        try:
            act(*arguments)
            self.problem = ""
        except Exception as error:  # whatever the tracking server does
            self.problem = f"{type(error).__name__}: {first_line(error)[:200]}"
            self.mirrored.experiments = []
            self.quiet_until = time.monotonic() + RETRY_SECONDS

    def _handle(self, event: Mapping[str, Any]) -> None:
        now = event["time"]
        if not self.mirrored.experiments:
            self._begin()
            if "start" in event:
                return  # it is among those that run
        for experiment in self.mirrored.experiments:
            if "start" in event:
                experiment.start(event["start"], event["config"], now)
            elif "report" in event:
                experiment.report(event["report"], event["points"], now)
            elif event["status"] in WITHOUT_ROWS:
                experiment.stop(event["finish"], event["status"], now)
            elif shard := self.mirrored.store.visible_shard(event["finish"]):
                self.mirrored.write(experiment, event["finish"], shard)

    def _begin(self) -> None:
        """Connect, and show what runs now."""
        busy = LaunchLease(self.mirrored.store.folder).held_by_others()
        for experiment in self.mirrored.open():
            experiment.open(busy)
            for name, (config, start) in self.live.items():
                experiment.start(name, config, start)

    def _send(self) -> None:
        for experiment in self.mirrored.experiments:
            experiment.send()

    def _kill(self) -> None:
        for experiment in self.mirrored.experiments:
            experiment.kill(int(1000 * time.time()))

    def _complete(self, artifacts: Sequence[Path]) -> None:
        self.mirrored.complete(artifacts, live=True)


def _give_sign() -> None:
    """Of life, to a launch that may be dead."""
    with contextlib.suppress(OSError):
        print(flush=True)


def main() -> int:
    """Follow the launch at the other end of the pipe."""
    os.nice(NICENESS)
    events: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def listen() -> None:  # always, so that the launch never waits to be heard
        for line in sys.stdin:
            events.put(line)
        events.put(None)

    threading.Thread(target=listen, daemon=True).start()
    head = json.loads(events.get() or "{}")
    if head:
        follower = Follower(Target(**head["target"]), [Shown(**one) for one in head["shown"]])
        print(follower.follow(events), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
