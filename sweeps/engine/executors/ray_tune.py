"""Runs trials on a Ray cluster: one trial of Tune is one trial of ours, in warm, reused actors.

The store decides what runs, so Tune's own resume is not used: after a crash the same command plans
again. Tune starts a trial whose worker died again, a bounded number of times.
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
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

# It sets what Ray reads when imported.
from sweeps.engine.executors.ray_cluster import check_own_code, on_node

# isort: split
import ray
from ray import tune

from pcore.cli.models import delayed_interrupt
from pcore.config import flatten, unflatten
from sweeps.engine.executors import Executor
from sweeps.engine.executors.worker import run_trial
from sweeps.engine.spec import Trial
from sweeps.engine.store.folder import Folder
from sweeps.engine.store.store import Store
from sweeps.engine.trial.attempt import Outcome, Settings, record_dead
from sweeps.engine.trial.failures import MAX_TRIES, FailurePolicy
from sweeps.engine.trial.processes import born
from sweeps.engine.trial.running import attempts_at

SAVE_SECONDS = 30.0  # that running trials have, after an interrupt, to save their states
SCRATCH = "pcore-tune-"  # what Tune writes for its own resume: a folder per driver


def run_on_ray(
    trials: Sequence[Trial],
    settings: Settings,
    executor: Executor,
    tell: Callable[[Outcome], None],
) -> None:
    """Run the trials inside a `ray_session`. Returns when none is left or on Ctrl-C."""
    check_own_code(trial.config for trial in trials)
    texts = {shown_name(trial): json.dumps(flatten(trial.config)) for trial in trials}
    # Beside the driver: it outlives every node that the driver outlives.
    policy = on_node(FailurePolicy, ray.get_runtime_context().get_node_id()).remote()
    trainable = tune.with_parameters(Worker, given=(texts, settings, SharedPolicy(policy)))
    with scratch_folder() as scratch, delayed_interrupt() as interrupted:
        driver = _Driver(settings, policy, interrupted, tell)
        tuner = tune.Tuner(
            tune.with_resources(trainable, {"CPU": executor.cpus, "GPU": executor.gpus}),
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
                stop=driver,
                failure_config=tune.FailureConfig(max_failures=MAX_TRIES - 1),
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                callbacks=[driver],
            ),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tuner.fit()
    for trial in trials:
        if trial.id not in driver.ended:
            tell(end_lost(trial, settings))


class Worker(tune.Trainable):
    """Runs trials in an actor, one after another: a step is a whole trial. (Tune runs a function in
    a thread of its own and asks it twice per trial, which takes three times as long.)
    """

    def setup(
        self,
        config: dict[str, Any],
        given: tuple[Mapping[str, str], Settings, FailurePolicy] | None = None,
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
        config = unflatten(json.loads(text), trust_code=True)
        return {"outcome": run_trial(config, self.settings, self.policy), "done": True}


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
            if pid.isdecimal() and left.lstat().st_uid == os.getuid() and not born(int(pid)):
                shutil.rmtree(left, ignore_errors=True)
    folder = tempfile.mkdtemp(prefix=f"{SCRATCH}{os.getpid()}-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class SharedPolicy(FailurePolicy):
    """That of a launch, in an actor which all workers ask and tell."""

    def __init__(self, actor: Any):
        self.actor = actor

    def stop_reason(self, cell: str) -> str:
        reason: Any = ray.get(self.actor.stop_reason.remote(cell))
        return reason

    def record(self, cell: str, status: str, error: str) -> None:
        """Not waited for: calls of one worker arrive in order, so before its next question."""
        self.actor.record.remote(cell, status, error)


class _Driver(tune.Callback, tune.Stopper):
    """Hears of trials that ended. After SIGINT or SIGTERM it ends the experiment as soon as those
    that run have saved their states, for which the removal of their files in `running/` asks.
    """

    def __init__(
        self,
        settings: Settings,
        policy: Any,
        interrupted: threading.Event,
        tell: Callable[[Outcome], None],
    ):
        self.settings, self.policy, self.interrupted = settings, policy, interrupted
        self.tell, self.ended = tell, set[str]()
        self.asked: set[str] | None = None  # trials that ran when the interrupt came
        self.patience = float("inf")

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune pickles it for its own resume, which is not used

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        del iteration, trials, trial, info
        self.ended.add(result["outcome"].trial_id)
        self.tell(result["outcome"])

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False  # none is ended alone

    def stop_all(self) -> bool:
        if not self.interrupted.is_set():
            return False
        if self.asked is None:
            self.patience = time.monotonic() + SAVE_SECONDS
            ray.get(self.policy.record.remote("", "interrupted", "interrupted"))
            folder = Folder(self.settings.results)
            ours = [a for a in attempts_at(folder) if a.launch == self.settings.launch]
            folder.delete(one.file for one in ours)
            self.asked = {one.trial_id for one in ours}
        return self.asked <= self.ended or time.monotonic() > self.patience


def end_lost(trial: Trial, settings: Settings) -> Outcome:
    """Of a trial that Tune gave up: as the store says, or lost, if all its workers died with it."""
    store = Store(settings.results)
    ours = [a for a in attempts_at(store.folder, trial.id) if a.launch == settings.launch]
    dead = [a for a in ours if a.process.is_gone() is not False]
    shard = record_dead(store, trial.config, dead)
    status = shard.status if shard and shard.finished else "lost"
    error = f"its worker died {MAX_TRIES} times" if status == "lost" else ""
    return Outcome(trial_id=trial.id, status=status, seconds=0.0, error=error)
