"""The Ray cluster of a launch: connects or starts one, checks and describes its nodes.

This file and ray_tune.py are the only ones that import ray.
"""

import contextlib
import logging
import os
import platform
import uuid
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
os.environ.setdefault("TUNE_DISABLE_SIGINT_HANDLER", "1")  # Ctrl-C ends the launch, not a pass
os.environ.setdefault("TUNE_GLOBAL_CHECKPOINT_S", "86400")  # for its own resume, which is not used
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")  # Tune's own table would break the progress line
os.environ.setdefault(
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0"
)  # workers without a GPU keep theirs

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import pcore
from pcore.cli.parser import first_line
from pcore.config import TrialConfig, flatten, own_code
from pcore.registry import named_hash
from sweeps.engine.executors import Executor, count_cpus
from sweeps.engine.store.folder import Folder
from sweeps.engine.store.sources import hash_sources
from sweeps.engine.store.store import Store


@contextlib.contextmanager
def ray_session(executor: Executor, store: Store) -> Generator[int]:
    """Connect to a cluster, or start an embedded one without an address; yields how many trials run
    at once. Inside an open session it is that one.

    Authentication is left to Ray: an embedded cluster makes and asks for a token of its own, a
    running one needs the same RAY_AUTH_MODE and token as its head. Raises ValueError if no node has
    what one trial needs, or one differs from this process.
    """
    if ray.is_initialized():
        yield count_slots(executor, ray.nodes())
        return
    _start(executor.address)
    try:
        check_nodes(store.folder)
        yield count_slots(executor, ray.nodes())
    finally:
        ray.shutdown()


def _start(address: str | None) -> None:
    """Start or join Ray. Raises ValueError where Ray has many kinds of errors."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.init(
                address=address or "local",
                num_cpus=count_cpus() if address is None else None,
                include_dashboard=False if address is None else None,
                log_to_driver=False,
                logging_level=logging.ERROR,
                configure_logging=True,
            )
    except Exception as error:
        what = f"the Ray cluster at {address} cannot be joined" if address else "Ray cannot start"
        hint = "the head's address and token" if address else "--executor inline needs none"
        raise ValueError(f"{what}: {first_line(error)} ({hint})") from error


def check_nodes(results: Folder) -> None:
    """Prove on every node that workers run the code of this process and can write where it reads.

    Raises ValueError with the first difference.
    """
    probe = f"probe-{uuid.uuid4().hex[:8]}"
    here = describe_node(None, None)
    try:
        for name, there in ask_nodes(describe_node, results.uri, probe):
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


def check_own_code(configs: Iterable[TrialConfig]) -> None:
    """Prove on every node that workers import the own code of these trials, from the same files as
    this process. Raises ValueError with the first class that they do not.
    """
    flats = map(flatten, configs)
    named = (name for flat in flats for names in own_code(flat).values() for name in names)
    if not (own := list(dict.fromkeys(named))):
        return
    here = hash_own_code(own)
    for node, there in ask_nodes(hash_own_code, own):
        for name in own:
            module = name.partition(":")[0]
            if there[name].endswith("Error"):
                raise ValueError(
                    f"workers on node {node} cannot import {module}, own code of these trials "
                    f"({there[name]}): start in its folder, or name it in PYTHONPATH on every node"
                )
            if there[name] != here[name]:
                raise ValueError(
                    f"own code differs: {module} on node {node} is another file than here, or "
                    "imports other modules beside it"
                )


def hash_own_code(names: Sequence[str]) -> dict[str, str]:
    """Runs on a node: the hash of the source of each class, or the kind of error that it raises."""
    hashes: dict[str, str] = {}
    for name in names:
        try:
            hashes[name] = named_hash(name, "own code")
        except ValueError as error:
            hashes[name] = type(error.__cause__ or error).__name__
    return hashes


def ask_nodes(question: Callable[..., dict[str, str]], *words: Any) -> Iterator[tuple[str, Any]]:
    """Name of each living node, and what a worker on it answers."""
    for node in ray.nodes():
        if node["Alive"]:
            task = on_node(question, node["NodeID"])
            yield node["NodeManagerHostname"], ray.get(task.remote(*words))


def on_node(code: Any, node: str) -> Any:
    """A function or class that runs on this node alone, beside whatever runs there."""
    affinity = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
    return ray.remote(code).options(num_cpus=0, scheduling_strategy=affinity)


def describe_node(results: str | None, probe: str | None) -> dict[str, str]:
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
        "torch": version("torch"),
        "path": pcore.__path__[0],
        "error": error,
    }


def count_slots(executor: Executor, nodes: Sequence[Mapping[str, Any]]) -> int:
    """How many trials run at once: a trial has to fit into one node, so nodes are counted one by
    one.

    Raises ValueError if it fits into none.
    """
    needs = {"CPU": executor.cpus, "GPU": executor.gpus}
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


def describe_use() -> str:
    """Free resources of the cluster, and the actors that hold the rest."""
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
            "workers of this launch, which still start"
            if actor.job_id == mine
            else f"{actor.class_name} (job {actor.job_id}, process {actor.pid})"
            for actor in actors
            if actor.required_resources
        )
        holders = ", ".join(held) or "no actors"
    except Exception as error:  # the state service is not there in an embedded cluster
        holders = f"unknown ({type(error).__name__})"
    return f"free in the Ray cluster: {shown}; held by: {holders}"
