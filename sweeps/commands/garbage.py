"""`python -m sweeps gc`: removes files that no result needs. Touches only files with known names
in the store's own folders, and follows no link.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from pcore.cli.text import plural
from sweeps.engine.launch.leases import LaunchLease
from sweeps.engine.options import open_existing
from sweeps.engine.store.folder import Entry, Folder
from sweeps.engine.store.names import FOLDERS, KINDS, is_temporary
from sweeps.engine.store.store import Store
from sweeps.engine.trial.running import read_running

DAY = 86400.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Garbage:
    """A file that no result needs, its size in bytes, and the reason."""

    name: str
    size: int
    why: str


def collect_garbage(results: str | None, older_than: float, weights: bool, remove: bool) -> int:
    """List or remove files that no result needs; never a shard or a view. older_than: seconds.

    Raises ValueError if the folder is not a store.
    """
    store = open_existing(results)
    lease = LaunchLease(store.folder)
    if not remove:
        garbage = _print_garbage(store, lease, older_than, weights)
    else:
        with lease:  # so that no launch begins meanwhile with what is removed
            garbage = _print_garbage(store, lease, older_than, weights)
            store.folder.delete(item.name for item in garbage)
            for item in garbage:
                store.folder.remove_if_empty(item.name.rpartition("/")[0])
        store.pack()
    total = sum(item.size for item in garbage) / 1e6
    done = "removed" if remove else "would be removed (add --yes)"
    print(f"{plural(len(garbage), 'file')}, {total:.1f} MB {done}")
    return 0


def _print_garbage(store: Store, lease: LaunchLease, age: float, weights: bool) -> list[Garbage]:
    busy = lease.held_by_others(remove=False)
    garbage = [
        *_checkpoints(store, age, weights, busy),
        *_temporaries(store.folder, min(age, DAY)),
        *_markers(store, busy),
        *_packs(store, min(age, DAY)),
    ]
    for item in garbage:
        print(f"  {item.size:>12,}  {item.name}  ({item.why})")
    return garbage


def _checkpoints(
    store: Store, age: float, weights: bool, busy: frozenset[str]
) -> Iterable[Garbage]:
    visible = store.visible()
    for entry in store.folder.list("checkpoints"):
        state = KINDS["state"].fullmatch(entry.name)
        found = state or KINDS["weights"].fullmatch(entry.name)
        if found is None or (name := found["trial"]) in busy:
            continue
        finished = name in visible and visible[name].finished
        if state and finished:
            yield Garbage(name=entry.name, size=entry.size, why="its trial is finished")
        elif state and _is_old(entry, age):
            yield Garbage(name=entry.name, size=entry.size, why="state of an old attempt")
        elif not state and weights and finished and _is_old(entry, age):
            yield Garbage(name=entry.name, size=entry.size, why="weights of a finished trial")


def _temporaries(folder: Folder, age: float) -> Iterable[Garbage]:
    for place in FOLDERS:
        for entry in folder.list(place, hidden=True):
            if is_temporary(entry.name) and _is_old(entry, age):
                yield Garbage(name=entry.name, size=entry.size, why="a write that was cut short")


def _markers(store: Store, busy: frozenset[str]) -> Iterable[Garbage]:
    for entry in store.folder.list("running"):
        found = KINDS["marker"].fullmatch(entry.name)
        if found is None or (name := found["trial"]) in busy:
            continue
        owner, shard = read_running(store.folder, entry.name), store.visible_shard(name)
        gone = owner is None or owner.process.is_gone()
        if gone and shard is not None and shard.status == "ok":
            yield Garbage(name=entry.name, size=entry.size, why="its trial is finished")


def _packs(store: Store, age: float) -> Iterable[Garbage]:
    """Parts of packs whose last part is missing, and packs that are not read."""
    read = set(store.packs.index().values())
    for entry in store.folder.list("packs"):
        found = KINDS["pack"].fullmatch(entry.name)
        if found and found["pack"] not in read and _is_old(entry, age):
            yield Garbage(name=entry.name, size=entry.size, why="a pack that is not read")


def _is_old(entry: Entry, age: float) -> bool:
    return time.time() - entry.modified > age
