"""What MLflow shows of a sweep. The only file that imports mlflow.

One experiment per sweep (or search), scale and store; in it one run for the sweep and, nested, one
for each trial, from the moment it starts: parameters, curves of training, exact match against
length (the metric's step). A run lasts as long as its trial; a newer attempt takes its place.
"""

import contextlib
import json
import math
import os
import sqlite3
import statistics
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

from pcore.config import SEEDS, TrialConfig, flatten
from sweeps.engine.launch.mirror.target import Shown, Target, sqlite_uri
from sweeps.engine.spec import seeds_text
from sweeps.engine.store.names import Shard
from sweeps.engine.store.score import exact_match, near_score, pooled_matches
from sweeps.engine.store.store import Store
from sweeps.engine.trial.running import Running

CURVES = ("loss", "learning_rate", "grad_norm")
TEXT = (".md", ".png")  # files of a report that MLflow shows
MOST = 7900  # characters of a tag
MAX_RUNS = 50_000  # that are read of an experiment
Rows: TypeAlias = Sequence[Mapping[str, Any]]

# Must be set before mlflow is imported. A server that does not answer is given up quickly.
for name, value in {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # a full pipe would stop the mirror
    "DO_NOT_TRACK": "true",
}.items():
    os.environ.setdefault(name, value)


def connect(target: Target) -> Any:
    """A client of the tracking server, or of a database, which is made if there is none.

    A broken database in the results folder is set aside: all that it showed is in the rows. Raises
    ValueError for a database of something else.
    """
    file = target.database
    if file is None:
        return _client(target.uri)
    if file.exists() and (problem := _find_problem(file)):
        if not target.is_own:
            raise ValueError(f"{file}: {problem}")
        file.replace(file.with_name(f"{file.name}.broken-{uuid.uuid4().hex[:8]}"))
    if not file.exists():
        # Under another name first: one that is half made would be neither broken nor whole.
        new = file.with_name(f".{file.name}.{uuid.uuid4().hex[:8]}.tmp")
        try:
            _client(sqlite_uri(new)).search_experiments(max_results=1)
            if not file.exists():
                new.replace(file)
        finally:
            for left in new.parent.glob(f"{new.name}*"):
                left.unlink()
    return _client(target.uri)


def _client(uri: str) -> Any:
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")  # it tells of the tables it makes
    from mlflow.tracking import MlflowClient

    # MLflow makes the folder of a database without reading the escapes in its address.
    place = Path(uri.removeprefix("sqlite:///")).parent if uri.startswith("sqlite") else Path()
    strays = [folder for folder in (place, *place.parents) if not folder.exists()]
    client = MlflowClient(tracking_uri=uri)
    if strays:
        client.search_experiments(max_results=1)
    for folder in strays:
        with contextlib.suppress(OSError):  # it is the right one, and holds the database
            folder.rmdir()
    return client


def _find_problem(file: Path) -> str:
    """Why MLflow cannot use this database; empty if it can, or it is locked. Raises ValueError if
    it belongs to another program, which is to keep it.
    """
    query = "SELECT name FROM sqlite_master WHERE type = 'table'"
    try:
        with contextlib.closing(
            sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True)
        ) as db:
            tables = {row[0] for row in db.execute(query)}
            damage = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.OperationalError:  # locked
        return ""
    except sqlite3.DatabaseError as error:
        return str(error)
    if tables and "alembic_version" not in tables:
        raise ValueError(f"{file} is a database of another program; see --tracking-uri")
    return "" if damage == "ok" else str(damage)


class Experiment:
    """What MLflow shows of one sweep at one scale. Every method raises what the server raises."""

    def __init__(
        self, client: Any, shown: Shown, store: Store, target: Target, tick: Callable[[], None]
    ):
        self.client, self.shown, self.store, self.tick = client, shown, store, tick
        self.id = self._find_experiment(target)
        client.set_experiment_tag(self.id, "mlflow.experimentKind", "custom_model_development")
        self.written = dict[str, str]()  # shard that MLflow shows, by trial
        self.parent, self.report = "", ""
        for run in self._runs():
            tags = run.data.tags
            if tags.get("pcore.view") == shown.view:
                self.parent, self.report = run.info.run_id, tags.get("pcore.report", "")
            elif name := tags.get("pcore.trial_id"):
                self.written[name] = tags.get("pcore.shard", "")
        if not self.parent:
            note = {"pcore.view": shown.view, "mlflow.note.content": shown.claim.strip()[:MOST]}
            began, _ = _span(store, list(shown.labels))
            self.parent = self._create(shown.title, note, began)
        self.varied = frozenset[str]()  # fields in which its trials differ

    def update(
        self,
        shown: Shown,
        visible: Mapping[str, Shard],
        running: Mapping[str, Running],
        report: Path,
    ) -> None:
        """Show these rows and running attempts."""
        self.shown, changed = shown, False
        open_runs = {r.data.tags.get("pcore.trial_id"): r for r in self._runs("RUNNING")}
        now = {name: one for name, one in running.items() if name in shown.labels}
        for name in shown.labels:
            shard = visible.get(name)
            if name in now and not (shard and shard.finished):
                changed |= self._follow(now[name], open_runs.get(name))
            elif shard and self.written.get(name) != shard.name:
                self._write(name, shard)
                changed = True
            elif name in open_runs:  # nobody runs it
                self.client.set_terminated(open_runs[name].info.run_id, "KILLED")
        if changed:
            self._describe(now)
        if now:
            if None not in open_runs:
                self.client.update_run(self.parent, status="RUNNING")
        elif changed or None in open_runs or self.report != stamp(report):
            self._conclude(visible, report)

    def _follow(self, one: Running, run: Any) -> bool:
        """Show how far an attempt is; its run takes the place of the one before. Whether it is
        new.
        """
        began = _milliseconds(one.started_at)
        metrics, new = list(curves_of(one.curve, one.results, began)), False
        if run is None or run.data.tags.get("attempt") != one.attempt:
            tags, new = {"pcore.status": "running", "attempt": one.attempt}, True
            before = self._find(one.trial_id)
            self._replace(before, one.trial_id, one.config, tags, began, metrics)
        else:
            last = {m.key: m.value for m in metrics}  # no question where that is shown
            shown = {key for key in last if _same(run.data.metrics.get(key), last[key])}
            metrics = [m for m in metrics if m.key not in shown]
            self._log(run.info.run_id, self._missing(run, metrics))
        return new

    def _write(self, name: str, shard: Shard) -> None:
        """Bring the run of a trial to what its visible shard says."""
        rows = self.store.load_shards([shard]).to_pylist()
        head = next(row for row in rows if row["record"] == "trial")
        began = _milliseconds(head["started_at"])
        tags = {"pcore.status": head["status"], "pcore.shard": shard.name}
        tags |= {f"pcore.{k}": str(head[k]) for k in ("code_hash", "git_commit", "host") if head[k]}
        metrics = list(metrics_of(rows, began))
        before = self._find(name)
        run = before[0] if before else None
        if run and run.data.tags.get("pcore.shard") == shard.name:
            run_id = run.info.run_id  # another process was faster
        elif run and run.info.status == "RUNNING" and run.data.tags.get("attempt"):
            run_id = run.info.run_id
            self._log(run_id, self._missing(run, metrics), tags)
        else:
            flat = json.loads(head["config_json"])
            run_id = self._replace(before, name, flat, tags, began, metrics)
        end = began + int(1000 * (head["wall_seconds"] or 0))
        status = "FINISHED" if head["status"] == "ok" else "FAILED"
        self.client.set_terminated(run_id, status, end)
        self.written[name] = shard.name
        self.tick()

    def _replace(
        self,
        before: Sequence[Any],
        name: str,
        flat: Mapping[str, Any],
        tags: Mapping[str, str],
        start: int,
        metrics: Sequence[Any],
    ) -> str:
        """A new run of a trial instead of those there are."""
        label = self.shown.labels[name]
        known = {"mlflow.parentRunId": self.parent, "pcore.trial_id": name, "pcore.cell": label}
        seeds = seeds_text(*(flat[field] for field in SEEDS))
        run = self._create(f"{label} · {seeds}", {**known, **tags}, start)
        self._log(run, metrics)
        for old in before:
            self.client.delete_run(old.info.run_id)
        return run

    def _describe(self, running: Mapping[str, Running]) -> None:
        """Parameters of the trials: what is not the default, and what differs between trials, which
        a tag says too.
        """
        from mlflow.entities import Param, RunTag

        rows = self.store.load(list(self.shown.labels), "trial", ["trial_id", "config_json"])
        configs = {row["trial_id"]: json.loads(row["config_json"]) for row in rows.to_pylist()}
        configs |= {name: one.config for name, one in running.items()}
        varied, usual = find_varied(list(configs.values()))
        defaults = flatten(TrialConfig())
        for run in self._runs():
            name = run.data.tags.get("pcore.trial_id")
            if (flat := configs.get(name)) is None:
                continue
            told = {k for k in flat if k in (*SEEDS, *varied) or k.startswith("task.")}
            said = {k: v for k, v in flat.items() if k in told or v != defaults.get(k)}
            params = [Param(k, str(v)) for k, v in said.items() if k not in run.data.params]
            differs = ", ".join(f"{k}={flat.get(k)}" for k in varied if flat.get(k) != usual[k])
            tags = [RunTag("pcore.differs", differs[:MOST] or "base")]
            if params or run.data.tags.get("pcore.differs") != tags[0].value:
                for first in range(0, max(len(params), 1), 90):  # the most of a batch is 100
                    batch = params[first : first + 90]
                    self.client.log_batch(run.info.run_id, params=batch, tags=tags)

    def _conclude(self, visible: Mapping[str, Shard], report: Path) -> None:
        """Table and figure of the sweep, of which nothing runs any more."""
        _, end = _span(self.store, list(self.shown.labels))
        files = sorted(file for file in report.glob("*") if file.suffix in TEXT)
        for file in files:
            self.client.log_artifact(self.parent, str(file), "report")
        self.client.set_tag(self.parent, "mlflow.note.content", self._note(files))
        self.report = stamp(report)
        if self.report:
            self.client.set_tag(self.parent, "pcore.report", self.report)
        ended = all(name in visible and visible[name].finished for name in self.shown.labels)
        self.client.set_terminated(self.parent, "FINISHED" if ended else "KILLED", end)

    def _note(self, files: Sequence[Path]) -> str:
        """What MLflow shows first: the claim, a figure and the table."""
        parts = [self.shown.claim.strip()]
        figures = sorted(
            (f for f in files if f.suffix == ".png"), key=lambda f: f.stem != "lengths"
        )
        for figure in figures[:1]:
            where = f"get-artifact?path=report/{quote(figure.name)}&run_uuid={self.parent}"
            parts.append(f"![{figure.stem}]({where})")
        wanted = "search.md" if self.shown.search else "table.md"
        parts += [file.read_text() for file in files if file.name == wanted]
        text = "\n\n".join(parts)
        return text if len(text) <= MOST else text[: text.rindex("\n", 0, MOST)] + "\n\n..."

    def _find_experiment(self, target: Target) -> str:
        """The experiment of this store. Its name says the store where that of the sweep belongs to
        another one on the same server. One whose artifacts are elsewhere, because the results were
        moved or copied, is set aside: nothing is written outside the results folder.
        """
        title, place = self.shown.title, artifact_location(target, self.shown.view)
        found = self.client.get_experiment_by_name(title)
        owner = found.tags.get("pcore.results", target.results) if found else target.results
        if owner != target.results and not target.is_own:
            title = f"{title} in {target.results}"
            found = self.client.get_experiment_by_name(title)
        if found and (
            found.lifecycle_stage == "deleted" or place not in (None, found.artifact_location)
        ):
            if found.lifecycle_stage == "deleted":
                self.client.restore_experiment(found.experiment_id)
            aside = f"{title}, set aside {uuid.uuid4().hex[:8]}"
            self.client.rename_experiment(found.experiment_id, aside)
            self.client.delete_experiment(found.experiment_id)
            found = None
        name = found.experiment_id if found else self.client.create_experiment(title, place)
        self.client.set_experiment_tag(name, "pcore.results", target.results)
        return name

    def _runs(self, status: str = "") -> list[Any]:
        """Its runs, or those with this status."""
        query = f"attributes.status = '{status}'" if status else ""
        return self.client.search_runs([self.id], query, max_results=MAX_RUNS)

    def _find(self, name: str) -> list[Any]:
        """The runs of a trial, those that run first."""
        found = self.client.search_runs([self.id], f"tags.`pcore.trial_id` = '{name}'")
        return sorted(found, key=lambda run: run.info.status != "RUNNING")

    def _create(self, name: str, tags: Mapping[str, str], start: int) -> str:
        cut = {key: value[:MOST] for key, value in tags.items()}
        run = self.client.create_run(self.id, start_time=start, run_name=name[:250], tags=cut)
        return run.info.run_id

    def _missing(self, run: Any, metrics: Sequence[Any]) -> list[Any]:
        """Those of the metrics that a run lacks."""
        known = dict[str, dict[int, float]]()
        for key in {m.key for m in metrics} & run.data.metrics.keys():
            history = self.client.get_metric_history(run.info.run_id, key)
            known[key] = {m.step: m.value for m in history}
        return [m for m in metrics if not _same(known.get(m.key, {}).get(m.step), m.value)]

    def _log(self, run: str, metrics: Sequence[Any], tags: Mapping[str, str] | None = None) -> None:
        from mlflow.entities import RunTag

        new = [RunTag(key, value[:MOST]) for key, value in (tags or {}).items()]
        for first in range(0, len(metrics) or bool(new), 1000):  # the most that a batch may hold
            batch = metrics[first : first + 1000]
            self.client.log_batch(run, metrics=batch, tags=[] if first else new)


def _same(one: float | None, other: float) -> bool:
    return one == other or (one is not None and math.isnan(one) and math.isnan(other))


def stamp(report: Path) -> str:
    """Names and sizes of a report's files, to see whether they changed."""
    files = sorted(report.glob("*")) if report.is_dir() else []
    return ";".join(f"{file.name}:{file.stat().st_size}" for file in files)[:MOST]


def find_varied(configs: Rows) -> tuple[list[str], dict[str, Any]]:
    """The fields in which configurations differ, beside their seeds, and what most of them have."""
    fields = dict.fromkeys(field for flat in configs for field in flat if field not in SEEDS)
    counts = {field: Counter(flat.get(field) for flat in configs) for field in fields}
    varied = [field for field, count in counts.items() if len(count) > 1]
    return varied, {field: counts[field].most_common(1)[0][0] for field in varied}


def curves_of(curve: Rows, results: Rows, began: int) -> Iterator[Any]:
    """Loss by step, exact match by length. began: when the attempt did, in milliseconds."""
    from mlflow.entities import Metric

    results = sorted(results, key=lambda row: row["length"])
    for row in curve:
        when = began + int(1000 * row["seconds"])
        for key in CURVES:
            yield Metric(key, row[key], when, row["step"])
    for row in results:
        name = f"{row['checkpoint']}/exact_match_by_length"
        name += f"_{row['second_length']}" if row["second_length"] else ""
        yield Metric(name, exact_match(row), began, row["length"])


def metrics_of(rows: Rows, began: int) -> Iterator[Any]:
    """All metrics of a trial's rows: its curves, exact match at each test length and pooled over
    each range, near score, durations.
    """
    from mlflow.entities import Metric

    evaluated = [row for row in rows if row["record"] == "evaluation"]
    yield from curves_of([row for row in rows if row["record"] == "report"], evaluated, began)
    last = [row for row in evaluated if row["checkpoint"] == "last"]
    facts = {
        f"EM at {row['length']}": exact_match(row)
        for row in last
        if row["range"] == "test" and row["second_length"] is None
    }
    keyed = ((f"{row['checkpoint']}/exact_match_{row['range']}", row) for row in evaluated)
    facts |= pooled_matches(keyed)
    if near := [near_score(row) for row in last if row["range"] == "near"]:
        facts["near_score"] = statistics.mean(near)
    (head,) = [row for row in rows if row["record"] == "trial"]
    for key in ("wall_seconds", "train_seconds", "num_parameters"):
        if head[key] is not None:
            facts[key] = float(head[key])
    for key, number in facts.items():
        yield Metric(key, number, began, 0)


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
    """Now, where a row has no date."""
    try:
        return int(1000 * datetime.fromisoformat(started_at or "").timestamp())
    except (ValueError, OverflowError):
        return int(1000 * time.time())


def artifact_location(target: Target, view: str) -> str | None:
    """Where artifacts go if no server decides it: beside the results."""
    if target.database is None:
        return None
    if "://" in target.home:
        return f"{target.home}/mlartifacts/{view}"
    return (Path(target.home) / "mlartifacts" / view).as_uri()
