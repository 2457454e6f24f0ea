"""The provenance of a result: code, environment and machine, as columns of a trial's row."""

import functools
import hashlib
import os
import platform
import socket
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from sweeps.engine.store.sources import hash_sources

ROOT = Path(__file__).resolve().parents[3]


@functools.cache
def code_provenance() -> dict[str, Any]:
    """Version, source hash and git commit of pcore, lock file hash, torch and Python.

    `PCORE_GIT_COMMIT` (set at submission) stands in where the code runs without its git folder.
    """
    commit, dirty = _git_state()
    return {
        "code_version": _version(),
        "code_hash": hash_sources(),
        "git_commit": os.environ.get("PCORE_GIT_COMMIT") or commit,
        "git_dirty": dirty,
        "lock_hash": _hash_file(ROOT / "requirements.lock"),
        "torch_version": torch.__version__,
        "python_version": platform.python_version(),
        "host": socket.gethostname(),
    }


@functools.cache
def machine_provenance() -> dict[str, str | None]:
    """What affects rounding on a CPU: its model and the instruction set that torch uses.

    On another CPU the same seed gives other results, beyond the trained lengths by tens of points.
    """
    return {
        "cpu_model": _cpu_model(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }


def _cpu_model() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return platform.processor() or None
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, None) or platform.machine() or None


def _version() -> str | None:
    try:
        return version("pcore")
    except PackageNotFoundError:
        return None


def _git_state() -> tuple[str | None, bool | None]:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")).resolve() != ROOT:
            return None, None
        return git("rev-parse", "HEAD"), bool(git("status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.CalledProcessError):
        return None, None


def _hash_file(file: Path) -> str | None:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:12] if file.is_file() else None
