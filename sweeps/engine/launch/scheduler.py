"""Schedules the trials of a launch: runs what is missing in passes, and retries.

Every pass starts by reading the store, so trials that another launch has finished or runs just now
are left to it. In the end these are waited for; if their process dies, they are taken over.
"""

import time
import uuid
from collections import Counter
from collections.abc import Sequence

from pcore.cli.text import plural
from sweeps.engine.launch.progress import Progress
from sweeps.engine.options import LaunchOptions
from sweeps.engine.plan import PlannedTrial
from sweeps.engine.store.store import Store
from sweeps.engine.trial.attempt import Outcome, Settings
from sweeps.engine.trial.failures import MAX_TRIES
from sweeps.engine.trial.running import Observer, Running, attempts_at

WAIT_POLL = 2.0  # seconds between two checks of trials that another launch runs


class Scheduler:
    """Runs the trials of one launch, in passes, until none is left to run or to retry."""

    def __init__(self, options: LaunchOptions, store: Store):
        self.options, self.store = options, store
        self.name, self.observer = uuid.uuid4().hex[:12], Observer(store.folder)
        self.out_of_memory: Counter[str] = Counter()
        self.outcomes: dict[str, Outcome] = {}  # of the latest attempt at each trial

    def run(self, title: str, pending: Sequence[PlannedTrial]) -> None:
        """Returns early if results cannot be written."""
        self._remove_leftovers()
        executor = self.options.executor
        while left := self._left(pending):
            held = self._held()
            mine = [p for p in left if p.trial.id not in held]
            if not mine:
                self._wait({p.trial.id: held[p.trial.id] for p in left})
                continue
            with (
                executor.session(self.store) as num_slots,
                Progress(title, mine, num_slots, self.observer, executor.describe_use) as progress,
            ):
                executor.run(mine, self._settings(), progress.finished)
            self.outcomes |= progress.outcomes
            ended = progress.outcomes.values()
            self.out_of_memory.update(one.trial_id for one in ended if one.status == "oom")
            if any(one.status == "unsaved" for one in ended):
                return

    def _remove_leftovers(self) -> None:
        """Files of attempts whose process died right after it had written the shard."""
        for one in attempts_at(self.store.folder):
            shard = self.store.visible_shard(one.trial_id)
            if shard is not None and shard.finished:
                self.store.folder.delete(one.file)

    def _left(self, pending: Sequence[PlannedTrial]) -> list[PlannedTrial]:
        finished = {name for name, shard in self.store.visible().items() if shard.finished}
        return [p for p in pending if p.trial.id not in finished and self._may_try(p.trial.id)]

    def _may_try(self, name: str) -> bool:
        """Lost trials were retried within the pass."""
        status = self.outcomes[name].status if name in self.outcomes else "held"
        return status == "held" or (status == "oom" and self.out_of_memory[name] < MAX_TRIES)

    def _held(self) -> dict[str, Running]:
        """The attempts of others that run now; what is left of our own between passes is dead."""
        running = self.observer.look().items()
        return {name: one for name, one in running if one.launch != self.name}

    def _settings(self) -> Settings:
        """Of the attempts of one pass."""
        options = self.options
        return Settings(
            results=self.store.root,
            device=options.device,
            num_threads=options.num_threads,
            launch=self.name,
            dead=frozenset(self.observer.dead),
            diagnose=options.diagnose,
            compile=options.compile,
        )

    def _wait(self, held: dict[str, Running]) -> None:
        """Say who runs what is left, and wait until one of these attempts has ended."""
        for process, count in Counter(one.owner for one in held.values()).items():
            print(f"{plural(count, 'trial')} left, run by {process}; waiting", flush=True)
        attempts = {one.attempt for one in held.values()}
        while attempts <= {one.attempt for one in self._held().values()}:
            time.sleep(WAIT_POLL)
