"""Runs trials on a Ray cluster: Tune gives chunks of them to warm, reused actors.

The store decides what runs, so Tune's own resume is not used: after a crash the same command plans
again. A trial whose worker dies is recorded as lost and retried a bounded number of times.
"""

import contextlib
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Generator, Sequence
from typing import Any

from sweeps.engine.executors.ray_cluster import (
    check_own_code,
    describe_use,
)  # sets what Ray reads when imported

# isort: split
import ray
from ray import tune

from sweeps.engine.executors.base import Resources, Tracker
from sweeps.engine.executors.worker import (
    Event,
    account_for_missing,
    make_chunks,
    replay,
    run_chunk,
)
from sweeps.engine.plan import PlannedTrial
from sweeps.engine.trial.attempt import Settings
from sweeps.engine.trial.failures import FailurePolicy
from sweeps.engine.trial.markers import MAX_LOST

ASK_SECONDS = 1.0  # between two questions of a worker what is stopped
SILENCE = 60.0  # seconds without an event after which the watchdog says so


def run_on_ray(
    pending: Sequence[PlannedTrial],
    settings: Settings,
    progress: Tracker,
    resources: Resources,
) -> None:
    """Run the trials inside a `ray_session`. Returns when none is left or on Ctrl-C."""
    check_own_code(planned.trial.config for planned in pending)
    chunks = make_chunks(pending, progress.num_slots)
    policy = SharedPolicy(ray.remote(num_cpus=0)(FailurePolicy).remote())
    scratch = tempfile.mkdtemp(prefix="pcore-tune-")
    trainable = tune.with_parameters(run_chunk, settings=settings, policy=policy, send=send_events)
    tuner = tune.Tuner(
        tune.with_resources(trainable, {"CPU": resources.cpus, "GPU": resources.gpus}),
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
    account_for_missing(pending, settings, progress)


class SharedPolicy:
    """The `FailurePolicy` in an actor that all workers tell, and copies of it which they ask: the
    others' failures count after ASK_SECONDS, a worker's own at once.
    """

    def __init__(self, actor: Any):
        self.actor, self.asked = actor, float("-inf")
        self.copy = FailurePolicy()

    def stop_reason(self, cell: str) -> str:
        if time.monotonic() - self.asked > ASK_SECONDS:
            copy: Any = ray.get(self.actor.current.remote())
            self.copy = copy
            self.asked = time.monotonic()
        return self.copy.stop_reason(cell)

    def record(self, cell: str, status: str, error: str) -> None:
        """Not waited for: calls of one worker arrive in order, so before its next question."""
        if not (status == "ok" and self.copy.any_ok):  # that tells nothing new
            self.actor.record.remote(cell, status, error)
            self.asked = float("-inf")


def send_events(events: list[Event]) -> None:
    """Runs in a worker: bring events to `_EventCallback`."""
    tune.report({"events": events})


class _EventCallback(tune.Callback):
    """Passes the events of workers on. An exception here would end the experiment."""

    def __init__(self, progress: Tracker):
        self.progress = progress

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune pickles callbacks for its own resume, which is not used

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        del iteration, trials, trial, info
        replay(result.get("events", ()), self.progress)


@contextlib.contextmanager
def _watchdog(progress: Tracker) -> Generator[None]:
    """Says once a minute that nothing moves, and what the cluster has free: Tune itself waits in
    silence.
    """
    stop = threading.Event()

    def watch() -> None:
        last_message = -SILENCE
        while not stop.wait(1.0):
            now, silent = time.monotonic(), progress.idle_seconds()
            if silent > SILENCE and now - last_message > SILENCE:
                last_message = now
                progress.say(f"no trial could be placed for {silent:.0f} s; {describe_use()}")

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
