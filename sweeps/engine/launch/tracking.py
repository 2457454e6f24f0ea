"""The MLflow mirror of a sweep. The only file that imports mlflow.

Parquet is the truth; MLflow shows it: one parent run per sweep and scale, one nested run per trial
with parameters, loss curve and exact match against length (length is the metric's step). The mirror
works in a thread of its own, reads finished shards and writes each with one batch. A dead or slow
tracking server costs the sweep nothing: what could not be written is said once, at the end.
"""

import contextlib
import functools
import json
import math
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pcore.config import SEEDS
from sweeps.engine.plan import Plan
from sweeps.engine.store.store import Shard, Store

SAVE_SECONDS = 2.0  # how often at most is noted what was mirrored

# A server that does not answer is given up quickly; must be set before mlflow is imported.
for name, value in {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
}.items():
    os.environ.setdefault(name, value)


def find_uri(option: str | None, store: Store) -> str:
    """The tracking URI: the option, $MLFLOW_TRACKING_URI, or SQLite in the results folder (in the
    working folder if the results are remote).
    """
    return option or os.environ.get("MLFLOW_TRACKING_URI") or local_uri(store)


def check_server(uri: str) -> str | None:
    """Why nothing can be written there, in a sentence; None if it can."""
    if uri.startswith("sqlite:///"):
        return None  # made on first use, beside the results
    try:
        from mlflow.tracking import MlflowClient

        MlflowClient(tracking_uri=uri).search_experiments(max_results=1)
    except Exception as error:  # whatever the client raises
        return f"{uri}: {(str(error).strip().splitlines() or [''])[0][:200]}"
    return None


def local_uri(store: Store) -> str:
    """The tracking URI of a store without a server."""
    place = Path.cwd() if store.folder.remote else store.folder.local
    return f"sqlite:///{place / 'mlflow.db'}"


def _artifact_location(view: str, store: Store, uri: str) -> str | None:
    """Where artifacts go if no server decides it: beside the results."""
    if not uri.startswith("sqlite"):
        return None
    if store.folder.remote:
        return f"{store.root}/mlartifacts/{view}"
    return (store.folder.local / "mlartifacts" / view).as_uri()


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """What MLflow shows of a sweep at a scale. labels: the cell of each trial, by trial id."""

    sweep: str
    scale: str
    claim: str
    labels: Mapping[str, str]

    @property
    def view(self) -> str:
        return f"{self.sweep}-{self.scale}"


def shown_plan(plan: Plan) -> Shown:
    """A plan, for the mirror."""
    labels = {planned.trial.id: planned.trial.cell.label for planned in plan.trials}
    return Shown(sweep=plan.sweep.name, scale=plan.scale, claim=plan.sweep.claim, labels=labels)


def shown_view(store: Store, sweep: str, scale: str) -> Shown:
    """A view of the store, for the mirror. Raises ValueError if there is none."""
    rows = store.load_view(sweep, scale).to_pylist()
    labels = {row["trial_id"]: row["cell"] for row in rows}
    return Shown(sweep=sweep, scale=scale, claim=rows[0]["claim"], labels=labels)


class Mirror:
    """Mirrors the trials of one sweep; `add` and `close` never raise and never wait for the
    server.
    """

    def __init__(self, shown: Shown, store: Store, uri: str, anew: bool = False):
        """`anew`: also what was mirrored before."""
        self.shown, self.store, self.uri = shown, store, uri
        self.queue: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.artifacts = Path()
        self.problem: str | None = None
        self.written = {} if anew else _read_written(store, shown.view, uri)
        self.changed, self.saved = False, time.monotonic()
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def add(self, trial_id: str) -> None:
        """Mirror the visible shard of this trial soon."""
        self.queue.put(trial_id)

    def close(self, artifacts: Path, patience: float = 60.0) -> str | None:
        """Mirror what is left and the files of the report; the problem, if there was one, in a
        sentence.
        """
        self.artifacts = artifacts
        self.queue.put(None)
        self.thread.join(timeout=None if patience == math.inf else patience)
        if self.thread.is_alive():
            self.problem = f"{self.uri} took longer than {patience:.0f} s"
        return self.problem

    def _work(self) -> None:
        try:
            while (trial_id := self.queue.get()) is not None:
                self._write(trial_id, self.store.visible_shard(trial_id))
            visible = self.store.visible()
            for trial_id in self.shown.labels:
                self._write(trial_id, visible.get(trial_id))
            stamp = _stamp(self.artifacts)
            if self.written.get("artifacts") != stamp:
                self.session.finish(self.artifacts)
                self.written["artifacts"] = stamp
                self.changed = True
        except Exception as error:  # whatever the tracking server does, the sweep goes on
            text = (str(error).strip().splitlines() or [""])[0]
            self.problem = f"{type(error).__name__}: {text[:200]}"
        self._save_written()

    @functools.cached_property
    def session(self) -> "_Session":
        return _Session(self.shown, self.store, self.uri)

    def _write(self, trial_id: str, shard: Shard | None) -> None:
        """Mirror a trial unless its visible shard is the one that was mirrored last."""
        label = self.shown.labels.get(trial_id)
        if label is None or shard is None or self.written.get(trial_id) == shard.name:
            return
        self.session.write_trial(trial_id, label)
        self.written[trial_id], self.changed = shard.name, True
        if time.monotonic() - self.saved > SAVE_SECONDS:
            self._save_written()

    def _save_written(self) -> None:
        """Note what was mirrored; what is forgotten is mirrored once more, in place of the old."""
        if not self.changed:
            return
        self.saved, self.changed = time.monotonic(), False
        text = json.dumps({"uri": self.uri, "written": self.written})
        with contextlib.suppress(OSError):
            self.store.folder.write(_written_file(self.shown.view), text.encode())


class _Session:
    """A connection to the tracking store and the parent run of the sweep."""

    def __init__(self, shown: Shown, store: Store, uri: str):
        if uri.startswith("sqlite:///"):
            # Two processes that open a new database at once break each other; creating it first
            # avoids that.
            command = [sys.executable, "-m", "mlflow", "db", "upgrade", uri]
            if not Path(uri.removeprefix("sqlite:///")).exists():
                subprocess.run(command, check=True, capture_output=True)
        from mlflow.tracking import MlflowClient

        self.client = MlflowClient(tracking_uri=uri)
        self.store = store
        name, view = f"{shown.sweep} [{shown.scale}]", shown.view
        experiment = self.client.get_experiment_by_name(name)
        location = _artifact_location(view, store, uri)
        self.experiment = (
            experiment.experiment_id
            if experiment
            else self.client.create_experiment(name, location)
        )
        self.client.set_experiment_tag(
            self.experiment, "mlflow.experimentKind", "custom_model_development"
        )
        self.claim = shown.claim.strip()
        self.parent = self._find({"pcore.view": view}) or self._create(
            name, {"pcore.view": view, "mlflow.note.content": self.claim}
        )

    def write_trial(self, trial_id: str, label: str) -> None:
        """One nested run: parameters, curves and exact match of one trial, in one go."""
        from mlflow.entities import Metric, Param

        rows = self.store.load([trial_id]).to_pylist()
        head = next(row for row in rows if row["record"] == "trial")
        tags = {"mlflow.parentRunId": self.parent, "pcore.trial_id": trial_id}
        tags |= {"pcore.cell": label, "pcore.status": head["status"]}
        tags |= {f"pcore.{k}": str(head[k]) for k in ("code_hash", "git_commit", "host") if head[k]}
        run_id = self._find({"pcore.trial_id": trial_id, "mlflow.parentRunId": self.parent})
        if run_id is not None:
            self.client.delete_run(run_id)  # a newer attempt replaces what the mirror showed
        name = f"{label} · {seeds_text(json.loads(head['config_json']))}"
        run_id = self._create(name, tags)
        params = [Param(key, str(value)) for key, value in json.loads(head["config_json"]).items()]
        metrics = [
            Metric(*metric) for metric in metrics_of(rows, _milliseconds(head["started_at"]))
        ]
        for first in range(0, max(len(metrics), 1), 1000):
            batch = metrics[first : first + 1000]
            self.client.log_batch(run_id, metrics=batch, params=[] if first else params)
        self.client.set_terminated(run_id, "FINISHED" if head["status"] == "ok" else "FAILED")

    def finish(self, artifacts: Path) -> None:
        """Attach table and figure to the parent run and close it."""
        if artifacts.is_dir():
            self.client.log_artifacts(self.parent, str(artifacts), "report")
            table = artifacts / "table.md"
            if table.is_file():  # MLflow shows this note on the run's first page
                note = f"{self.claim}\n\n{table.read_text()}"
                self.client.set_tag(self.parent, "mlflow.note.content", note)
        self.client.set_terminated(self.parent, "FINISHED")

    def _create(self, name: str, tags: Mapping[str, str]) -> str:
        run = self.client.create_run(self.experiment, run_name=name, tags=dict(tags))
        return run.info.run_id

    def _find(self, tags: Mapping[str, str]) -> str | None:
        query = " and ".join(f"tags.`{key}` = '{value}'" for key, value in tags.items())
        found = self.client.search_runs([self.experiment], query, max_results=1)
        return found[0].info.run_id if found else None


def metrics_of(
    rows: Sequence[Mapping[str, Any]], began: int
) -> Iterator[tuple[str, float, int, int]]:
    """(name, value, time in ms, step) of a trial's rows: loss by step, exact match by length,
    pooled exact match.
    """
    pooled: dict[str, list[int]] = {}
    for row in rows:
        if row["record"] == "report":
            when = began + int(1000 * row["seconds"])
            for name in ("loss", "learning_rate", "grad_norm"):
                yield name, row[name], when, row["step"]
        elif row["record"] == "evaluation":
            policy, second = row["checkpoint"], row["second_length"]
            name = "exact_match_by_length" + (f"_{second}" if second is not None else "")
            share = row["num_correct"] / row["num_examples"]
            yield f"{policy}/{name}", share, began, row["length"]
            sums = pooled.setdefault(f"{policy}/exact_match_{row['range']}", [0, 0])
            sums[0] += row["num_correct"]
            sums[1] += row["num_examples"]
        else:
            for name in ("wall_seconds", "train_seconds", "num_parameters"):
                if row[name] is not None:
                    yield name, float(row[name]), began, 0
    for name, (correct, examples) in pooled.items():
        yield name, correct / examples, began, 0


def seeds_text(flat: Mapping[str, Any]) -> str:
    """ "seed 0", or both seeds where they differ."""
    seed, data_seed = (flat[name] for name in SEEDS)
    return f"seed {seed}" if seed == data_seed else f"seed {seed}, data seed {data_seed}"


def _milliseconds(started_at: str | None) -> int:
    from datetime import datetime

    when = datetime.fromisoformat(started_at).timestamp() if started_at else time.time()
    return int(1000 * when)


def _written_file(view: str) -> str:
    return f"mirrored/{view}.json"


def _read_written(store: Store, view: str, uri: str) -> dict[str, str]:
    """What the mirror at this URI holds already; empty if it was deleted."""
    if uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).exists():
        return {}
    try:
        saved = json.loads(store.folder.read(_written_file(view)))
        return dict(saved["written"]) if saved["uri"] == uri else {}
    except (OSError, ValueError, TypeError, LookupError):
        return {}


def _stamp(folder: Path) -> str:
    """Names and sizes of the report's files, to see whether they changed."""
    files: Iterable[Path] = sorted(folder.glob("*")) if folder.is_dir() else []
    return ";".join(f"{file.name}:{file.stat().st_size}" for file in files)
