"""Start, watch and end sweeps as processes: that of `tests.support.sweeps.faulty`, and scripts."""

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

import psutil

from sweeps.engine.store.store import Shard, Store

ROOT = Path(__file__).parents[3]
PYTHON = sys.executable
BIN = Path(PYTHON).parent
CLEAN = ("RAY_", "PCORE_", "MLFLOW_", "AWS_", "FAULT_")
TIMES = ["seconds", "wall_seconds", "train_seconds", "eval_seconds", "first_step", "started_at"]
ELSE = ["launch", "attempt", "git_commit", "git_dirty"]


def environment(**faults: object) -> dict[str, str]:
    """The environment of a user with an activated virtual environment; names in lower case become
    `FAULT_` variables.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(CLEAN)}
    kept["PATH"] = f"{BIN}{os.pathsep}{kept['PATH']}"
    kept["PYTHONPATH"] = str(ROOT)
    kept["RAY_worker_niceness"] = "0"  # as important as what tests run beside; of itself it is 15
    return kept | {(f"FAULT_{k.upper()}" if k.islower() else k): str(v) for k, v in faults.items()}


@dataclass(kw_only=True, slots=True)
class Child:
    """A running sweep."""

    process: BaseProcess
    file: Path

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    @property
    def output(self) -> str:
        """What it said so far."""
        return self.file.read_text() if self.file.exists() else ""

    @property
    def code(self) -> int | None:
        """How it ended, negative for a signal; None while it runs."""
        return self.process.exitcode

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self.code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self, patience: float = 400) -> int:
        """Its exit code."""
        self.process.join(patience)
        self.kill()
        assert self.code is not None, self.output
        return self.code


# Forks a process that has imported everything, where a fresh interpreter needs seconds.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["pytest", "tests.support.sweeps.nursery"])
SILENT = ("--no-mlflow", "--no-report")


def start(results: Path | str, *flags: str, **faults: object) -> Child:
    """The sweep as a process of its own, inline and without mirror and report."""
    return start_whole(results, *SILENT, *flags, **faults)


def start_whole(results: Path | str, *flags: str, **faults: object) -> Child:
    """The sweep as a process of its own, inline, with mirror and report."""
    file = Path(f"{results}.{time.monotonic_ns()}.txt")
    words = ["--scale", "smoke", "--executor", "inline", "--results", str(results), *flags]
    process = FORKS.Process(target=_sweep, args=(words, environment(**faults), file))
    process.start()
    return Child(process=process, file=file)


def _sweep(words: list[str], variables: dict[str, str], file: Path) -> None:
    out = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.environ.clear()
    os.environ.update(variables)
    from tests.support.sweeps import faulty

    sys.exit(faulty.run(words))


def job_environment(results: Path) -> str:
    """What `ray job submit` gives a job."""
    return json.dumps({"env_vars": {"PCORE_RESULTS": str(results), "PCORE_GIT_COMMIT": "abc"}})


def depth_ablation(*flags: str) -> list[str]:
    """The smoke scale of a script as a user starts it, on this machine or a cluster."""
    return [PYTHON, "sweeps/depth_ablation.py", "--scale", "smoke", *flags]


def start_fresh(command: Sequence[str], **variables: object) -> subprocess.Popen:
    """A command of a user, its output in a pipe."""
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen, patience: float = 400) -> tuple[int, str]:
    """Its exit code, and what it says until it ends."""
    try:
        output = process.communicate(timeout=patience)[0]
    finally:
        process.kill()
        process.wait()
    return process.returncode, output


def end(processes: list[psutil.Process]) -> None:
    """SIGKILL; returns when they are gone."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=20)


def mentions(process: psutil.Process, what: Path | str) -> bool:
    """Whether its command line names this folder or module."""
    try:
        return any(str(what) in part for part in process.cmdline())
    except psutil.Error:
        return False


def is_trainer(command: str) -> bool:
    """Whether it is what Ray calls a process that runs trials, at work or not."""
    return command.startswith(("ray::ResourceTrainable", "ray::Worker"))


def run(results: Path | str, *flags: str, **faults: object) -> tuple[int, str]:
    """Exit code and output of the sweep."""
    child = start(results, *flags, **faults)
    return child.wait(), child.output


def wait_until(
    true: Callable[[], object],
    patience: float = 120,
    every: float = 0.05,
    told: Callable[[], str] = str,
) -> None:
    """Poll until this is so. told: what to add if it never is."""
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline, f"it did not happen. {told()}"
        time.sleep(every)


def ok_shards(results: Path | str) -> list[Shard]:
    return [shard for shard in Store(results).shards() if shard.status == "ok"]


def check_once(results: Path | str, count: int) -> None:
    """So many trials have an ok shard, and none has two."""
    ok = ok_shards(results)
    assert len(ok) == len({shard.trial_id for shard in ok}) == count


def check_complete(results: Path, output: str) -> None:
    """Every trial of the depth ablation is there once, and its table was printed."""
    check_once(results, 12)
    assert "coupling, 1 layer" in output
    assert (results / "reports" / "depth_ablation-smoke" / "lengths.png").is_file()


def rows(results: Path | str) -> list[dict]:
    """All visible rows, without durations and names of launches, in a fixed order."""
    table = Store(results).load().drop_columns([*TIMES, *ELSE])
    keys = ("trial_id", "record", "checkpoint", "step", "range", "length")
    return sorted(table.to_pylist(), key=lambda row: [str(row[key]) for key in keys])
