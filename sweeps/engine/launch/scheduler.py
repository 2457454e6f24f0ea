"""Schedules the trials of a launch: claims them, runs what is missing in passes, and retries.

Every pass starts by reading the store, so trials that another launch has finished are not run.
Trials held by another launch are waited for; if that launch dies, they are taken over.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence

from sweeps.engine.launch.leases import LaunchLease, OtherLaunch
from sweeps.engine.launch.progress import Progress
from sweeps.engine.options import LaunchOptions, make_settings
from sweeps.engine.plan import PlannedTrial
from sweeps.engine.store.store import Store
from sweeps.engine.trial.attempt import Outcome, Settings
from sweeps.engine.trial.failures import MAX_TRIES, RETRIED
from sweeps.engine.trial.markers import GIVEN_UP, remove_markers

WAIT_POLL = 2.0  # seconds between two checks of trials that another launch runs


class Scheduler:
    """Runs the trials of one launch, in passes, until none is left to run or to retry."""

    def __init__(self, options: LaunchOptions, store: Store):
        self.options, self.store = options, store
        self.executor = options.make_executor()
        self.tries: Counter[str] = Counter()
        self.outcomes: dict[str, Outcome] = {}  # of the latest attempt at each trial

    def run(self, title: str, pending: Sequence[PlannedTrial]) -> bool:
        """False if the launch ended early: results cannot be written."""
        with LaunchLease(self.store.folder, say=_print) as lease:
            remove_markers(self.store)
            while left := self._left(pending):
                taken = lease.claim(p.trial.id for p in left)
                mine = [p for p in left if p.trial.id not in taken]
                if mine := self._unfinished(mine):  # another launch may have run them meanwhile
                    with self._pass(title, mine, lease.name) as (settings, progress):
                        self.executor.run(mine, settings, progress)
                    if any(self._is_unsaved(p.trial.id) for p in mine):
                        return False
                elif taken:
                    self._wait(lease, taken)
        return True

    def _left(self, pending: Sequence[PlannedTrial]) -> list[PlannedTrial]:
        return [p for p in self._unfinished(pending) if self._may_try(p.trial.id)]

    def _unfinished(self, trials: Sequence[PlannedTrial]) -> list[PlannedTrial]:
        finished = self._finished()
        return [p for p in trials if p.trial.id not in finished]

    def _finished(self) -> set[str]:
        return {name for name, shard in self.store.visible().items() if shard.finished}

    def _may_try(self, name: str) -> bool:
        outcome = self.outcomes.get(name)
        if outcome is None:
            return True
        if outcome.status == "lost" and outcome.error.endswith(GIVEN_UP):
            return False
        return outcome.status in RETRIED and self.tries[name] < MAX_TRIES

    def _is_unsaved(self, name: str) -> bool:
        return name in self.outcomes and self.outcomes[name].status == "unsaved"

    @contextlib.contextmanager
    def _pass(
        self, title: str, mine: Sequence[PlannedTrial], launch: str
    ) -> Generator[tuple[Settings, Progress]]:
        """What the executor needs to run these trials once."""
        settings = make_settings(self.options, self.store, launch)
        with (
            self.executor.session(self.store) as num_slots,
            Progress(title, mine, num_slots, self._record, self.store.folder) as progress,
        ):
            yield settings, progress
        for p in mine:  # an executor that says nothing of a trial is not asked again
            name = p.trial.id
            unknown = Outcome(trial_id=name, status="not started", seconds=0.0)
            self.outcomes.setdefault(name, unknown)

    def _record(self, outcome: Outcome) -> None:
        self.tries[outcome.trial_id] += 1
        self.outcomes[outcome.trial_id] = outcome

    def _wait(self, lease: LaunchLease, taken: Mapping[str, OtherLaunch]) -> None:
        """Wait until the trials of other launches are finished, or their launches are gone."""
        names = frozenset(taken)
        for other in {o.name: o for o in taken.values()}.values():
            count = sum(o.name == other.name for o in taken.values())
            _print(f"{count} trials are being run by {other}; waiting for them")
        while lease.living(names):
            if names <= self._finished():
                return
            time.sleep(WAIT_POLL)


def _print(text: str) -> None:
    print(text, flush=True)
