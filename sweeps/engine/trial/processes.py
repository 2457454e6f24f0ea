"""Identifies processes and tells whether one is alive, despite reused process ids, clock jumps and
containers that share a host name.
"""

import os
import socket
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Process:
    """A process of some machine. (The names of the fields are in files of a store.)"""

    host: str
    place: str  # machine since its last boot, and process namespace
    pid: int
    born: str  # start of the process, in ticks since boot

    def is_gone(self) -> bool | None:
        """True or False for processes of this machine and namespace, None for others."""
        if self.place != this_process().place:
            return None
        return _born(self.pid) != self.born

    @staticmethod
    def of(saved: Any) -> "Process":
        """From the values of `as_dict`. Raises TypeError, LookupError or ValueError for others."""
        return Process(
            host=str(saved["host"]),
            place=str(saved["place"]),
            pid=int(saved["pid"]),
            born=str(saved["born"]),
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def this_process() -> Process:
    """The calling process."""
    return Process(host=socket.gethostname(), place=_place(), pid=os.getpid(), born=_born("self"))


@cache
def _place() -> str:
    boot = _read("/proc/sys/kernel/random/boot_id") or socket.gethostname()
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return f"{boot}/{space}"


def _born(pid: int | str) -> str:
    """Field 22 of /proc/PID/stat, empty if there is no such process (or it is a zombie); without
    /proc only whether it exists.
    """
    if Path("/proc/self/stat").exists():
        fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
        return "" if not fields or fields[0] in "ZX" else fields[19]
    try:
        os.kill(os.getpid() if pid == "self" else int(pid), 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "alive"


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
