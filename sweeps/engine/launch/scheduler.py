"""Schedules the trials of a launch: runs what is missing in passes, and retries.

Every pass starts by reading the store, so trials that another launch has finished or runs just now
are left to it. In the end these are waited for; if their process dies, they are taken over.
"""

import contextlib
import time
import uuid
from collections import Counter
from collections.abc import Generator, Iterable, Sequence

from pcore.cli.text import plural
from sweeps.engine.launch.progress import Progress
from sweeps.engine.options import LaunchOptions, make_settings
from sweeps.engine.plan import PlannedTrial
from sweeps.engine.store.store import Store
from sweeps.engine.trial.attempt import Outcome, Settings
from sweeps.engine.trial.failures import MAX_TRIES, RETRIED
from sweeps.engine.trial.lost import GIVEN_UP, remove_leftovers
from sweeps.engine.trial.running import Observer, Running

WAIT_POLL = 2.0  # seconds between two checks of trials that another launch runs


class Scheduler:
    """Runs the trials of one launch, in passes, until none is left to run or to retry."""

    def __init__(self, options: LaunchOptions, store: Store):
        self.options, self.store = options, store
        self.executor = options.executor
        self.name, self.observer = uuid.uuid4().hex[:12], Observer(store.folder)
        self.tries: Counter[str] = Counter()
        self.outcomes: dict[str, Outcome] = {}  # of the latest attempt at each trial

    def run(self, title: str, pending: Sequence[PlannedTrial]) -> bool:
        """False if the launch ended early: results cannot be written."""
        remove_leftovers(self.store)
        while left := self._left(pending):
            held = self._held()
            if mine := [p for p in left if p.trial.id not in held]:
                with self._pass(title, mine) as (settings, progress):
                    self.executor.run(mine, settings, progress)
                if any(self._is_unsaved(p.trial.id) for p in mine):
                    return False
            else:
                self._wait(held[p.trial.id] for p in left)
        return True

    def _held(self) -> dict[str, Running]:
        """The attempts of others that run now; what is left of our own between passes is dead."""
        running = self.observer.look().items()
        return {name: one for name, one in running if one.launch != self.name}

    def _left(self, pending: Sequence[PlannedTrial]) -> list[PlannedTrial]:
        visible = self.store.visible()
        finished = {name for name, shard in visible.items() if shard.finished}
        unfinished = (p for p in pending if p.trial.id not in finished)
        return [p for p in unfinished if self._may_try(p.trial.id)]

    def _may_try(self, name: str) -> bool:
        outcome = self.outcomes.get(name)
        if outcome is None or outcome.status == "held":
            return True
        if outcome.status == "lost" and outcome.error.endswith(GIVEN_UP):
            return False
        return outcome.status in RETRIED and self.tries[name] < MAX_TRIES

    def _is_unsaved(self, name: str) -> bool:
        return name in self.outcomes and self.outcomes[name].status == "unsaved"

    @contextlib.contextmanager
    def _pass(
        self, title: str, mine: Sequence[PlannedTrial]
    ) -> Generator[tuple[Settings, Progress]]:
        """What the executor needs to run these trials once."""
        dead = frozenset(self.observer.dead)
        settings = make_settings(self.options, self.store, self.name, dead)
        with (
            self.executor.session(self.store) as num_slots,
            Progress(title, mine, num_slots, self._record, self.observer) as progress,
        ):
            yield settings, progress
        for p in mine:  # an executor that says nothing of a trial is not asked again
            name = p.trial.id
            unknown = Outcome(trial_id=name, status="not started", seconds=0.0)
            self.outcomes.setdefault(name, unknown)

    def _record(self, outcome: Outcome) -> None:
        self.tries[outcome.trial_id] += outcome.status != "held"
        self.outcomes[outcome.trial_id] = outcome

    def _wait(self, held: Iterable[Running]) -> None:
        """Say who runs what is left, and wait until one of these attempts has ended."""
        attempts = {one.attempt: one for one in held}
        for process, count in Counter(one.owner for one in attempts.values()).items():
            _print(f"{plural(count, 'trial')} left, run by {process}; waiting")
        while attempts.keys() <= {one.attempt for one in self._held().values()}:
            time.sleep(WAIT_POLL)


def _print(text: str) -> None:
    print(text, flush=True)
