"""Who runs a trial, and how far it has come: RESULTS/running/<trial_id>-<8 digits>.json.

The file is there from the start of an attempt to its end: it claims the trial. Whoever wants to run
a trial writes a file and only then reads those of others, so if two start at once, at least one
sees the other; who sees a living one withdraws and comes back later. The owner writes it anew every
few seconds, with the training curve and the lengths evaluated so far; whatever shows running trials
(the progress line, hooks, `status`, MLflow) reads it, and nothing else.

Clocks of machines are never compared: a process of another machine is dead once its file has not
changed for PATIENCE seconds of *our* clock. The storage must show a finished write to all readers
(local disk, NFS with closed files, S3).
"""

import json
import threading
import time
import uuid
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from sweeps.engine.store.folder import Folder, parse_json
from sweeps.engine.store.names import KINDS
from sweeps.engine.store.store import Store
from sweeps.engine.trial.processes import Process, this_process

BEAT = 5.0  # seconds between two versions of the file
PATIENCE = 30.0  # seconds without a new one after which a process of another machine is dead
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Running:
    """An attempt at a trial, as its file tells. beat: counts versions of the file."""

    file: str
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
    def owner(self) -> str:
        """Who runs it, for people."""
        return f"process {self.process.pid} on {self.process.host}"

    @property
    def step(self) -> int:
        return self.curve[-1]["step"] if self.curve else 0

    @property
    def share(self) -> float:
        """Share of training steps done, 0 to 1."""
        return self.step / self.config["optim.num_steps"] if self.step else 0.0


class Taken(Exception):
    """Somebody else runs the trial."""


@contextmanager
def running(
    folder: Folder,
    name: str,
    launch: str,
    tell: Callable[[], Mapping[str, Any]],
    dead: Collection[str] = (),
) -> Generator[tuple[Sequence[Running], threading.Event]]:
    """Claim a trial and keep the file up to date until the end of the block. Gives the earlier
    attempts, which died, and an event: somebody considered this one dead and removed its file, or
    asks for its end. Raises Taken.

    tell: its `config`, `curve` and `results` so far; called from another thread. dead: files of
    processes of other machines that are known to be; those of the same launch are if another
    attempt starts.
    """
    file, now = f"running/{name}-{uuid.uuid4().hex[:8]}.json", datetime.now(UTC)
    owner = {"process": asdict(this_process()), "launch": launch}
    owner |= {"started_at": now.isoformat(timespec="seconds")}

    def write(beat: int) -> None:
        facts = json.dumps(owner | {"beat": beat, **tell()}).encode()
        folder.write(file, facts, durable=False)

    def beat() -> None:
        count = 0
        while not ended.wait(BEAT):
            count += 1
            with suppress(OSError):  # a full disk does not end an attempt
                if not folder.exists(file):
                    gone.set()
                    return
                write(count)

    def is_dead(other: Running) -> bool:
        if (is_gone := other.process.is_gone()) is not None:
            return is_gone
        return other.launch == launch or other.file in dead

    ended, gone = threading.Event(), threading.Event()
    thread = threading.Thread(target=beat, daemon=True)
    try:
        write(0)
        others = [one for one in attempts_at(folder, name) if one.file != file]
        if not all(map(is_dead, others)):
            raise Taken
        thread.start()
        yield others, gone
    finally:
        ended.set()
        if thread.is_alive():
            thread.join()
        folder.delete(file)


def attempts_at(folder: Folder, name: str | None = None) -> list[Running]:
    """The attempts whose files are there, at one trial or at any, living or not."""
    files = [entry.name for entry in folder.list("running")]
    read = (read_running(folder, file) for file in files if (name or "") in file)
    return [one for one in read if one is not None]


def read_running(folder: Folder, name: str) -> Running | None:
    """The attempt that a file in `running/` tells of; None if it is gone or damaged."""
    found = KINDS["marker"].fullmatch(name)
    try:
        saved = parse_json(folder.read(name))
        process: dict[str, Any] = saved["process"]
        process["pid"] = int(process["pid"])
        curve = tuple(saved.get("curve", ()))
        if not all("step" in row for row in curve):
            return None
        return Running(
            file=name,
            trial_id=found["trial"] if found else "",
            process=Process(**process),
            launch=str(saved["launch"]),
            started_at=str(saved["started_at"]),
            beat=int(saved.get("beat", 0)),
            config=dict(saved.get("config", {})),
            curve=curve,
            results=tuple(saved.get("results", ())),
        )
    except (FileNotFoundError, ValueError, TypeError, LookupError):
        return None


class Observer:
    """Sees which trials of a results folder run, and which attempts are dead."""

    def __init__(self, folder: Folder):
        self.folder = folder
        self.dead: dict[str, Running] = {}  # at the last look, by file
        self.seen: dict[str, tuple[str, int, float]] = {}  # by file: attempt, beat, since when

    def look(self) -> dict[str, Running]:
        """The attempts that run, by trial id: all but those known to be dead. The process of
        another machine is, if it was not heard of for PATIENCE seconds of our clock.
        """
        found = {one.file: one for one in attempts_at(self.folder)}
        self.seen = {file: facts for file, facts in self.seen.items() if file in found}
        self.dead = {file: one for file, one in found.items() if self._is_dead(one)}
        return {one.trial_id: one for file, one in found.items() if file not in self.dead}

    def _is_dead(self, one: Running) -> bool:
        if (gone := one.process.is_gone()) is not None:
            return gone
        now, heard = time.monotonic(), (one.attempt, one.beat)
        *before, since = self.seen.get(one.file, (*heard, now))
        if tuple(before) != heard:
            since = now
        self.seen[one.file] = (*heard, since)
        return now - since > PATIENCE


def running_trials(store: Store) -> dict[str, Running]:
    """The attempts that run now, by trial id."""
    found = Observer(store.folder).look()
    ended = {shard.trial_id for shard in store.visible_of(found) if shard.finished}
    return {name: one for name, one in found.items() if name not in ended}
