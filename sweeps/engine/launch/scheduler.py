"""Trials under one launch: take them, run what is missing in passes, try again what deserves it.

Every pass begins with the store: what finished meanwhile (by whomever) is not run. Trials that
another launch holds are left to it and waited for; if that launch dies, they are taken over.
"""

import argparse
import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence

from pcore.config import TrialConfig, trial_id
from sweeps.engine.launch.leases import Launch, Other
from sweeps.engine.launch.progress import Progress
from sweeps.engine.options import make_settings
from sweeps.engine.plan import PlannedTrial
from sweeps.engine.spec import Cell, Trial
from sweeps.engine.store.store import Store
from sweeps.engine.trial.attempt import Outcome, Settings
from sweeps.engine.trial.failures import MAX_TRIES, RETRIED
from sweeps.engine.trial.markers import GIVEN_UP, remove_markers

WAIT_POLL = 2.0  # seconds between two looks at trials of another launch


class Runner:
    """Runs trials under one launch, in passes, until nothing is left that is worth running."""

    def __init__(
        self,
        options: argparse.Namespace,
        store: Store,
        on_finish: Callable[[Outcome], None],
    ):
        self.options, self.store, self.on_finish = options, store, on_finish
        self.began = time.monotonic()
        self.tries: Counter[str] = Counter()
        self.last: dict[str, Outcome] = {}  # outcome of the latest try of each trial

    def run_until_done(self, title: str, pending: Sequence[PlannedTrial]) -> bool:
        """False if the launch ended early: the slice is over or results cannot be written."""
        with Launch(self.store.folder, say=self._say) as launch:
            remove_markers(self.store)
            while left := self._worth_running(pending):
                taken = launch.claim(p.trial.id for p in left)
                mine = [p for p in left if p.trial.id not in taken]
                if mine := self._unfinished(mine):  # another launch may have run them meanwhile
                    self._pass(title, mine, launch.name)
                    ended = {self.last[p.trial.id].status for p in mine if p.trial.id in self.last}
                    if ended & {"paused", "unsaved"}:
                        return False
                elif taken:
                    self._wait(launch, taken)
        return True

    def _worth_running(self, pending: Sequence[PlannedTrial]) -> list[PlannedTrial]:
        return [p for p in self._unfinished(pending) if self._deserves_a_try(p.trial.id)]

    def _unfinished(self, trials: Sequence[PlannedTrial]) -> list[PlannedTrial]:
        final = self._finished()
        return [p for p in trials if p.trial.id not in final]

    def _finished(self) -> set[str]:
        return {name for name, shard in self.store.visible().items() if shard.finished}

    def _deserves_a_try(self, name: str) -> bool:
        outcome = self.last.get(name)
        if outcome is None:
            return True
        if outcome.status == "lost" and outcome.error.endswith(GIVEN_UP):
            return False
        return outcome.status in RETRIED and self.tries[name] < MAX_TRIES

    def _pass(self, title: str, mine: Sequence[PlannedTrial], launch: str) -> None:
        def finished(outcome: Outcome) -> None:
            self.tries[outcome.trial_id] += 1
            self.last[outcome.trial_id] = outcome
            self.on_finish(outcome)

        settings = make_settings(self.options, self.store, launch, self.began)
        execute(title, mine, settings, self.options, self.store, finished)
        for p in mine:  # whatever was not heard of is not tried for ever
            self.last.setdefault(
                p.trial.id, Outcome(trial_id=p.trial.id, status="not started", seconds=0.0)
            )

    def _wait(self, launch: Launch, taken: dict[str, Other]) -> None:
        """Until the trials of other launches are finished, or their launches are gone."""
        names = frozenset(taken)
        for other in {o.name: o for o in taken.values()}.values():
            count = sum(o.name == other.name for o in taken.values())
            print(f"{count} trials are being run by {other}; waiting for them", flush=True)
        while launch.living(names):
            if names <= self._finished():
                return
            time.sleep(WAIT_POLL)

    def _say(self, text: str) -> None:
        print(text, flush=True)


def execute_configs(
    title: str, configs: Sequence[TrialConfig], options: argparse.Namespace, store: Store
) -> None:
    """Run configurations that belong to no sweep, in one launch; on return each is in the store,
    whatever became of it.

    Raises ValueError if the results folder cannot be written.
    """
    cells = [Cell(label=trial_id(config), config=config) for config in configs]
    trials = [Trial(cell=cell, config=cell.config, id=cell.label) for cell in cells]
    pending = [PlannedTrial(trial=trial, state="missing", price=None) for trial in trials]
    runner = Runner(options, store, on_finish=lambda outcome: None)
    runner.run_until_done(title, pending)
    for outcome in runner.last.values():
        if outcome.status == "unsaved":
            raise ValueError(outcome.error)


@contextlib.contextmanager
def session(options: argparse.Namespace, store: Store) -> Generator[int]:
    """What the executor needs, open until the end of the block; yields how many trials run at
    once. A session inside another one is the same.
    """
    if options.executor == "inline":
        yield 1
        return
    from sweeps.engine.launch.ray_cluster import Slots, ray_session

    address = options.ray_address or os.environ.get("RAY_ADDRESS")
    with ray_session(address, Slots(**_slots(options)), store) as num_slots:
        yield num_slots


def execute(
    title: str,
    pending: Sequence[PlannedTrial],
    settings: Settings,
    options: argparse.Namespace,
    store: Store,
    on_finish: Callable[[Outcome], None],
) -> None:
    """Run these trials once with the executor of the options."""
    with (
        session(options, store) as num_slots,
        Progress(title, pending, num_slots) as progress,
    ):
        if options.executor == "inline":
            from sweeps.engine.launch.inline import run_inline

            run_inline(pending, settings, progress, on_finish)
        else:
            from sweeps.engine.launch.ray_cluster import Slots
            from sweeps.engine.launch.ray_tune import run_on_ray

            run_on_ray(pending, settings, progress, on_finish, Slots(**_slots(options)))


def _slots(options: argparse.Namespace) -> dict[str, float]:
    """CPUs and GPUs of one trial."""
    gpus = options.gpus_per_trial
    if gpus is None:
        gpus = 1.0 if options.device.startswith("cuda") else 0.0
    return {"cpus": options.cpus_per_trial, "gpus": gpus}
