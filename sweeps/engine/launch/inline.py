"""The inline executor: trials (or stacks of them) one after another in this process. For tests and
machines without Ray.
"""

from collections.abc import Sequence

from pcore.training.train import Report
from sweeps.engine.launch.hooks import News
from sweeps.engine.launch.progress import Progress
from sweeps.engine.launch.stacks import form_stacks, measure_gain
from sweeps.engine.plan import PlannedTrial
from sweeps.engine.trial.attempt import Outcome, Settings
from sweeps.engine.trial.failures import FailurePolicy, cell_of
from sweeps.engine.trial.stacked_attempt import run_group


def run_inline(pending: Sequence[PlannedTrial], settings: Settings, progress: Progress) -> None:
    """Run the trials in this order. An interrupt leaves the running ones to be resumed by the next
    launch.
    """
    policy, news = FailurePolicy(), News()
    cells = {planned.trial.id: cell_of(planned.trial.config) for planned in pending}

    def on_report(name: str, report: Report) -> None:
        if new := news.read(name, report):
            progress.advanced(name, new)

    for group in form_stacks(pending, settings, 1, lambda some: measure_gain(some, settings)):
        started: list[PlannedTrial] = []
        for planned in group:
            name = planned.trial.id
            if reason := policy.stop_reason(cells[name]):
                stopped = Outcome(trial_id=name, status="stopped", seconds=0.0, error=reason)
                progress.finished(stopped)
            else:
                started.append(planned)
        for planned in started:
            news.begin(planned.trial.id)
            progress.begin(planned.trial.id, len(started))
        paused = False
        configs = [planned.trial.config for planned in started]
        for outcome in run_group(configs, settings, on_report, progress.say) if configs else ():
            policy.record(cells[outcome.trial_id], outcome.status, outcome.error)
            progress.finished(outcome)
            paused = paused or outcome.status == "paused"
        if paused:
            progress.say("the slice is over; the same command resumes")
            return
