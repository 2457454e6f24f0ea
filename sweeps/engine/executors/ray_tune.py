"""Runs trials on a Ray cluster: one trial of Tune is one trial of ours, in warm, reused actors.

The store decides what runs, so Tune's own resume is not used: after a crash the same command plans
again. A trial whose worker dies is recorded as lost and retried a bounded number of times.
"""

import contextlib
import json
import os
import re
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sweeps.engine.executors.ray_cluster import (
    check_own_code,
    describe_use,
    on_node,
)  # sets what Ray reads when imported

# isort: split
import ray
from ray import tune

from pcore.config import flatten, unflatten
from sweeps.engine.executors import Resources, Tracker
from sweeps.engine.executors.worker import Policy, account_for_missing, run_trials
from sweeps.engine.plan import PlannedTrial
from sweeps.engine.spec import Trial
from sweeps.engine.store.folder import Folder
from sweeps.engine.trial.attempt import Outcome, Settings, delayed_interrupt
from sweeps.engine.trial.failures import FailurePolicy
from sweeps.engine.trial.lost import MAX_LOST
from sweeps.engine.trial.running import attempts_at

ASK_SECONDS = 1.0  # between two questions of a worker what is stopped
SAVE_SECONDS = 30.0  # that running trials have, after an interrupt, to save their states
SILENCE = 60.0  # seconds without a sign of life after which the watchdog says so
SCRATCH = "pcore-tune-"  # what Tune writes for its own resume: a folder per driver


def run_on_ray(
    pending: Sequence[PlannedTrial],
    settings: Settings,
    progress: Tracker,
    resources: Resources,
) -> None:
    """Run the trials inside a `ray_session`. Returns when none is left or on Ctrl-C."""
    check_own_code(planned.trial.config for planned in pending)
    texts = {shown_name(one.trial): json.dumps(flatten(one.trial.config)) for one in pending}
    # Beside the driver: it outlives every node that the driver outlives.
    here = ray.get_runtime_context().get_node_id()
    policy = SharedPolicy(on_node(FailurePolicy, here).remote())
    trainable = tune.with_parameters(Worker, given=(texts, settings, policy))
    with scratch_folder() as scratch, delayed_interrupt() as interrupted:
        tuner = tune.Tuner(
            tune.with_resources(trainable, {"CPU": resources.cpus, "GPU": resources.gpus}),
            param_space={"trial": tune.grid_search(list(texts))},
            tune_config=tune.TuneConfig(
                reuse_actors=True,
                max_concurrent_trials=None,
                # Tune pickles these with every trial: functions of a module are only names.
                trial_name_creator=_name_of,
                trial_dirname_creator=_name_of,
            ),
            run_config=tune.RunConfig(
                name="trials",
                storage_path=scratch,
                verbose=0,
                stop=_Interrupt(interrupted, settings, policy, progress),
                failure_config=tune.FailureConfig(max_failures=MAX_LOST),
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                callbacks=[_EndCallback(progress)],
            ),
        )
        with _watchdog(progress), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tuner.fit()
    account_for_missing(pending, settings, progress)


class Worker(tune.Trainable):
    """Runs trials in an actor, one after another: a step is a whole trial. (Tune runs a function in
    a thread of its own and asks it twice per trial, which takes three times as long.)
    """

    def setup(
        self,
        config: dict[str, Any],
        given: tuple[Mapping[str, str], Settings, Policy] | None = None,
    ) -> None:
        """given: the configurations of all trials by their shown names, and how they are run."""
        del config
        assert given is not None
        self.texts, self.settings, self.policy = given

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Go on with another trial."""
        del new_config
        return True

    def step(self) -> dict[str, Any]:
        """Own code that a trial names is that of the sweep the user launched."""
        text = self.texts[self.config["trial"]]
        config, ended = unflatten(json.loads(text), trust_code=True), list[Outcome]()
        run_trials([config], self.settings, self.policy, ended.append)
        return {"outcome": ended[0], "done": True}


def shown_name(trial: Trial) -> str:
    """What Ray calls a trial, in its dashboard and logs: cell and seeds, and the id."""
    name = re.sub(r"[^\w.=-]+", "_", trial.name)
    return f"{name[:80]}-{trial.id}"


def _name_of(trial: Any) -> str:
    return trial.config["trial"]


@contextlib.contextmanager
def scratch_folder() -> Generator[str]:
    """A temporary folder for Tune; those of drivers that were killed are removed."""
    for left in Path(tempfile.gettempdir()).glob(f"{SCRATCH}*-*"):
        pid = left.name.removeprefix(SCRATCH).partition("-")[0]
        with contextlib.suppress(FileNotFoundError):  # another launch was faster
            if pid.isdecimal() and left.lstat().st_uid == os.getuid() and not _is_alive(int(pid)):
                shutil.rmtree(left, ignore_errors=True)
    folder = tempfile.mkdtemp(prefix=f"{SCRATCH}{os.getpid()}-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


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

    def stop(self, reason: str) -> None:
        """No trial is started any more."""
        ray.get(self.actor.stop.remote(reason))

    def record(self, cell: str, status: str, error: str) -> None:
        """Not waited for: calls of one worker arrive in order, so before its next question."""
        if not (status == "ok" and self.copy.any_ok):  # that tells nothing new
            self.actor.record.remote(cell, status, error)
            self.asked = float("-inf")


class _EndCallback(tune.Callback):
    """Tells of trials that ended. An exception here would end the experiment."""

    def __init__(self, progress: Tracker):
        self.progress = progress

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune pickles callbacks for its own resume, which is not used

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        del iteration, trials, trial, info
        try:
            self.progress.finished(result["outcome"])
        except Exception as error:
            self.progress.say(f"progress line: {type(error).__name__}: {error}")


class _Interrupt(tune.Stopper):
    """After SIGINT or SIGTERM, ends the experiment as soon as the trials that run have saved their
    states, for which the removal of their files in `running/` asks.
    """

    def __init__(
        self,
        interrupted: threading.Event,
        settings: Settings,
        policy: "SharedPolicy",
        progress: Tracker,
    ):
        self.interrupted, self.policy, self.progress = interrupted, policy, progress
        self.settings = settings
        self.asked: frozenset[str] | None = None  # trials
        self.end = float("inf")

    def __getstate__(self) -> dict[str, Any]:
        return {}  # as of `_EndCallback`

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        if not self.interrupted.is_set():
            return False
        if self.asked is None:
            self.end = time.monotonic() + SAVE_SECONDS
            self.policy.stop("interrupted")
            folder = Folder(self.settings.results)
            ours = [a for a in attempts_at(folder) if a.launch == self.settings.launch]
            folder.delete(one.file for one in ours)
            self.asked = frozenset(one.trial_id for one in ours)
        return self.asked <= self.progress.outcomes.keys() or time.monotonic() > self.end


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
