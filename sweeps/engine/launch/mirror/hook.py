"""The driver's side of the mirror: a hook that passes events to a separate process.

Parquet is the record; MLflow shows it. Only that process (`process`) talks to the tracking server.
Nothing waits for it until all trials have ended and the tables are drawn; if the driver dies, it
marks open runs as killed.
"""

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pcore.config import flatten
from sweeps.engine.launch.hooks import Hook, Launch, TrialReport
from sweeps.engine.launch.mirror.target import Point, Shown, Target, match_name, shown_plan
from sweeps.engine.spec import Trial
from sweeps.engine.store.store import Store
from sweeps.engine.trial.attempt import Outcome
from sweeps.engine.trial.provenance import ROOT

PATIENCE = 60.0  # seconds without a sign of life after which the end of a launch waits no longer


def points_of(report: TrialReport) -> list[Point]:
    """What a report adds to the curves of a trial: by step, and exact match by length."""
    if not report.measured:
        names = ("loss", "learning_rate", "grad_norm")
        return [(name, getattr(report, name), report.step) for name in names]
    return [
        (
            match_name(one.checkpoint, one.second_length),
            one.num_correct / one.num_examples,
            one.length,
        )
        for one in report.measured
    ]


class Mirror(Hook):
    """Shows a launch in MLflow. artifacts: the report's folder of each plan, in their order.
    search: the plan is that of a search, to which trials are added while it runs.
    """

    patience = float("inf")  # it has its own

    def __init__(self, target: Target, artifacts: Sequence[Path], search: bool = False):
        self.target, self.artifacts, self.search = target, artifacts, search
        self.shown: list[Shown] = []
        self.process: subprocess.Popen[str] | None = None

    def on_launch(self, launch: Launch) -> None:
        self.shown = [shown_plan(plan, self.search) for plan in launch.plans]

    def on_start(self, trial: Trial) -> None:
        config, label = flatten(trial.config), trial.cell.label
        self._send({"start": trial.id, "config": config, "label": label})

    def on_report(self, trial: Trial, report: TrialReport) -> None:
        self._send({"report": trial.id, "points": points_of(report)})

    def on_finish(self, trial: Trial, outcome: Outcome) -> None:
        self._send({"finish": trial.id, "status": outcome.status})

    def on_end(self, launch: Launch, code: int | None) -> None:
        self.shown = [shown_plan(plan, self.search) for plan in launch.plans]
        if code is None or (self.process is None and self._is_complete(launch.store)):
            self.abandon()
        elif problem := self.finish():
            print(
                f"MLflow mirror incomplete ({problem}); the rows in {self.target.results} are "
                "complete",
                file=sys.stderr,
                flush=True,
            )

    def abandon(self) -> None:
        """The process sees the end of its input and marks what was running as killed."""
        for pipe in (self.process.stdin, self.process.stdout) if self.process else ():
            with contextlib.suppress(OSError):
                if pipe:
                    pipe.close()

    def finish(self) -> str:
        """Show what is missing and the reports; what went wrong, in a sentence."""
        labels = [dict(shown.labels) for shown in self.shown]
        self._send({"close": [str(folder) for folder in self.artifacts], "labels": labels})
        assert self.process is not None
        answer = self._listen(self.process)
        if answer is None:
            self.process.kill()
        with self.process as ended:  # which closes its pipes
            code = ended.wait()
        if answer is None:
            return f"{self.target.uri} took longer than {PATIENCE:.0f} s"
        return f"its process ended with code {code}" if code else answer

    def _listen(self, process: "subprocess.Popen[str]") -> str | None:
        """The last line of the process's output; None if it is silent for too long."""
        lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

        def read() -> None:
            for line in process.stdout or ():
                lines.put(line.strip())
            lines.put(None)

        threading.Thread(target=read, daemon=True).start()
        last = ""
        with contextlib.suppress(queue.Empty):
            while (line := lines.get(timeout=PATIENCE)) is not None:
                last = line
            return last
        return None

    def _is_complete(self, store: Store) -> bool:
        """Whether MLflow already shows everything, according to the notes."""
        pairs = zip(self.shown, self.artifacts, strict=True)
        return all(self.target.shows(store, shown, folder) for shown, folder in pairs)

    def _send(self, event: Mapping[str, Any]) -> None:
        if self.process is None:
            self.process = _start_process()
            self._write({"target": asdict(self.target), "shown": [asdict(s) for s in self.shown]})
        self._write({"time": int(1000 * time.time()), **event})

    def _write(self, event: Mapping[str, Any]) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # it died, which is reported at the end
            self.process.stdin.write(json.dumps(event) + "\n")
            self.process.stdin.flush()


def _start_process() -> subprocess.Popen[str]:
    """In a session of its own: Ctrl-C is for the launch, which then closes the pipe."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        [sys.executable, "-m", "sweeps.engine.launch.mirror.process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
        text=True,
        start_new_session=True,
    )
