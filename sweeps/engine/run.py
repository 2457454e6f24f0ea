"""The Ray executor: Tune runs chunks of trials in warm, reused actors. The only file that imports
ray.

The store decides what runs, so Tune's own resume is not used: after any death the same command
plans again. A trial whose worker dies is recorded as lost and tried again, a bounded number of
times.
"""

import contextlib
import json
import logging
import os
import platform
import shutil
import tempfile
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
os.environ.setdefault("TUNE_DISABLE_SIGINT_HANDLER", "1")  # Ctrl-C ends the launch, not a pass
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")  # Tune's own table would break the progress line
os.environ.setdefault(
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0"
)  # workers without a GPU keep theirs

import ray
import torch
from ray import tune
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import pcore
from pcore.config import TrialConfig, flatten, trial_id, unflatten
from pcore.train import Report
from sweeps.engine.attempt import MAX_LOST, Outcome, Settings, record_lost
from sweeps.engine.failures import Siblings, cell_of
from sweeps.engine.plan import PlannedTrial
from sweeps.engine.progress import Progress
from sweeps.engine.provenance import hash_sources
from sweeps.engine.stacked_attempt import run_group
from sweeps.engine.stacks import form_stacks, measure_gain
from sweeps.engine.storage import Folder
from sweeps.engine.store import Store

CHUNK_SECONDS = 20.0  # short trials are bundled until a chunk takes about this long
REPORT_SECONDS = 1.0  # a worker says how far it is at most this often
SILENCE = 60.0  # seconds without any sign of life until the watchdog speaks


@dataclass(frozen=True, kw_only=True, slots=True)
class Slots:
    """What one trial occupies."""

    cpus: float = 1.0
    gpus: float = 0.0


@contextlib.contextmanager
def ray_session(address: str | None, slots: Slots, store: Store) -> Generator[int]:
    """Connect to a cluster, or start an embedded one if `address` is None; yields how many trials
    run at once. Inside an open session it is that one.

    Authentication is left to Ray: an embedded cluster makes and asks for a token of its own, a
    running one needs the same RAY_AUTH_MODE and token as its head. Raises ValueError if no node has
    what one trial needs, or one differs from this process.
    """
    if ray.is_initialized():
        yield count_slots(slots, ray.nodes())
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(
            address=address or "local",
            include_dashboard=False if address is None else None,
            log_to_driver=False,
            logging_level=logging.ERROR,
            configure_logging=True,
        )
    try:
        check_nodes(store.folder)
        yield count_slots(slots, ray.nodes())
    finally:
        ray.shutdown()


def check_nodes(results: Folder) -> list[str]:
    """Prove on every node that workers run the code of this process and can write where it reads;
    the names of the nodes.

    Raises ValueError with the first difference.
    """
    probe, names = f"probe-{uuid.uuid4().hex[:8]}", list[str]()
    here = _look_around(None, None)
    try:
        for node in ray.nodes():
            if not node["Alive"]:
                continue
            place = NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
            task = ray.remote(_look_around).options(num_cpus=0, scheduling_strategy=place)
            there, name = ray.get(task.remote(results.uri, probe)), node["NodeManagerHostname"]
            names.append(name)
            if there["error"]:
                raise ValueError(f"node {name} cannot write to {results}: {there['error']}")
            if not results.exists(probe):
                raise ValueError(
                    f"{results} on node {name} is another folder: storage must be shared"
                )
            for key in ("pcore", "python", "torch"):
                if there[key] != here[key]:
                    raise ValueError(
                        f"{key} differs: node {name} has {there[key]} ({there['path']}), "
                        f"this process {here[key]} ({here['path']})"
                    )
    finally:
        results.delete(probe)
    return names


def _look_around(results: str | None, probe: str | None) -> dict[str, str]:
    """Runs on a node: versions, and whether the results folder can be written."""
    error = ""
    if results is not None and probe is not None:
        try:
            Folder(results).write(probe, b"ok")
        except (OSError, ValueError) as failure:
            error = str(failure)
    return {
        "pcore": hash_sources(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "path": pcore.__path__[0],
        "error": error,
    }


def count_slots(slots: Slots, nodes: Sequence[Mapping[str, Any]]) -> int:
    """How many trials run at once: a trial has to fit into one node, so nodes are counted one by
    one.

    Raises ValueError if it fits into none.
    """
    needs = {"CPU": slots.cpus, "GPU": slots.gpus}
    needs = {name: need for name, need in needs.items() if need}
    alive = [node["Resources"] for node in nodes if node["Alive"]]
    room = [min(int(n.get(name, 0.0) / need + 1e-9) for name, need in needs.items()) for n in alive]
    if sum(room):
        return sum(room)
    wanted = " and ".join(f"{need:g} {name}" for name, need in needs.items())
    have = "; ".join(
        ", ".join(f"{node.get(name, 0):g} {name}" for name in ("CPU", "GPU")) for node in alive
    )
    raise ValueError(f"one trial needs {wanted} on one node; the nodes have: {have}")


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
    spoke: dict[str, float] = {}

    def tell(event: dict[str, Any]) -> None:
        tune.report({"event": json.dumps(event)})

    def on_report(name: str, report: Report) -> None:
        if time.monotonic() - spoke.get(name, 0.0) > REPORT_SECONDS:
            spoke[name] = time.monotonic()
            tell({"trial": name, "share": report.share})

    for texts in parameters["chunk"]:
        configs = {trial_id(c): c for c in (unflatten(json.loads(text)) for text in texts)}
        cells = {name: cell_of(config) for name, config in configs.items()}
        for name, cell in cells.items():
            if reason := str(ray.get(board.verdict.remote(cell))):
                del configs[name]
                outcome = Outcome(trial_id=name, status="stopped", seconds=0.0, error=reason)
                tell({"outcome": asdict(outcome)})
        for name in configs:
            tell({"trial": name, "share": 0.0, "stacked": len(configs)})
        if not configs:
            continue
        group = run_group(
            list(configs.values()),
            Settings(**settings),
            on_report,
            lambda text: tell({"say": text}),
        )
        for outcome in group:
            cell = cells[outcome.trial_id]
            ray.get(board.note.remote(cell, outcome.status, outcome.error))
            tell({"outcome": asdict(outcome)})


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
        try:
            event = json.loads(result["event"])
            if "outcome" in event:
                outcome = Outcome(**event["outcome"])
                self.progress.finished(outcome)
                self.on_finish(outcome)
            elif "say" in event:
                self.progress.say(event["say"])
            else:
                self.progress.advanced(event["trial"], event["share"], event.get("stacked", 0))
        except Exception as error:
            self.progress.say(f"progress line: {type(error).__name__}: {error}")


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
                progress.say(f"no trial could be placed for {silent:.0f} s; {_describe_use()}")

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def describe_cluster() -> list[str]:
    """A line per living node: its name, CPUs, GPUs and memory."""
    lines = list[str]()
    for node in ray.nodes():
        if node["Alive"]:
            have = node["Resources"]
            memory = have.get("memory", 0.0) / 1e9
            lines.append(
                f"{node['NodeManagerHostname']}: {have.get('CPU', 0):g} CPU, "
                f"{have.get('GPU', 0):g} GPU, {memory:.1f} GB; code and storage agree"
            )
    return lines


def _describe_use() -> str:
    """What is free in the cluster, and which actors hold the rest."""
    total, free = ray.cluster_resources(), ray.available_resources()
    shown = ", ".join(
        f"{free.get(k, 0):g} of {total[k]:g} {k}" for k in ("CPU", "GPU") if k in total
    )
    try:
        from ray.util.state import list_actors

        mine: Any = ray.get_runtime_context().get_job_id()
        actors: Any = list_actors(
            filters=[("state", "=", "ALIVE")], detail=True, limit=1000, timeout=10
        )
        held = dict.fromkeys(
            f"{actor.class_name} (job {actor.job_id}, process {actor.pid})"
            for actor in actors
            if actor.required_resources and actor.job_id != mine
        )
        holders = ", ".join(held) or "no actors of other jobs"
    except Exception as error:  # the state service is not there in an embedded cluster
        holders = f"unknown ({type(error).__name__})"
    return f"free in the Ray cluster: {shown}; held by: {holders}"
