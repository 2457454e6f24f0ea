"""Attempts that died: their files in `running/` (see `running`) become `lost` shards."""

from collections.abc import Iterable

from pcore.config import TrialConfig, trial_id
from sweeps.engine.store.store import Store
from sweeps.engine.trial.provenance import code_provenance
from sweeps.engine.trial.running import Running, attempts_at

MAX_LOST = 3  # a trial that took this many workers with it in one launch is not started again
GIVEN_UP = f"its worker died {MAX_LOST} times"


def record_lost(store: Store, config: TrialConfig, dead: Iterable[Running]) -> None:
    """Write the shards of these attempts at a trial, and remove their files."""
    for one in dead:
        error = f"{one.owner} ended without a result"
        lost = {"error": error, "launch": one.launch, "started_at": one.started_at}
        store.write(config, "lost", {**code_provenance(), **lost})
        store.folder.delete(one.file)


def is_given_up(store: Store, config: TrialConfig, launch: str) -> bool:
    """Whether this launch does not start a trial again."""
    return count_lost(store, config, launch) >= MAX_LOST


def count_lost(store: Store, config: TrialConfig, launch: str) -> int:
    """How many attempts at a trial this launch has lost. What died with an earlier launch is not
    the trial's fault.
    """
    shards = [s for s in store.shards_of(trial_id(config)) if s.status == "lost"]
    if len(shards) < MAX_LOST:
        return len(shards)
    launches = store.load_shards(shards, "trial", ["launch"]).column("launch").to_pylist()
    return launches.count(launch)


def remove_leftovers(store: Store) -> None:
    """Remove files of attempts whose process died right after it had written the shard."""
    for one in attempts_at(store.folder):
        shard = store.visible_shard(one.trial_id)
        if shard is not None and shard.finished:
            store.folder.delete(one.file)
