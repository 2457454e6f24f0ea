"""A sweep of two tiny cells, run inline in this process."""

import signal
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from pcore.config import TrialConfig
from pcore.training import Report
from sweeps.baseline import addition
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Sweep, arms, grid
from sweeps.engine.trial import attempt
from sweeps.engine.trial.attempt import Outcome

CONFIG = addition("smoke")


def make_sweep(**points: dict) -> Sweep:
    cells = grid(CONFIG, arm=arms(points or {"one": {}, "two": {"model.num_layers": 2}}))
    return Sweep(
        name="tiny",
        title="A tiny sweep",
        claim="A claim.",
        cells=lambda scale: cells,
        seeds={"smoke": "2", "laptop": "2", "paper": "2"},
    )


def run(sweep: Sweep, results: Path, *flags: str, report: bool = False) -> int:
    arguments = ["--scale", "smoke", "--executor", "inline", "--no-mlflow", "--results"]
    silent = () if report else ("--no-report",)
    return main(sweep, [*arguments, str(results), *silent, *flags])


def interrupt_attempt(
    config: TrialConfig, results: Path | str, number: int = signal.SIGTERM
) -> Outcome:
    """Run a trial to its next report, at which it is asked to end: raises KeyboardInterrupt."""
    return attempt_telling(config, results, lambda report: signal.raise_signal(number))


def attempt_telling(
    config: TrialConfig, results: Path | str, tell: Callable[[Report], None]
) -> Outcome:
    """Run a trial; `tell` gets each report before the attempt does."""
    real = attempt.train

    def train(*arguments, **options):
        for report in real(*arguments, **options):
            tell(report)
            yield report

    with mock.patch.object(attempt, "train", train):
        return attempt.run_attempt(config, attempt.Settings(results=str(results)))
