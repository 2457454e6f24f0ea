"""Attempts that died: what their files in `running/` say (see `running`) becomes a `lost` shard.

If an attempt finds such a file, its owner is dead: a trial belongs to one launch (see `leases`) and
within it to one worker. A worker killed right after its shard leaves a meaningless file; the next
launch removes it.
"""

import time

from pcore.config import TrialConfig, trial_id
from sweeps.engine.store.folder import StorageFailed
from sweeps.engine.store.names import KINDS
from sweeps.engine.store.store import Store
from sweeps.engine.trial.processes import this_process
from sweeps.engine.trial.provenance import code_provenance
from sweeps.engine.trial.running import file_name, read_running

MAX_LOST = 3  # a trial that took this many workers with it in one launch is not started again
GIVEN_UP = f"its worker died {MAX_LOST} times"
ZOMBIE_SECONDS = 20.0  # how long the last worker of a dead launch may take to end


def record_lost(store: Store, config: TrialConfig, launch: str = "") -> int:
    """If an earlier attempt at this trial died silently, write its `lost` shard; return how many
    attempts of this launch were lost so far.

    What died with an earlier launch is not the trial's fault and does not count.
    """
    name = trial_id(config)
    if (owner := read_running(store.folder, file_name(name))) is not None:
        process = owner.process
        patience = time.monotonic() + ZOMBIE_SECONDS
        while process.is_gone() is False and process != this_process():
            if time.monotonic() > patience:
                raise StorageFailed(f"process {process.pid} on {process.host} still runs {name}")
            time.sleep(0.2)
        error = f"process {process.pid} on {process.host} ended without a result"
        lost = {"error": error, "launch": owner.launch, "started_at": owner.started_at}
        store.write(config, "lost", {**code_provenance(), **lost})
        store.folder.delete(file_name(name))
    shards = [shard for shard in store.shards_of(name) if shard.status == "lost"]
    if len(shards) < MAX_LOST:
        return len(shards)
    launches = store.load_shards(shards, "trial", ["launch"]).column("launch").to_pylist()
    return launches.count(launch)


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
