"""The Ray executor: Tune runs chunks of trials in warm, reused actors.

The store decides what runs, so Tune's own resume is not used: after any death the same command
plans again. A trial whose worker dies is recorded as lost and tried again, a bounded number of
times.
"""

import contextlib
import json
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict
from typing import Any

from sweeps.engine.launch.ray_cluster import (  # sets what Ray reads when imported
    Slots,
    describe_use,
)

# isort: split
import ray
from ray import tune

from pcore.config import TrialConfig, flatten, trial_id, unflatten
from pcore.training.train import Report
from sweeps.engine.launch.progress import Progress
from sweeps.engine.launch.stacks import form_stacks, measure_gain
from sweeps.engine.plan import PlannedTrial
from sweeps.engine.store.store import Store
from sweeps.engine.trial.attempt import Outcome, Settings
from sweeps.engine.trial.failures import Siblings, cell_of
from sweeps.engine.trial.markers import MAX_LOST, record_lost
from sweeps.engine.trial.stacked_attempt import run_group

CHUNK_SECONDS = 20.0  # short trials are bundled until a chunk takes about this long
REPORT_SECONDS = 1.0  # a worker says how far it is at most this often
SILENCE = 60.0  # seconds without any sign of life until the watchdog speaks


def run_on_ray(
    pending: Sequence[PlannedTrial],
    settings: Settings,
    progress: Progress,
    on_finish: Callable[[Outcome], None],
    slots: Slots,
) -> None:
    """Run the trials inside a `ray_session`, the first ones first. Returns when none is left or on
    Ctrl-C.
    """
    stacks = form_stacks(
        pending, settings, progress.num_slots, lambda some: _measure_there(some, settings, slots)
    )
    chunks = make_chunks(stacks, progress.num_slots)
    board = ray.remote(num_cpus=0)(Siblings).remote()
    scratch = tempfile.mkdtemp(prefix="pcore-tune-")
    tuner = tune.Tuner(
        tune.with_resources(
            tune.with_parameters(_run_chunk, settings=asdict(settings), board=board),
            {"CPU": slots.cpus, "GPU": slots.gpus},
        ),
        param_space={"chunk": tune.grid_search(chunks)},
        tune_config=tune.TuneConfig(reuse_actors=True, max_concurrent_trials=None),
        run_config=tune.RunConfig(
            name="chunks",
            storage_path=scratch,
            verbose=0,
            failure_config=tune.FailureConfig(max_failures=MAX_LOST),
            callbacks=[_Listener(progress, on_finish)],
        ),
    )
    try:
        with _watchdog(progress), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tuner.fit()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    _account_for_missing(pending, settings, progress, on_finish)


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


def _measure_there(configs: Sequence[TrialConfig], settings: Settings, slots: Slots) -> float:
    """The gain of a stack, measured on a slot of the cluster."""
    task = ray.remote(_measure_texts).options(num_cpus=slots.cpus, num_gpus=slots.gpus)
    return ray.get(task.remote(_to_json(configs), asdict(settings)))


def _measure_texts(texts: Sequence[str], settings: dict[str, Any]) -> float:
    return measure_gain([unflatten(json.loads(text)) for text in texts], Settings(**settings))


def _to_json(configs: Sequence[TrialConfig]) -> list[str]:
    return [json.dumps(flatten(config)) for config in configs]


def _run_chunk(parameters: dict[str, Any], settings: dict[str, Any], board: Any) -> None:
    """Runs in a worker: the stacks of one chunk, skipping trials that an earlier try of the chunk
    finished and those whose siblings failed.
    """
    voice = _Voice()
    for texts in parameters["chunk"]:
        configs = {trial_id(c): c for c in (unflatten(json.loads(text)) for text in texts)}
        cells = {name: cell_of(config) for name, config in configs.items()}
        for name, cell in cells.items():
            if reason := str(ray.get(board.verdict.remote(cell))):
                del configs[name]
                voice.ended(Outcome(trial_id=name, status="stopped", seconds=0.0, error=reason))
        if not configs:
            continue
        voice.began(list(configs))
        group = run_group(list(configs.values()), Settings(**settings), voice.reported, voice.say)
        for outcome in group:
            # Not waited for: calls of one worker arrive in order, so before its next question.
            board.note.remote(cells[outcome.trial_id], outcome.status, outcome.error)
            voice.ended(outcome)
    voice.flush()


class _Voice:
    """What a worker tells the driver. Each message waits for Tune, some milliseconds: the end of a
    trial goes with the beginning of the next one.
    """

    def __init__(self):
        self.events: list[dict[str, Any]] = []
        self.spoke: dict[str, float] = {}  # when it last said how far a trial is

    def began(self, names: Sequence[str]) -> None:
        for name in names:
            self.spoke[name] = time.monotonic()
            self.events.append({"trial": name, "share": 0.0, "stacked": len(names)})
        self.flush()

    def reported(self, name: str, report: Report) -> None:
        if time.monotonic() - self.spoke[name] > REPORT_SECONDS:
            self.spoke[name] = time.monotonic()
            self.events.append({"trial": name, "share": report.share})
            self.flush()

    def say(self, text: str) -> None:
        self.events.append({"say": text})
        self.flush()

    def ended(self, outcome: Outcome) -> None:
        self.events.append({"outcome": asdict(outcome)})

    def flush(self) -> None:
        if self.events:
            tune.report({"events": json.dumps(self.events)})
            self.events = []


class _Listener(tune.Callback):
    """Passes what workers report to the progress line. An exception here would end the experiment,
    so none escapes.
    """

    def __init__(self, progress: Progress, on_finish: Callable[[Outcome], None]):
        self.progress, self.on_finish = progress, on_finish

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune pickles callbacks for its own resume, which is not used

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        del iteration, trials, trial, info
        for event in json.loads(result.get("events", "[]")):
            try:
                self._heard(event)
            except Exception as error:
                self.progress.say(f"progress line: {type(error).__name__}: {error}")

    def _heard(self, event: dict[str, Any]) -> None:
        if "outcome" in event:
            outcome = Outcome(**event["outcome"])
            self.progress.finished(outcome)
            self.on_finish(outcome)
        elif "say" in event:
            self.progress.say(event["say"])
        else:
            self.progress.advanced(event["trial"], event["share"], event.get("stacked", 0))


def _account_for_missing(
    pending: Sequence[PlannedTrial],
    settings: Settings,
    progress: Progress,
    on_finish: Callable[[Outcome], None],
) -> None:
    """Trials that ended without a word: their workers died more often than Tune starts them
    again.
    """
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
        outcome = Outcome(trial_id=name, status=status, seconds=0.0, error=error)
        progress.finished(outcome)
        on_finish(outcome)


@contextlib.contextmanager
def _watchdog(progress: Progress) -> Generator[None]:
    """Says once a minute that nothing moves, and what the cluster has free: Tune itself waits in
    silence.
    """
    stop = threading.Event()

    def watch() -> None:
        spoke = -SILENCE
        while not stop.wait(1.0):
            now = time.monotonic()
            silent = now - progress.last_sign
            if silent > SILENCE and not progress.steps and now - spoke > SILENCE:
                spoke = now
                progress.say(f"no trial could be placed for {silent:.0f} s; {describe_use()}")

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
