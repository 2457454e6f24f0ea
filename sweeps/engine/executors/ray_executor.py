"""The part of the Ray executor that imports no Ray; `ray_cluster` connects, `ray_tune` runs."""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from sweeps.engine.executors.base import Executor, Tracker

if TYPE_CHECKING:
    from sweeps.engine.plan import PlannedTrial
    from sweeps.engine.store.store import Store
    from sweeps.engine.trial.attempt import Settings


class Ray(Executor):
    """Joins the cluster at the address, or starts one on this machine."""

    start_seconds = 8.0  # an embedded cluster, the import of torch in its workers, the end

    @property
    def is_local(self) -> bool:
        return not self.address

    @property
    def num_slots(self) -> int:
        return max(1, int((os.cpu_count() or 1) // self.resources.cpus))

    def session(self, store: "Store") -> AbstractContextManager[int]:
        from sweeps.engine.executors.ray_cluster import ray_session

        return ray_session(self.address, self.resources, store)

    def run(
        self, pending: "Sequence[PlannedTrial]", settings: "Settings", progress: Tracker
    ) -> None:
        from sweeps.engine.executors.ray_tune import run_on_ray

        run_on_ray(pending, settings, progress, self.resources)
