"""Curves of a launch for TensorBoard: `--hook sweeps.hooks.tensorboard:TensorBoard`.

Files go to $PCORE_TENSORBOARD, else ./runs; `tensorboard --logdir runs` shows them. Needs
tensorboardX (Ray brings it along) or torch with tensorboard.
"""

import importlib
import os
from pathlib import Path
from typing import Any

from sweeps.engine.launch.hooks import Hook, TrialReport
from sweeps.engine.spec import Trial
from sweeps.engine.trial.attempt import Outcome


class TensorBoard(Hook):
    """A folder of events for each trial: curves by step, exact match by length."""

    def __init__(self):
        try:
            self.module: Any = importlib.import_module("tensorboardX")
        except ImportError:
            self.module = importlib.import_module("torch.utils.tensorboard")
        self.folder = Path(os.environ.get("PCORE_TENSORBOARD", "runs"))
        self.writers: dict[str, Any] = {}

    def on_start(self, trial: Trial) -> None:
        name = f"{trial.name} ({trial.id})".replace("/", "_")
        self.writers[trial.id] = self.module.SummaryWriter(str(self.folder / name))

    def on_report(self, trial: Trial, report: TrialReport) -> None:
        writer = self.writers[trial.id]
        if not report.measured:
            for name in ("loss", "learning_rate", "grad_norm"):
                writer.add_scalar(name, getattr(report, name), report.step)
        for one in report.measured:
            share = one.num_correct / one.num_examples
            writer.add_scalar(f"exact_match_by_length/{one.curve}", share, one.length)

    def on_finish(self, trial: Trial, outcome: Outcome) -> None:
        if writer := self.writers.pop(trial.id, None):
            writer.close()
