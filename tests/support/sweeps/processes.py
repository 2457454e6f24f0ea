"""Start, watch and end the sweep of `tests.support.sweeps.faulty` as processes."""

import atexit
import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from sweeps.engine.store.store import Shard, Store

ROOT = Path(__file__).parents[3]
PYTHON = sys.executable
CLEAN = ("RAY_", "PCORE_", "MLFLOW_", "AWS_", "FAULT_")
TIMES = ["seconds", "wall_seconds", "train_seconds", "eval_seconds", "first_step", "started_at"]
ELSE = ["launch", "attempt", "git_commit", "git_dirty"]


def environment(**faults: object) -> dict[str, str]:
    """The environment of a process; names in lower case become `FAULT_` variables."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(CLEAN)}
    kept["PATH"] = f"{Path(PYTHON).parent}{os.pathsep}{kept['PATH']}"
    kept["PYTHONPATH"] = str(ROOT)
    return kept | {(f"FAULT_{k.upper()}" if k.islower() else k): str(v) for k, v in faults.items()}


@dataclass(kw_only=True, slots=True)
class Child:
    """A running sweep."""

    pid: int
    file: Path

    @property
    def output(self) -> str:
        """What it said so far."""
        return self.file.read_text() if self.file.exists() else ""

    @property
    def code(self) -> int | None:
        """How it ended, negative for a signal; None while it runs."""
        ended = Path(f"{self.file}.ended")
        return int(ended.read_text()) if ended.exists() else None

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self.code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self, patience: float = 200) -> int:
        """Its exit code."""
        try:
            wait_until(lambda: self.code is not None, patience, lambda: self.output)
        finally:
            self.kill()
        return self.code if self.code is not None else -1


@functools.cache
def _nursery() -> tuple[subprocess.Popen, Path]:
    folder = Path(tempfile.mkdtemp(prefix="pcore-faults-"))
    process = subprocess.Popen(
        [PYTHON, "-m", "tests.support.sweeps.nursery"],
        cwd=ROOT,
        env=environment(OMP_NUM_THREADS=1, arms=1, steps=2),  # threads would not survive a fork
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(_close, process, folder)
    return process, folder


def _close(nursery: subprocess.Popen, folder: Path) -> None:
    nursery.kill()
    nursery.communicate()
    shutil.rmtree(folder, ignore_errors=True)


SILENT = ("--no-mlflow", "--no-report")


def start(results: Path | str, *flags: str, **faults: object) -> Child:
    """The sweep as a process of its own, inline and without mirror and report."""
    return start_whole(results, *SILENT, *flags, **faults)


def start_whole(results: Path | str, *flags: str, **faults: object) -> Child:
    """The sweep as a process of its own, inline, with mirror and report."""
    nursery, folder = _nursery()
    file = folder / f"{time.monotonic_ns()}.txt"
    order = {
        "arguments": [*arguments(results), *flags],
        "environment": environment(**faults),
        "output": str(file),
    }
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    nursery.stdin.write(json.dumps(order) + "\n")
    nursery.stdin.flush()
    return Child(pid=int(nursery.stdout.readline()), file=file)


def start_fresh(results: Path | str, *flags: str, **faults: object) -> subprocess.Popen:
    """The same as a new interpreter, with mirror and report; its output in a pipe."""
    return subprocess.Popen(
        [PYTHON, "-u", "-m", "tests.support.sweeps.faulty", *arguments(results), *flags],
        cwd=ROOT,
        env=environment(**faults),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish_fresh(process: subprocess.Popen, patience: float = 400) -> str:
    """What it says until it ends."""
    try:
        return process.communicate(timeout=patience)[0]
    finally:
        process.kill()
        process.wait()


def end(processes: list[psutil.Process]) -> None:
    """SIGKILL; returns when they are gone."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=20)


def mentions(process: psutil.Process, folder: Path) -> bool:
    """Whether its command line names the folder."""
    try:
        return any(str(folder) in part for part in process.cmdline())
    except psutil.Error:
        return False


def is_trainer(command: str) -> bool:
    """Whether it is what Ray calls a process that runs trials, at work or not."""
    return command.startswith(("ray::ResourceTrainable", "ray::Worker"))


def arguments(results: Path | str) -> list[str]:
    return ["--scale", "smoke", "--executor", "inline", "--results", str(results)]


def run(results: Path | str, *flags: str, **faults: object) -> tuple[int, str]:
    """Exit code and output of the sweep."""
    child = start(results, *flags, **faults)
    return child.wait(), child.output


def wait_until(
    true: Callable[[], object],
    patience: float = 120,
    describe: Callable[[], str] = lambda: "it did not happen",
) -> None:
    """Poll until this is so."""
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline, describe()
        time.sleep(0.01)


def ok_shards(results: Path | str) -> list[Shard]:
    return [shard for shard in Store(results).shards() if shard.status == "ok"]


def check_once(results: Path | str, count: int) -> None:
    """So many trials have an ok shard, and none has two."""
    ok = ok_shards(results)
    assert len(ok) == len({shard.trial_id for shard in ok}) == count


def rows(results: Path | str) -> list[dict]:
    """All visible rows, without durations and names of launches, in a fixed order."""
    table = Store(results).load().drop_columns([*TIMES, *ELSE])
    keys = ("trial_id", "record", "checkpoint", "step", "range", "length")
    return sorted(table.to_pylist(), key=lambda row: [str(row[key]) for key in keys])
