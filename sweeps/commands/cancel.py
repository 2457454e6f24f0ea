"""`python -m sweeps cancel`: ends running or waiting trials from any terminal."""

import getpass
import socket
from collections.abc import Sequence
from datetime import UTC, datetime

from sweeps.engine.launch.leases import LaunchLease
from sweeps.engine.options import open_store
from sweeps.engine.store.store import Store
from sweeps.engine.trial.markers import ask_to_cancel


def cancel_trials(results: str | None, prefixes: Sequence[str]) -> int:
    """Cancel the trials whose ids start with these prefixes. A running one saves its state and ends
    at its next report, a waiting one is not started.

    Raises ValueError, before anything is cancelled, if a prefix matches no trial of a sweep in the
    store, several, or a finished one.
    """
    store = open_store(results)
    names = [_find(prefix, store) for prefix in prefixes]
    held = {name for launch in LaunchLease(store.folder).living() for name in launch.trials}
    running = {entry.name.removeprefix("running/") for entry in store.folder.list("running")}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    for name in dict.fromkeys(names):
        reason = f"cancelled by {getpass.getuser()} on {socket.gethostname()}, {now}"
        ask_to_cancel(store.folder, name, reason)
        if name in held and f"{name}.json" in running:
            print(f"{name} ends at its next report")
        elif name in held:
            print(f"{name} will not be started")
        else:
            print(f"{name} is not running; later launches will skip it")
    return 0


def _find(prefix: str, store: Store) -> str:
    """The unfinished trial whose id starts with this prefix."""
    known = {
        name
        for view in store.view_names()
        for name in store.load_view(*view).column("trial_id").to_pylist()
    }
    found = sorted(name for name in known if name.startswith(prefix))
    if len(found) != 1:
        count = f"{len(found)} trials begin" if found else "no trial of a sweep begins"
        few = f": {', '.join(found[:5])}, ..." if found else ""
        raise ValueError(f"{count} with {prefix!r} in {store.root}{few}")
    shard = store.visible_shard(found[0])
    if shard is not None and shard.finished:
        raise ValueError(f"{found[0]} is finished ({shard.status})")
    return found[0]
