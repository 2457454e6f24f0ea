"""What MLflow shows of a sweep. The only file that imports mlflow.

One experiment per sweep (or search) and scale; in it one run for the sweep and, nested, one for
each trial, from the moment it starts: parameters, curves of training, exact match against length
(length is the metric's step). A run lasts as long as its trial; a newer attempt takes its place.
"""

import contextlib
import functools
import json
import os
import re
import statistics
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pcore.cli.parser import first_line
from pcore.config import SEEDS
from sweeps.engine.launch.mirror.charts import SHARED_VIEW, shared_view
from sweeps.engine.launch.mirror.target import Point, Shown, Target, best_scores, match_name
from sweeps.engine.spec import seeds_text
from sweeps.engine.store.score import near_score, pooled_matches
from sweeps.engine.store.store import Shard, Store

BATCH_SECONDS = 1.0  # between two batches of curves of a sweep
CURVES = ("loss", "learning_rate", "grad_norm")

# A server that does not answer is given up quickly; must be set before mlflow is imported.
for name, value in {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
}.items():
    os.environ.setdefault(name, value)


def check_server(uri: str) -> str | None:
    """Why nothing can be written there, in a sentence; None if it can."""
    if uri.startswith("sqlite:///"):
        return None  # made on first use, beside the results
    try:
        connect(uri).search_experiments(max_results=1)
    except Exception as error:  # whatever the client raises
        return f"{uri}: {first_line(error)[:200]}"
    return None


def connect(uri: str) -> Any:
    """A client of the tracking server, or of a database, which is made if it does not exist.

    Two processes that open a new database at once break each other; so it is made under another
    name first.
    """
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")  # it tells of the tables it makes
    from mlflow.tracking import MlflowClient

    file = Path(uri.removeprefix("sqlite:///"))
    if uri.startswith("sqlite:///") and not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name(f".{file.name}.{uuid.uuid4().hex[:8]}.tmp")
        MlflowClient(tracking_uri=f"sqlite:///{new}").search_experiments(max_results=1)
        with contextlib.suppress(FileExistsError):
            os.link(new, file)
        new.unlink()
    return MlflowClient(tracking_uri=uri)


class Experiment:
    """What MLflow shows of one sweep at one scale. Every method raises what the server raises."""

    def __init__(self, client: Any, shown: Shown, store: Store, target: Target):
        self.client, self.shown, self.store, self.target = client, shown, store, target
        found = client.get_experiment_by_name(shown.title)
        location = _artifact_location(target, shown.view)
        self.id = found.experiment_id if found else client.create_experiment(shown.title, location)
        kind = {"mlflow.experimentKind": "custom_model_development"}
        for key, value in (kind | {SHARED_VIEW: shared_view()}).items():
            client.set_experiment_tag(self.id, key, value)
        self.claim = shown.claim.strip()
        self.running: dict[str, tuple[str, int]] = {}  # run and start of each running trial
        self.logged: dict[str, set[tuple[str, int]]] = {}  # metrics and steps of its run
        self.earlier: dict[str, list[Any]] = {}  # curves of the attempt before, until a report
        self.pending: dict[str, list[Any]] = {}  # metrics to send, the oldest trial first
        self.sent = float("-inf")

    @functools.cached_property
    def parent(self) -> str:
        """The run of the sweep."""
        view = self.shown.view
        if found := self._find({"pcore.view": view}):
            return found.info.run_id
        note = {"pcore.view": view, "mlflow.note.content": self.claim}
        return self._create(self.shown.title, note, _span(self.store, list(self.shown.labels))[0])

    def open(self, busy: frozenset[str]) -> None:
        """The sweep is running; runs that nobody works on any more are marked as killed. busy:
        trials of living launches.
        """
        self.client.update_run(self.parent, status="RUNNING")
        for run in self.client.search_runs([self.id], "attributes.status = 'RUNNING'"):
            name = run.data.tags.get("pcore.trial_id")
            if name is not None and name not in busy:
                self.client.set_terminated(run.info.run_id, "KILLED")

    def start(self, name: str, flat: Mapping[str, Any], now: int) -> None:
        """An attempt at a trial begins: its run takes the place of the one before, if any."""
        if name not in self.shown.labels:
            return
        before = self._find({"pcore.trial_id": name})
        if before is not None:
            self.earlier[name] = self._curves(before)
        tags = {"pcore.status": "running"}
        self.running[name] = (self._create_trial(name, flat, tags, now), now)
        self.logged[name] = set()
        if before is not None:
            self.client.delete_run(before.info.run_id)

    def report(self, name: str, points: Sequence[Point], now: int) -> None:
        """A running trial has new points on its curves; they are sent by `send`."""
        from mlflow.entities import Metric

        if name not in self.running:
            return
        metrics = [Metric(key, value, now, step) for key, value, step in points]
        first = min((m.step for m in metrics if m.key in CURVES), default=sys.maxsize)
        metrics += [m for m in self.earlier.pop(name, ()) if m.step < first]
        self.pending.setdefault(name, []).extend(metrics)

    def send(self) -> None:
        """One batch of what is pending, if it is time for one."""
        if self.pending and time.monotonic() - self.sent > BATCH_SECONDS:
            self.sent = time.monotonic()
            name = next(iter(self.pending))
            metrics = self.pending.pop(name)
            self._log(self.running[name][0], metrics)
            self.logged[name] |= {(m.key, m.step) for m in metrics}

    def stop(self, name: str, status: str, now: int) -> None:
        """The attempt has ended without rows: its run is killed, to be replaced by the next one."""
        metrics = self.pending.pop(name, [])
        if name in self.running:
            run, _ = self.running.pop(name)
            self._log(run, metrics, {"pcore.status": status})
            self.client.set_terminated(run, "KILLED", now)

    def write(self, name: str, shard: Shard, force: bool = False) -> None:
        """Bring the run of a trial to what its visible shard says; force: also if it is there."""
        if name not in self.shown.labels:
            return
        rows = self.store.load([name]).to_pylist()
        head = next(row for row in rows if row["record"] == "trial")
        began = _milliseconds(head["started_at"])
        run, start = self.running.pop(name, ("", began))
        self.pending.pop(name, None)
        logged, before = self.logged.pop(name, set[tuple[str, int]]()), None
        if not run:
            before = self._find({"pcore.trial_id": name})
            if before and not force and before.data.tags.get("pcore.shard") == shard.name:
                return
            run = self._create_trial(name, json.loads(head["config_json"]), {}, began)
        tags = {"pcore.status": head["status"], "pcore.shard": shard.name}
        tags |= {f"pcore.{k}": str(head[k]) for k in ("code_hash", "git_commit", "host") if head[k]}
        metrics = [m for m in metrics_of(rows, began) if (m.key, m.step) not in logged]
        self._log(run, metrics, tags)
        end = start + int(1000 * (head["wall_seconds"] or 0))
        self.client.set_terminated(run, "FINISHED" if head["status"] == "ok" else "FAILED", end)
        if before:
            self.client.delete_run(before.info.run_id)

    def finish(self, artifacts: Path, live: bool) -> None:
        """Summary, table and figures of the sweep; its run is over (live: now)."""
        from mlflow.entities import Metric

        _, end = _span(self.store, list(self.shown.labels))
        summary = self._summary()
        shown = {key: self._history(self.parent, key) for key in summary}
        metrics = [
            Metric(key, value, end, step)
            for key, points in summary.items()
            for step, value in points.items()
            if value not in [m.value for m in shown[key] if m.step == step][-1:]
        ]
        self._log(self.parent, metrics)
        if artifacts.is_dir():
            self.client.log_artifacts(self.parent, str(artifacts), "report")
            table = artifacts / ("slices.md" if self.shown.search else "table.md")
            if table.is_file():  # MLflow shows this note on the run's first page
                note = f"{self.claim}\n\n{table.read_text()}"
                self.client.set_tag(self.parent, "mlflow.note.content", note)
        self.client.set_terminated(self.parent, "FINISHED", None if live else end)

    def kill(self, now: int) -> None:
        """The launch is gone: nothing of it runs any more."""
        for name in list(self.running):
            self.stop(name, "interrupted", now)
        self.client.set_terminated(self.parent, "KILLED", now)

    def _summary(self) -> dict[str, dict[int, float]]:
        """Metrics of the sweep: median exact match over the trials of each cell, by length. Of a
        search: the best near score of each arm, by the number of configurations tried.
        """
        if self.shown.search:
            best = best_scores(self.store, self.shown.view)
            return {f"best near score/{_metric_name(arm)}": best[arm] for arm in best}
        columns = ["trial_id", "checkpoint", "second_length", "length"]
        columns += ["num_correct", "num_examples"]
        found: dict[str, dict[int, list[float]]] = {}
        for row in self.store.load(list(self.shown.labels), "evaluation", columns).to_pylist():
            if row["checkpoint"] != "last" or row["second_length"] is not None:
                continue
            key = f"median exact match/{_metric_name(self.shown.labels[row['trial_id']])}"
            shares = found.setdefault(key, {}).setdefault(row["length"], [])
            shares.append(row["num_correct"] / row["num_examples"])
        return {
            key: {length: statistics.median(shares) for length, shares in sorted(points.items())}
            for key, points in found.items()
        }

    def _create_trial(
        self, name: str, flat: Mapping[str, Any], tags: Mapping[str, str], start: int
    ) -> str:
        """A running run with the parameters of the trial."""
        from mlflow.entities import Param

        label = self.shown.labels[name]
        known = {"mlflow.parentRunId": self.parent, "pcore.trial_id": name, "pcore.cell": label}
        seeds = seeds_text(*(flat[field] for field in SEEDS))
        run = self._create(f"{label} · {seeds}", {**known, **tags}, start)
        self.client.log_batch(run, params=[Param(key, str(value)) for key, value in flat.items()])
        return run

    def _create(self, name: str, tags: Mapping[str, str], start: int) -> str:
        run = self.client.create_run(self.id, start_time=start, run_name=name, tags=dict(tags))
        return run.info.run_id

    def _find(self, tags: Mapping[str, str]) -> Any:
        query = " and ".join(f"tags.`{key}` = '{value}'" for key, value in tags.items())
        found = self.client.search_runs([self.id], query, max_results=1)
        return found[0] if found else None

    def _curves(self, run: Any) -> list[Any]:
        return [m for key in CURVES if key in run.data.metrics for m in self._history(run, key)]

    def _history(self, run: Any, key: str) -> Sequence[Any]:
        run_id = run if isinstance(run, str) else run.info.run_id
        return self.client.get_metric_history(run_id, key)

    def _log(self, run: str, metrics: Sequence[Any], tags: Mapping[str, str] | None = None) -> None:
        from mlflow.entities import RunTag

        new = [RunTag(key, value) for key, value in (tags or {}).items()]
        for first in range(0, max(len(metrics), 1), 1000):  # the most that a batch may hold
            batch = metrics[first : first + 1000]
            self.client.log_batch(run, metrics=batch, tags=[] if first else new)


def _metric_name(label: str) -> str:
    """What MLflow allows of a label in the name of a metric."""
    return re.sub(r"[^\w\-. /]", "", label)


def metrics_of(rows: Sequence[Mapping[str, Any]], began: int) -> Iterator[Any]:
    """Metrics of a trial's rows: loss by step, exact match by length, pooled exact match, near
    score. began: when it did, in milliseconds.
    """
    from mlflow.entities import Metric

    for row in rows:
        if row["record"] == "report":
            when = began + int(1000 * row["seconds"])
            for key in CURVES:
                yield Metric(key, row[key], when, row["step"])
        elif row["record"] == "evaluation":
            policy, share = row["checkpoint"], row["num_correct"] / row["num_examples"]
            yield Metric(match_name(policy, row["second_length"]), share, began, row["length"])
        else:
            for key in ("wall_seconds", "train_seconds", "num_parameters"):
                if row[key] is not None:
                    yield Metric(key, float(row[key]), began, 0)
    evaluated = [row for row in rows if row["record"] == "evaluation"]
    keyed = ((f"{row['checkpoint']}/exact_match_{row['range']}", row) for row in evaluated)
    for key, share in pooled_matches(keyed).items():
        yield Metric(key, share, began, 0)
    near = [row for row in evaluated if row["range"] == "near" and row["checkpoint"] == "last"]
    if near:
        yield Metric("near_score", statistics.mean(map(near_score, near)), began, 0)


def _span(store: Store, names: Sequence[str]) -> tuple[int, int]:
    """When the first of these trials began and the last one ended, in milliseconds; now, if none
    has.
    """
    columns = ["started_at", "wall_seconds"]
    rows = [r for r in store.load(names, "trial", columns).to_pylist() if r["started_at"]]
    began = [_milliseconds(row["started_at"]) for row in rows]
    ended = [t + int(1000 * (r["wall_seconds"] or 0)) for t, r in zip(began, rows, strict=True)]
    now = int(1000 * time.time())
    return min(began, default=now), max(ended, default=now)


def _milliseconds(started_at: str | None) -> int:
    when = datetime.fromisoformat(started_at).timestamp() if started_at else time.time()
    return int(1000 * when)


def _artifact_location(target: Target, view: str) -> str | None:
    """Where artifacts go if no server decides it: beside the results."""
    if target.database is None:
        return None
    if "://" in target.home:
        return f"{target.home}/mlartifacts/{view}"
    return (Path(target.home) / "mlartifacts" / view).as_uri()
