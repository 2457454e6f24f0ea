"""Markers of running trials (`RESULTS/running/<trial_id>.json`).

If an attempt finds a marker, its owner is dead: a trial belongs to one launch (see `leases`) and
within it to one worker. A worker killed right after its shard leaves a meaningless marker; the next
launch removes it.
"""

import json
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from pcore.config import TrialConfig, trial_id
from sweeps.engine.store.folder import Folder, StorageFailed
from sweeps.engine.store.names import KINDS
from sweeps.engine.store.store import Store
from sweeps.engine.trial.processes import Process, this_process
from sweeps.engine.trial.provenance import code_provenance

MAX_LOST = 3  # a trial that took this many workers with it in one launch is not started again
GIVEN_UP = f"its worker died {MAX_LOST} times"
ZOMBIE_SECONDS = 20.0  # how long the last worker of a dead launch may take to end


@contextmanager
def running_marker(folder: Folder, name: str, launch: str) -> Generator[None]:
    """The file that says who runs the trial, for as long as it runs."""
    marker, now = _marker_name(name), datetime.now(UTC).isoformat(timespec="seconds")
    owner = {"process": this_process().as_dict(), "launch": launch, "started_at": now}
    folder.write(marker, json.dumps(owner).encode())
    try:
        yield
    finally:
        folder.delete(marker)


def record_lost(store: Store, config: TrialConfig, launch: str = "") -> int:
    """If an earlier attempt at this trial died silently, write its `lost` shard; return how many
    attempts of this launch were lost so far.

    What died with an earlier launch is not the trial's fault and does not count.
    """
    name = trial_id(config)
    marker = _marker_name(name)
    if (owner := read_marker(store.folder, marker)) is not None:
        process = Process.of(owner["process"])
        patience = time.monotonic() + ZOMBIE_SECONDS
        while process.is_gone() is False and process != this_process():
            if time.monotonic() > patience:
                raise StorageFailed(f"process {process.pid} on {process.host} still runs {name}")
            time.sleep(0.2)
        error = f"process {process.pid} on {process.host} ended without a result"
        lost = {"error": error, "launch": owner["launch"], "started_at": owner["started_at"]}
        store.write(config, "lost", {**code_provenance(), **lost})
        store.folder.delete(marker)
    shards = [shard for shard in store.shards_of(name) if shard.status == "lost"]
    if len(shards) < MAX_LOST:
        return len(shards)
    launches = store.load_shards(shards, "trial", ["launch"]).column("launch").to_pylist()
    return launches.count(launch)


def read_marker(folder: Folder, marker: str) -> dict[str, Any] | None:
    """Process, launch and start of who runs a trial; None if the file is gone or damaged."""
    try:
        owner = json.loads(folder.read(marker))
        Process.of(owner["process"])
        return {"process": owner["process"]} | {k: str(owner[k]) for k in ("launch", "started_at")}
    except (FileNotFoundError, ValueError, TypeError, LookupError):
        return None


def remove_markers(store: Store) -> None:
    """Remove the markers of finished trials, whose workers died with the shard just written, and
    requests that came too late.
    """
    for folder, kind in (
        ("running", "marker"),
        ("cancelled", "request"),
        ("resumed", "resumption"),
    ):
        for entry in store.folder.list(folder):
            if (found := KINDS[kind].fullmatch(entry.name)) is None:
                continue
            shard = store.visible_shard(found["trial"])
            if shard is not None and shard.finished:
                store.folder.delete(entry.name)


def _marker_name(name: str) -> str:
    return f"running/{name}.json"
