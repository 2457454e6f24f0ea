"""`python -m sweeps cancel` and `resume`: end trials from any terminal, or let them continue."""

import getpass
import socket
from collections.abc import Sequence
from datetime import UTC, datetime

from sweeps.engine.launch.leases import LaunchLease
from sweeps.engine.options import open_store
from sweeps.engine.store.address import find_trial, stored_addresses
from sweeps.engine.store.store import Store
from sweeps.engine.trial.requests import ask_to_cancel, ask_to_resume, asked_to_cancel
from sweeps.engine.trial.running import running_trials


def cancel_trials(results: str | None, names: Sequence[str]) -> int:
    """Cancel these trials. A running one saves its state and ends at its next report, a waiting one
    is not started.

    names: first letters of ids, or addresses. Raises ValueError, before anything is cancelled, if
    one matches no trial of a sweep in the store, several, or a finished one.
    """
    store = open_store(results)
    trials = _find_unfinished(names, store)
    held = LaunchLease(store.folder).held_by_others()
    running = running_trials(store)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    for name in trials:
        reason = f"cancelled by {getpass.getuser()} on {socket.gethostname()}, {now}"
        ask_to_cancel(store.folder, name, reason)
        if name in running:
            print(f"{name} ends at its next report")
        elif name in held:
            print(f"{name} will not be started")
        else:
            print(f"{name} is not running; later launches will skip it")
    return 0


def resume_trials(results: str | None, names: Sequence[str]) -> int:
    """Undo a cancellation: the next launch continues these trials.

    Raises ValueError as `cancel_trials`, and for a trial that was not cancelled.
    """
    store = open_store(results)
    trials = _find_unfinished(names, store)
    for name in trials:
        shard = store.visible_shard(name)
        if not (asked_to_cancel(store.folder, name) or (shard and shard.status == "cancelled")):
            raise ValueError(f"{name} was not cancelled")
    for name in trials:
        ask_to_resume(store.folder, name)
        print(f"{name}: the next launch continues it")
    return 0


def _find_unfinished(names: Sequence[str], store: Store) -> list[str]:
    stored = stored_addresses(store)
    found = list(dict.fromkeys(find_trial(name, stored) for name in names))
    for name in found:
        shard = store.visible_shard(name)
        if shard is not None and shard.finished:
            raise ValueError(f"{name} is finished ({shard.status})")
    return found
