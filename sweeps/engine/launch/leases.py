"""Leases: two launches on one results folder never run the same trial.

    RESULTS/launches/<launch>.json    who: host, process, state (idle, asking, running), trials
    RESULTS/launches/<launch>.beat    a counter that rises while the launch lives

A launch writes which trials it asks for and only then reads the files of others, so if two start at
once, at least one sees the other. Trials of a running launch are left to it. If two launches ask at
the same time, the one with the larger name withdraws until the smaller has its answer; the smaller
waits until nobody else asks for its trials. Clocks of different machines are never compared: a
remote launch is dead once its counter has not moved for `PATIENCE` seconds of *our* clock. The
storage must show a finished write to all readers (local disk, NFS with closed files, S3).
"""

import json
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from sweeps.engine.store.folder import Folder
from sweeps.engine.trial.processes import Process, this_process

HEARTBEAT = 5.0  # seconds between two updates of the counter
PATIENCE = 30.0  # seconds without an update after which a launch of another machine is dead
POLL = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class OtherLaunch:
    """Another launch on the same results folder."""

    name: str
    state: str  # idle, asking or running
    process: Process
    started_at: str  # UTC, ISO 8601
    trials: frozenset[str]  # that it asks for or holds

    def __str__(self) -> str:
        p = self.process
        return f"process {p.pid} on {p.host} (since {self.started_at})"


class LaunchLease:
    """The trials that this launch holds, written in the results folder from `with` to its end."""

    def __init__(self, folder: Folder, say: Callable[[str], None] = print):
        self.folder, self.say = folder, say
        self.name = uuid.uuid4().hex[:12]
        self.process = this_process()
        self.started_at = datetime.now(UTC).isoformat(timespec="seconds")
        self.superseded = False  # another launch considered this one dead
        self.seen: dict[str, tuple[bytes, float]] = {}  # counters of others, and since when
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._send_heartbeats, daemon=True)

    def __enter__(self) -> "LaunchLease":
        self._declare("idle", frozenset())  # before the counter, which is removed with this file
        self.folder.write(self._file("beat"), b"0")
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join(timeout=10)
        with suppress(OSError):
            self.folder.delete([self._file("beat"), self._file("json")])

    def claim(self, trials: Iterable[str]) -> dict[str, OtherLaunch]:
        """Take these trials; returns those that another living launch holds. Waits while another
        one is asking for some of them.
        """
        wanted = frozenset(trials)
        while True:
            self._declare("asking", wanted)
            others = self.living(wanted)
            asking = [o.name for o in others if o.state == "asking"]
            if not asking:
                taken = {name: o for o in others for name in o.trials & wanted}
                self._declare("running", wanted - set(taken))
                return taken
            if min(asking) < self.name:
                self._declare("idle", frozenset())
                while any(o.state == "asking" and o.name < self.name for o in self.living(wanted)):
                    time.sleep(POLL)
            else:
                time.sleep(POLL)

    def living(
        self, trials: frozenset[str] | None = None, remove: bool = True
    ) -> list[OtherLaunch]:
        """The other launches that live (and hold some of these trials). remove: the files of dead
        ones.
        """
        launches: list[OtherLaunch] = []
        for entry in self.folder.list("launches"):
            name = entry.name.removeprefix("launches/").removesuffix(".json")
            if name == self.name or not entry.name.endswith(".json"):
                continue
            if (other := self._read(name)) is None:
                continue
            concerns = trials is None or other.trials & trials
            if self._is_dead(other) if concerns else other.process.is_gone():
                if remove:
                    self.folder.delete([f"launches/{name}.beat", f"launches/{name}.json"])
            elif concerns:
                launches.append(other)
        return launches

    def held_by_others(self, remove: bool = True) -> frozenset[str]:
        """The trials that other living launches ask for or hold. remove: see `living`."""
        living = self.living(remove=remove)
        return frozenset(name for other in living for name in other.trials)

    def _is_dead(self, other: OtherLaunch) -> bool:
        if (gone := other.process.is_gone()) is not None:
            return gone
        try:
            beat = self.folder.read(f"launches/{other.name}.beat")
        except FileNotFoundError:
            beat = b""
        now = time.monotonic()
        last, since = self.seen.get(other.name, (None, now))
        if beat != last:
            self.seen[other.name] = (beat, now)
            return False
        return now - since > PATIENCE

    def _read(self, name: str) -> OtherLaunch | None:
        """The contents of another launch's file; None if it is gone or malformed."""
        try:
            saved = json.loads(self.folder.read(f"launches/{name}.json"))
            return OtherLaunch(
                name=name,
                state=str(saved["state"]),
                process=Process.of(saved["process"]),
                started_at=str(saved["started_at"]),
                trials=frozenset(map(str, saved["trials"])),
            )
        except (FileNotFoundError, ValueError, TypeError, LookupError):
            return None

    def _declare(self, state: str, trials: frozenset[str]) -> None:
        saved = {
            "state": state,
            "process": self.process.as_dict(),
            "started_at": self.started_at,
            "trials": sorted(trials),
        }
        self.folder.write(self._file("json"), json.dumps(saved).encode())

    def _send_heartbeats(self) -> None:
        count = 0
        while not self.stop.wait(HEARTBEAT):
            count += 1
            with suppress(OSError):  # a full disk does not end a launch; silence might
                self.folder.write(self._file("beat"), str(count).encode())
            with suppress(OSError):
                if not self.folder.exists(self._file("json")):
                    self._stop_launch()
                    return

    def _stop_launch(self) -> None:
        """After a long sleep another launch may have taken our trials: stop rather than run them
        twice.
        """
        if not self.stop.is_set():
            self.superseded = True
            self.say("another launch considered this one dead and took over its trials; stopping")
            # SIGINT also ends a wait, but a job in the background may ignore it.
            handled = callable(signal.getsignal(signal.SIGINT))
            number = signal.SIGINT if handled else signal.SIGTERM
            signal.pthread_kill(threading.main_thread().ident or 0, number)

    def _file(self, kind: str) -> str:
        return f"launches/{self.name}.{kind}"
