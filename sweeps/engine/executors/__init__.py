"""Executors: where the trials of a launch run. A new one is a class like `Inline` and a line in
`EXECUTORS`; scheduler, options and command line read nothing else.
"""

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from sweeps.engine.executors.base import Executor, Resources, Tracker, count_cpus

if TYPE_CHECKING:
    from sweeps.engine.plan import PlannedTrial
    from sweeps.engine.store.store import Store
    from sweeps.engine.trial.attempt import Settings

__all__ = ["EXECUTORS", "Executor", "Resources"]


class Inline(Executor):
    """Trials one after another in this process. For tests and machines without Ray. An
    interrupt leaves the running one to be resumed by the next launch.
    """

    in_process = True

    @property
    def is_local(self) -> bool:
        return True

    @property
    def num_slots(self) -> int:
        return 1

    @contextmanager
    def session(self, store: "Store") -> Generator[int]:
        del store
        yield 1

    def run(
        self, pending: "Sequence[PlannedTrial]", settings: "Settings", progress: Tracker
    ) -> None:
        from sweeps.engine.executors.worker import run_trials
        from sweeps.engine.trial.failures import FailurePolicy

        configs = (planned.trial.config for planned in pending)
        run_trials(configs, settings, FailurePolicy(), progress.finished)


class Ray(Executor):
    """Joins the Ray cluster at the address, or starts one on this machine. `ray_cluster` connects,
    `ray_tune` runs; they are the only files that import Ray.
    """

    start_seconds = 8.0  # an embedded cluster, the import of torch in its workers, the end

    @property
    def is_local(self) -> bool:
        return not self.address

    @property
    def num_slots(self) -> int:
        return max(1, int(count_cpus() // self.resources.cpus))

    def session(self, store: "Store") -> AbstractContextManager[int]:
        from sweeps.engine.executors.ray_cluster import ray_session

        return ray_session(self.address, self.resources, store)

    def run(
        self, pending: "Sequence[PlannedTrial]", settings: "Settings", progress: Tracker
    ) -> None:
        from sweeps.engine.executors.ray_tune import run_on_ray

        run_on_ray(pending, settings, progress, self.resources)


EXECUTORS: dict[str, type[Executor]] = {"ray": Ray, "inline": Inline}
