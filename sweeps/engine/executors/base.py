"""The interface of all executors, and what each of them has to do.

This file and the classes in `EXECUTORS` import no framework and no torch: `--help` and `--plan`
read them. What needs these is imported when a session begins.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from sweeps.engine.plan import PlannedTrial
    from sweeps.engine.store.store import Store
    from sweeps.engine.trial.attempt import Outcome, Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Resources:
    """CPUs and GPUs of one trial."""

    cpus: float = 1.0
    gpus: float = 0.0


class Tracker(Protocol):
    """What an executor tells of its trials; how far a running one is, its own file says.

    Methods may be called from any thread.
    """

    @property
    def num_slots(self) -> int: ...

    @property
    def outcomes(self) -> "dict[str, Outcome]":
        """Of the trials that ended, by trial id."""
        ...

    def finished(self, outcome: "Outcome") -> None:
        """An attempt ended, or was not started."""

    def say(self, text: str) -> None:
        """A sentence for the person who launched."""

    def idle_seconds(self) -> float:
        """Since the last sign of life if no trial is running, else 0."""
        ...


def count_cpus() -> int:
    """CPUs that this process may use: containers, Slurm and taskset leave it some."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS
    return len(affinity(0)) if affinity else os.cpu_count() or 1


class Policy(Protocol):
    """Which trials are no longer started; see `sweeps.engine.trial.failures.FailurePolicy`."""

    def stop_reason(self, cell: str) -> str: ...

    def record(self, cell: str, status: str, error: str) -> None: ...


class Executor(ABC):
    """Runs the trials of one pass; made again from the options of a launch.

    Its duties, which `tests/sweeps/executors/test_contract.py` checks of every executor:

    1. Every trial goes through `run_trials` (`worker.py`), in the process that trains: it claims
       the trial, resumes it, writes its shard, asks the policy before and tells it after.
    2. Trials start in the order given.
    3. One `FailurePolicy` serves all workers of a pass.
    4. `progress` is told of every trial's end once, whatever that was. An executor whose workers
       can die ends with `account_for_missing` (`worker.py`), which stores trials that took their
       worker with them as lost.
    5. `run` returns when no trial is left; Ctrl-C passes through it. Failures of trials are
       outcomes, not exceptions. Retries are the scheduler's, which calls `run` again.

    in_process: whether trials run in the launching process; only then must the GPU be here.
    start_seconds: for starting and stopping it, as `--plan` predicts.
    """

    in_process: ClassVar[bool] = False
    start_seconds: ClassVar[float] = 0.0

    def __init__(self, resources: Resources, address: str | None = None):
        """resources: of one trial. address: of a cluster to join, from `--ray-address`."""
        self.resources, self.address = resources, address

    @property
    @abstractmethod
    def is_local(self) -> bool:
        """Whether trials run on this machine: its CPUs then bound `--cpus-per-trial`, and its speed
        prices them.
        """

    @property
    @abstractmethod
    def num_slots(self) -> int:
        """Trials that will run at once, as far as known before a session."""

    @abstractmethod
    def session(self, store: "Store") -> AbstractContextManager[int]:
        """What several passes share, open until the end of the block; gives how many trials run at
        once. Inside an open session it is that one.

        Raises ValueError in one sentence if trials cannot run or cannot write to the store.
        """

    @abstractmethod
    def run(
        self, pending: "Sequence[PlannedTrial]", settings: "Settings", progress: Tracker
    ) -> None:
        """Run the trials inside a session; see the duties above."""
