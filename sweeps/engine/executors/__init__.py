"""Where the trials of a launch run: in this process, or on a Ray cluster.

This file imports no framework and no torch: `--help` and `--plan` read it. What needs these is
imported when a session begins.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pcore.registry import nearest

if TYPE_CHECKING:
    from sweeps.engine.plan import PlannedTrial
    from sweeps.engine.store.store import Store
    from sweeps.engine.trial.attempt import Outcome, Settings

EXECUTORS = ("ray", "inline")
CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")
RAY_SECONDS = 8.0  # an embedded cluster, the import of torch in its workers, the end


def count_cpus() -> int:
    """CPUs that this process may use: containers, Slurm and taskset leave it some."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS
    count = len(affinity(0)) if affinity else os.cpu_count() or 1
    try:  # of a container, in microseconds per period: "200000 100000", or "max 100000"
        quota, period = CPU_QUOTA.read_text().split()
        return max(1, min(count, int(quota) // int(period)))
    except (OSError, ValueError):
        return count


@dataclass(frozen=True, kw_only=True, slots=True)
class Executor:
    """Runs trials one after another in this process (inline), or on the Ray cluster at an address,
    else on one that it starts on this machine.
    """

    name: str = "ray"  # of EXECUTORS
    cpus: float = 1.0  # of one trial
    gpus: float = 0.0
    address: str | None = None

    def __post_init__(self) -> None:
        if self.name not in EXECUTORS:
            hint = nearest(self.name, EXECUTORS)
            raise ValueError(f"--executor {self.name!r} is unknown.{hint}")

    @property
    def in_process(self) -> bool:
        """Whether trials run in the launching process: only then must the GPU be here."""
        return self.name == "inline"

    @property
    def is_local(self) -> bool:
        """Whether trials run on this machine: its CPUs then bound `--cpus-per-trial`, and its speed
        prices them.
        """
        return self.in_process or not self.address

    @property
    def num_slots(self) -> int:
        """Trials that will run at once, as far as known before a session."""
        return 1 if self.in_process else max(1, int(count_cpus() // self.cpus))

    @property
    def start_seconds(self) -> float:
        """For starting and stopping it, as `--plan` predicts."""
        return 0.0 if self.in_process else RAY_SECONDS

    def session(self, store: "Store") -> AbstractContextManager[int]:
        """What several passes share, open until the end of the block; gives how many trials run at
        once. Inside an open session it is that one.

        Raises ValueError in one sentence if trials cannot run or cannot write to the store.
        """
        if self.in_process:
            return nullcontext(1)
        from sweeps.engine.executors.ray_cluster import ray_session

        return ray_session(self, store)

    def run(
        self,
        pending: "Sequence[PlannedTrial]",
        settings: "Settings",
        tell: "Callable[[Outcome], None]",
    ) -> None:
        """Run these trials in their order inside a session, each once, and tell how each ended.
        Failures of trials are outcomes, not exceptions; Ctrl-C passes through.
        """
        if self.in_process:
            from sweeps.engine.executors.worker import run_trial
            from sweeps.engine.trial.failures import FailurePolicy

            policy = FailurePolicy()
            for planned in pending:
                tell(run_trial(planned.trial.config, settings, policy))
        else:
            from sweeps.engine.executors.ray_tune import run_on_ray

            run_on_ray([planned.trial for planned in pending], settings, self, tell)

    def describe_use(self) -> str:
        """What is free inside a session, and who holds the rest."""
        if self.in_process:
            return "this process runs them one by one"
        from sweeps.engine.executors.ray_cluster import describe_use

        return describe_use()
