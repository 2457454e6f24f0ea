"""Curves of a launch for Weights & Biases: `--hook sweeps.hooks.wandb:WandB`.

Needs `pip install wandb` and a login, or WANDB_MODE=offline; WANDB_PROJECT names the project.
"""

import importlib
import uuid
from typing import Any

from pcore.config import flatten
from sweeps.engine.launch.hooks import Hook, Launch, TrialReport
from sweeps.engine.spec import Trial
from sweeps.engine.trial.attempt import Outcome

LONGEST = 128  # characters of a name or a group


class WandB(Hook):
    """A run for each trial, in the group of its cell: curves by step, exact match by length."""

    def __init__(self):
        self.wandb: Any = importlib.import_module("wandb")
        self.runs: dict[str, Any] = {}
        self.title = ""

    def on_launch(self, launch: Launch) -> None:
        self.title = launch.title

    def on_start(self, trial: Trial) -> None:
        try:
            run = self._start(trial, trial.id)
        except Exception:  # a run that was deleted keeps its id
            run = self._start(trial, f"{trial.id}-{uuid.uuid4().hex[:6]}")
        run.define_metric("exact_match/*", step_metric="length")
        self.runs[trial.id] = run

    def _start(self, trial: Trial, name: str) -> Any:
        return self.wandb.init(
            id=name,
            resume="allow",
            name=trial.name[-LONGEST:],  # its end has the seeds
            group=trial.cell.label[:LONGEST],
            tags=[self.title[:64]],
            config=flatten(trial.config),
            reinit="create_new",  # several trials run at once
        )

    def on_report(self, trial: Trial, report: TrialReport) -> None:
        run = self.runs[trial.id]
        if not report.measured:
            names = ("step", "loss", "learning_rate", "grad_norm")
            run.log({name: getattr(report, name) for name in names})
        for one in report.measured:
            share = one.num_correct / one.num_examples
            run.log({f"exact_match/{one.curve}": share, "length": one.length})

    def on_finish(self, trial: Trial, outcome: Outcome) -> None:
        if run := self.runs.pop(trial.id, None):
            run.finish(exit_code=0 if outcome.status == "ok" else 1)
