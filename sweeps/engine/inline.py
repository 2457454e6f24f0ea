"""The inline executor: trials one after another in this process. For tests and machines without
Ray.
"""

from collections.abc import Callable, Sequence

from sweeps.engine.attempt import Outcome, Settings, run_attempt
from sweeps.engine.failures import Siblings, cell_of
from sweeps.engine.plan import PlannedTrial
from sweeps.engine.progress import Progress


def run_inline(
    pending: Sequence[PlannedTrial],
    settings: Settings,
    progress: Progress,
    on_finish: Callable[[Outcome], None],
) -> None:
    """Run the trials in this order. An interrupt leaves the running one to be resumed by the next
    launch.
    """
    siblings = Siblings()
    for planned in pending:
        name, cell = planned.trial.id, cell_of(planned.trial.config)
        if reason := siblings.verdict(cell):
            outcome = Outcome(trial_id=name, status="stopped", seconds=0.0, error=reason)
        else:
            progress.advanced(name, 0.0)
            outcome = run_attempt(
                planned.trial.config,
                settings,
                on_report=lambda report, name=name: progress.advanced(name, report.share),
            )
            siblings.note(cell, outcome.status, outcome.error)
        progress.finished(outcome)
        on_finish(outcome)
        if outcome.status == "paused":
            progress.say("the slice is over; the same command continues")
            return
