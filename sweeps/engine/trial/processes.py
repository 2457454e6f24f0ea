"""Identifies processes and tells whether one is alive, despite reused process ids, clock jumps and
containers that share a host name.
"""

import os
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Process:
    """A process of some machine. (The names of the fields are in files of a store.)"""

    host: str
    place: str  # machine since its last boot, and process namespace
    pid: int
    born: str  # see `born`

    def is_gone(self) -> bool | None:
        """True or False for processes of this machine and namespace, None for others."""
        if self.place != this_process().place:
            return None
        return born(self.pid) != self.born


def this_process() -> Process:
    """The calling process."""
    return Process(host=socket.gethostname(), place=_place(), pid=os.getpid(), born=born("self"))


@cache
def _place() -> str:
    boot = _read("/proc/sys/kernel/random/boot_id") or socket.gethostname()
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return f"{boot}/{space}"


def born(pid: int | str) -> str:
    """When it started, in ticks since boot (field 22 of /proc/PID/stat); empty if there is no such
    process, or it is a zombie. Without /proc only whether it exists.
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
