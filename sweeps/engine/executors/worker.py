"""What every executor does with a trial."""

from pcore.config import TrialConfig, trial_id, without_seeds
from sweeps.engine.trial.attempt import Outcome, Settings, run_attempt
from sweeps.engine.trial.failures import FailurePolicy


def run_trial(config: TrialConfig, settings: Settings, policy: FailurePolicy) -> Outcome:
    """Run a trial to its end in this process, unless the policy stops it."""
    cell = trial_id(without_seeds(config))
    if reason := policy.stop_reason(cell):
        return Outcome(trial_id=trial_id(config), status="stopped", seconds=0.0, error=reason)
    outcome = run_attempt(config, settings)
    policy.record(cell, outcome.status, outcome.error)
    return outcome
