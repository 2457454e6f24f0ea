"""The loop that runs trials, and what executors share whose workers are separate processes."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from pcore.config import TrialConfig, trial_id
from sweeps.engine.executors import Tracker
from sweeps.engine.plan import PlannedTrial
from sweeps.engine.store.store import Store
from sweeps.engine.trial.attempt import Outcome, Settings, run_attempt
from sweeps.engine.trial.failures import cell_of
from sweeps.engine.trial.lost import GIVEN_UP, is_given_up, record_lost
from sweeps.engine.trial.running import attempts_at


class Policy(Protocol):
    """Which trials are no longer started; see `sweeps.engine.trial.failures.FailurePolicy`."""

    def stop_reason(self, cell: str) -> str: ...

    def record(self, cell: str, status: str, error: str) -> None: ...


def run_trials(
    configs: Iterable[TrialConfig],
    settings: Settings,
    policy: Policy,
    tell: Callable[[Outcome], None],
) -> None:
    """Run trials one after another in this process, each to its end.

    Finished trials come out as done, those that the policy stops as stopped.
    """
    for config in configs:
        name, cell = trial_id(config), cell_of(config)
        if reason := policy.stop_reason(cell):
            tell(Outcome(trial_id=name, status="stopped", seconds=0.0, error=reason))
            continue
        outcome = run_attempt(config, settings)
        policy.record(cell, outcome.status, outcome.error)
        tell(outcome)


def account_for_missing(
    pending: Sequence[PlannedTrial], settings: Settings, progress: Tracker
) -> None:
    """End trials of which nothing was heard: as the store says, or as lost if their workers died
    with them.
    """
    store = Store(settings.results)
    for planned in pending:
        name = planned.trial.id
        if name in progress.outcomes:
            continue
        shard = store.visible_shard(name)
        if shard is None or not shard.finished:
            ours = (a for a in attempts_at(store.folder, name) if a.launch == settings.launch)
            dead = [one for one in ours if one.process.is_gone() is not False]
            record_lost(store, planned.trial.config, dead)
            shard = store.visible_shard(name)
        status = shard.status if shard is not None else "lost"
        error = ""
        if status == "lost":
            given_up = is_given_up(store, planned.trial.config, settings.launch)
            error = GIVEN_UP if given_up else "its worker died"
        progress.finished(Outcome(trial_id=name, status=status, seconds=0.0, error=error))
