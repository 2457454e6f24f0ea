"""The Ray executor: Tune runs chunks of trials in warm, reused actors.

The store decides what runs, so Tune's own resume is not used: after a crash the same command plans
again. A trial whose worker dies is recorded as lost and retried a bounded number of times.
"""

import contextlib
import json
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Generator, Sequence
from dataclasses import asdict
from typing import Any

from sweeps.engine.launch.ray_cluster import describe_use  # sets what Ray reads when imported

# isort: split
import ray
from ray import tune

from pcore.config import TrialConfig, flatten, trial_id, unflatten
from pcore.training.train import Report
from sweeps.engine.launch.hooks import Measured, News, TrialReport
from sweeps.engine.launch.progress import Progress
from sweeps.engine.launch.stacks import form_stacks, measure_gain
from sweeps.engine.options import Resources
from sweeps.engine.plan import PlannedTrial
from sweeps.engine.store.store import Store
from sweeps.engine.trial.attempt import Outcome, Settings
from sweeps.engine.trial.failures import FailurePolicy, cell_of
from sweeps.engine.trial.markers import MAX_LOST, record_lost
from sweeps.engine.trial.stacked_attempt import run_group

CHUNK_SECONDS = 20.0  # short trials are bundled until a chunk takes about this long
REPORT_SECONDS = 1.0  # the least time between two progress reports of a worker
SILENCE = 60.0  # seconds without an event after which the watchdog says so


def run_on_ray(
    pending: Sequence[PlannedTrial],
    settings: Settings,
    progress: Progress,
    resources: Resources,
) -> None:
    """Run the trials inside a `ray_session`, the first ones first. Returns when none is left or on
    Ctrl-C.
    """
    stacks = form_stacks(
        pending,
        settings,
        progress.num_slots,
        lambda some: measure_remotely(some, settings, resources),
    )
    chunks = make_chunks(stacks, progress.num_slots)
    policy = ray.remote(num_cpus=0)(FailurePolicy).remote()
    scratch = tempfile.mkdtemp(prefix="pcore-tune-")
    tuner = tune.Tuner(
        tune.with_resources(
            tune.with_parameters(_run_chunk, settings=asdict(settings), policy=policy),
            {"CPU": resources.cpus, "GPU": resources.gpus},
        ),
        param_space={"chunk": tune.grid_search(chunks)},
        tune_config=tune.TuneConfig(reuse_actors=True, max_concurrent_trials=None),
        run_config=tune.RunConfig(
            name="chunks",
            storage_path=scratch,
            verbose=0,
            failure_config=tune.FailureConfig(max_failures=MAX_LOST),
            callbacks=[_EventCallback(progress)],
        ),
    )
    try:
        with _watchdog(progress), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tuner.fit()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    _account_for_missing(pending, settings, progress)


def make_chunks(stacks: Sequence[Sequence[PlannedTrial]], num_slots: int) -> list[list[list[str]]]:
    """Stacks of trials as JSON, bundled in their order so that a chunk takes about CHUNK_SECONDS,
    but every slot gets a few chunks.
    """
    seconds = [
        sum(planned.price.seconds if planned.price else CHUNK_SECONDS for planned in stack)
        for stack in stacks
    ]
    enough = min(CHUNK_SECONDS, sum(seconds) / (4 * num_slots))
    chunks: list[list[list[str]]] = []
    filled = enough
    for stack, cost in zip(stacks, seconds, strict=True):
        if filled >= enough:
            chunks.append([])
            filled = 0.0
        chunks[-1].append(_to_json([planned.trial.config for planned in stack]))
        filled += cost
    return chunks


def measure_remotely(
    configs: Sequence[TrialConfig], settings: Settings, resources: Resources
) -> float:
    """The gain of a stack, measured on a slot of the cluster."""
    task = ray.remote(_measure_texts).options(num_cpus=resources.cpus, num_gpus=resources.gpus)
    return ray.get(task.remote(_to_json(configs), asdict(settings)))


def _measure_texts(texts: Sequence[str], settings: dict[str, Any]) -> float:
    return measure_gain(_from_json(texts), Settings(**settings))


def _to_json(configs: Sequence[TrialConfig]) -> list[str]:
    return [json.dumps(flatten(config)) for config in configs]


def _from_json(texts: Sequence[str]) -> list[TrialConfig]:
    """In a worker: own code that a trial names is that of the sweep the user launched."""
    return [unflatten(json.loads(text), trust_code=True) for text in texts]


def _run_chunk(parameters: dict[str, Any], settings: dict[str, Any], policy: Any) -> None:
    """Runs in a worker: the stacks of one chunk, skipping trials that an earlier try of the chunk
    finished and those whose siblings failed.
    """
    reporter = WorkerReporter()
    for texts in parameters["chunk"]:
        configs = {trial_id(config): config for config in _from_json(texts)}
        cells = {name: cell_of(config) for name, config in configs.items()}
        for name, cell in cells.items():
            if reason := str(ray.get(policy.stop_reason.remote(cell))):
                del configs[name]
                stopped = Outcome(trial_id=name, status="stopped", seconds=0.0, error=reason)
                reporter.finished(stopped)
        if not configs:
            continue
        reporter.started(list(configs))
        for outcome in run_group(
            list(configs.values()), Settings(**settings), reporter.advanced, reporter.say
        ):
            # Not waited for: calls of one worker arrive in order, so before its next question.
            policy.record.remote(cells[outcome.trial_id], outcome.status, outcome.error)
            reporter.finished(outcome)
    reporter.flush()


class WorkerReporter:
    """Sends events from a worker to the driver. A message costs some milliseconds in Tune, so
    reports are collected, and the end of a trial is sent together with the start of the next one.
    """

    def __init__(self):
        self.events: list[dict[str, Any]] = []
        self.news = News()
        self.sent = float("-inf")  # when the last reports were

    def started(self, names: Sequence[str]) -> None:
        for name in names:
            self.news.begin(name)
            self.events.append({"trial": name, "stacked": len(names)})
        self.flush()

    def advanced(self, name: str, report: Report) -> None:
        if new := self.news.read(name, report):
            self.events.append({"trial": name, "report": asdict(new)})
        if self.events and time.monotonic() - self.sent > REPORT_SECONDS:
            self.flush()

    def say(self, text: str) -> None:
        self.events.append({"say": text})
        self.flush()

    def finished(self, outcome: Outcome) -> None:
        self.events.append({"outcome": asdict(outcome)})

    def flush(self) -> None:
        if self.events:
            tune.report({"events": json.dumps(self.events)})
            self.events, self.sent = [], time.monotonic()


class _EventCallback(tune.Callback):
    """Passes the events of workers to the progress line. An exception here would end the
    experiment, so none escapes.
    """

    def __init__(self, progress: Progress):
        self.progress = progress

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune pickles callbacks for its own resume, which is not used

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        del iteration, trials, trial, info
        for event in json.loads(result.get("events", "[]")):
            try:
                self._handle(event)
            except Exception as error:
                self.progress.say(f"progress line: {type(error).__name__}: {error}")

    def _handle(self, event: dict[str, Any]) -> None:
        if "outcome" in event:
            self.progress.finished(Outcome(**event["outcome"]))
        elif "say" in event:
            self.progress.say(event["say"])
        elif "stacked" in event:
            self.progress.begin(event["trial"], event["stacked"])
        else:
            measured = tuple(Measured(**one) for one in event["report"].pop("measured"))
            report = TrialReport(**event["report"], measured=measured)
            self.progress.advanced(event["trial"], report)


def _account_for_missing(
    pending: Sequence[PlannedTrial], settings: Settings, progress: Progress
) -> None:
    """Record trials without an outcome, whose workers died more often than Tune retries."""
    store = Store(settings.results)
    for planned in pending:
        name = planned.trial.id
        if name in progress.outcomes:
            continue
        shard = store.visible_shard(name)
        if shard is None or not shard.finished:
            record_lost(store, planned.trial.config, settings.launch)
            shard = store.visible_shard(name)
        status = shard.status if shard is not None else "lost"
        error = "its worker died" if status == "lost" else ""
        progress.finished(Outcome(trial_id=name, status=status, seconds=0.0, error=error))


@contextlib.contextmanager
def _watchdog(progress: Progress) -> Generator[None]:
    """Says once a minute that nothing moves, and what the cluster has free: Tune itself waits in
    silence.
    """
    stop = threading.Event()

    def watch() -> None:
        last_message = -SILENCE
        while not stop.wait(1.0):
            now = time.monotonic()
            silent = now - progress.last_activity
            if silent > SILENCE and not progress.steps and now - last_message > SILENCE:
                last_message = now
                progress.say(f"no trial could be placed for {silent:.0f} s; {describe_use()}")

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
