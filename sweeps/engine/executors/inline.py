"""The inline executor: trials (or stacks of them) one after another in this process. For tests and
machines without Ray.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sweeps.engine.executors.base import Executor, Tracker

if TYPE_CHECKING:
    from sweeps.engine.plan import PlannedTrial
    from sweeps.engine.store.store import Store
    from sweeps.engine.trial.attempt import Settings


class Inline(Executor):
    """An interrupt leaves the running trials to be resumed by the next launch."""

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
        from sweeps.engine.executors.stacks import form_stacks, measure_gain, run_stacks
        from sweeps.engine.trial.failures import FailurePolicy

        stacks = form_stacks(pending, settings, 1, lambda some: measure_gain(some, settings))
        configs = ([planned.trial.config for planned in stack] for stack in stacks)
        run_stacks(configs, settings, FailurePolicy(), progress)
