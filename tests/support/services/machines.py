"""Machines made of Linux namespaces: each has a network address and a host name of its own, all
share the files of this one. For tests that need several nodes; must be run as root.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """One of them. name: host name. space: name of its network namespace."""

    name: str
    space: str
    address: str

    def command(self, *command: str) -> list[str]:
        """The command line that runs a command there."""
        # nsenter, not `ip netns exec`, which would hide the control groups that slurmd looks for.
        inside = ["sh", "-c", 'hostname "$0" && exec "$@"', self.name, *command]
        return ["nsenter", f"--net=/run/netns/{self.space}", "unshare", "--uts", "--", *inside]

    def processes(self) -> list[psutil.Process]:
        """What runs there: all of it descends from what the test started."""
        found: list[psutil.Process] = []
        for pid in _ip("netns", "pids", self.space).split():
            with contextlib.suppress(psutil.NoSuchProcess):
                found.append(psutil.Process(int(pid)))
        return found


def missing(*programs: str) -> str | None:
    """Why a test with such machines and these programs cannot run here, or None if it can."""
    if os.geteuid() != 0:
        return "needs root, for network namespaces"
    absent = [name for name in ("ip", "nsenter", "unshare", *programs) if not shutil.which(name)]
    return f"not installed: {', '.join(absent)}" if absent else None


@contextlib.contextmanager
def machines(names: Sequence[str]) -> Generator[list[Machine]]:
    """Machines on one bridge, gone together with all their processes in the end. This one has the
    address that ends in .1, and no names are resolved, only addresses.
    """
    tag, net = f"pc{os.getpid()}", f"10.213.{os.getpid() % 250}"
    made = [
        Machine(name=name, space=f"{tag}-{i}", address=f"{net}.{10 + i}")
        for i, name in enumerate(names)
    ]
    try:
        _ip("link", "add", "name", tag, "type", "bridge")
        _ip("address", "add", f"{net}.1/24", "dev", tag)
        _ip("link", "set", tag, "up")
        for i, machine in enumerate(made):
            _connect(machine, f"{tag}v{i}", tag, f"{net}.1")
        yield made
    finally:
        for machine in made:
            if Path(f"/run/netns/{machine.space}").exists():
                _end(machine)
                _ip("netns", "delete", machine.space)
        subprocess.run(["ip", "link", "delete", tag], capture_output=True, check=False)


def _connect(machine: Machine, cable: str, bridge: str, gateway: str) -> None:
    space = machine.space
    _ip("netns", "add", space)
    _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", space)
    _ip("link", "set", cable, "master", bridge, "up")
    _ip("-netns", space, "link", "set", "lo", "up")
    _ip("-netns", space, "address", "add", f"{machine.address}/24", "dev", "eth0")
    _ip("-netns", space, "link", "set", "eth0", "up")
    _ip("-netns", space, "route", "add", "default", "via", gateway)


def _end(machine: Machine) -> None:
    for _ in range(5):  # a dying parent may have started another one
        processes = machine.processes()
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        if not processes:
            return
        psutil.wait_procs(processes, timeout=20)


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"
    return done.stdout
