"""Who runs a trial, and how far it has come: RESULTS/running/<trial_id>.json.

The file is there from the start of an attempt to its end. Its owner writes it anew every few
seconds, with the training curve and the lengths evaluated so far; whatever shows running trials
(the progress line, hooks, `status`, MLflow) reads it, and nothing else.
"""

import json
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sweeps.engine.store.folder import Folder
from sweeps.engine.store.names import KINDS
from sweeps.engine.store.store import Store
from sweeps.engine.trial.processes import Process, this_process

BEAT = 5.0  # seconds between two versions of the file
PATIENCE = 30.0  # seconds without a new one after which a process of another machine is dead
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Running:
    """The current attempt at a trial. Clocks of machines are never compared: `beat` counts."""

    trial_id: str
    process: Process
    launch: str
    started_at: str  # UTC, ISO 8601
    beat: int
    config: Mapping[str, Any]  # flat
    curve: tuple[Row, ...]  # the columns `schema.REPORT`, of attempts before it too
    results: tuple[Row, ...]  # checkpoint, length, second_length, range, num_correct, num_examples

    @property
    def attempt(self) -> str:
        """Tells attempts at one trial apart."""
        return f"{self.started_at} {self.process.host} {self.process.pid} {self.process.born}"

    @property
    def step(self) -> int:
        return self.curve[-1]["step"] if self.curve else 0

    @property
    def share(self) -> float:
        """Share of training steps done, 0 to 1."""
        return self.step / self.config["optim.num_steps"] if self.step else 0.0


@contextmanager
def running(
    folder: Folder, name: str, launch: str, tell: Callable[[], Mapping[str, Any]]
) -> Generator[None]:
    """Keep the file of an attempt up to date until the end of the block. tell: its `config`,
    `curve` and `results` so far; called from another thread.
    """
    file, now = file_name(name), datetime.now(UTC).isoformat(timespec="seconds")
    owner = {"process": this_process().as_dict(), "launch": launch, "started_at": now}

    def write(beat: int) -> None:
        facts = json.dumps(owner | {"beat": beat, **tell()}).encode()
        folder.write(file, facts, durable=False)

    def beat() -> None:
        count = 0
        while not ended.wait(BEAT):
            count += 1
            with suppress(OSError):  # a full disk does not end an attempt
                write(count)

    ended, thread = threading.Event(), threading.Thread(target=beat, daemon=True)
    write(0)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        folder.delete(file)


def read_running(folder: Folder, name: str) -> Running | None:
    """The attempt that a file in `running/` tells of; None if it is gone or damaged."""
    found = KINDS["marker"].fullmatch(name)
    try:
        saved = json.loads(folder.read(name))
        return Running(
            trial_id=found["trial"] if found else "",
            process=Process.of(saved["process"]),
            launch=str(saved["launch"]),
            started_at=str(saved["started_at"]),
            beat=int(saved.get("beat", 0)),
            config=dict(saved.get("config", {})),
            curve=tuple(saved.get("curve", ())),
            results=tuple(saved.get("results", ())),
        )
    except (FileNotFoundError, ValueError, TypeError, LookupError):
        return None


class Observer:
    """Sees which trials of a results folder run, and which attempts are dead."""

    def __init__(self, folder: Folder):
        self.folder = folder
        self.seen: dict[str, tuple[str, int, float]] = {}  # attempt, beat, since when

    def look(self) -> dict[str, Running]:
        """The attempts that run, by trial id: all but those known to be dead. The process of
        another machine is, if it was not heard of for PATIENCE seconds of our clock.
        """
        read = (read_running(self.folder, entry.name) for entry in self.folder.list("running"))
        found = {one.trial_id: one for one in read if one is not None}
        self.seen = {name: facts for name, facts in self.seen.items() if name in found}
        return {name: one for name, one in found.items() if not self._is_dead(one)}

    def _is_dead(self, one: Running) -> bool:
        if (gone := one.process.is_gone()) is not None:
            return gone
        now, heard = time.monotonic(), (one.attempt, one.beat)
        *before, since = self.seen.get(one.trial_id, (*heard, now))
        if tuple(before) != heard:
            since = now
        self.seen[one.trial_id] = (*heard, since)
        return now - since > PATIENCE


def running_trials(store: Store) -> dict[str, Running]:
    """The attempts that run now, by trial id."""
    found = Observer(store.folder).look()
    ended = {shard.trial_id for shard in store.visible_of(found) if shard.finished}
    return {name: one for name, one in found.items() if name not in ended}


def file_name(name: str) -> str:
    """The file of the attempt that runs this trial."""
    return f"running/{name}.json"
