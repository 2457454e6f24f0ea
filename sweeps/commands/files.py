"""Commands on the files of a store: `gc` removes those that no result needs, `forget` those of a
sweep that was a mistake, `verify` finds damaged ones. They touch only files with known names in the
store's own folders, and follow no link.
"""

import time
from collections import Counter
from collections.abc import Iterator
from typing import get_args

from pcore.cli.text import plural
from sweeps.engine.options import open_existing
from sweeps.engine.spec import Scale
from sweeps.engine.store.folder import Entry
from sweeps.engine.store.location import is_tracked
from sweeps.engine.store.names import Stored, Views, walk
from sweeps.engine.store.store import Store
from sweeps.engine.store.verify import verify_files
from sweeps.engine.trial.running import Observer

DAY = 86400.0
OF_ATTEMPT = ("state", "weights", "marker")
OF_TRIAL = ("shard", "mechanism file", "state", "weights")  # kinds of files


def collect_garbage(results: str | None, older_than: float, weights: bool, remove: bool) -> int:
    """List or remove files that no result needs; never a shard or a view. older_than: seconds.

    Raises ValueError if the folder is not a store.
    """
    store = open_existing(results)
    garbage = dict(find_garbage(store, older_than, weights))
    for entry, why in garbage.items():
        print(f"  {entry.size:>12,}  {entry.name}  ({why})")
    if remove:
        store.folder.delete(entry.name for entry in garbage)
        for entry in garbage:
            store.folder.remove_if_empty(entry.name.rpartition("/")[0])
        store.pack()
    total = sum(entry.size for entry in garbage) / 1e6
    done = "removed" if remove else "would be removed (add --yes)"
    print(f"{plural(len(garbage), 'file')}, {total:.1f} MB {done}")
    return 0


def find_garbage(store: Store, age: float, weights: bool) -> Iterator[tuple[Entry, str]]:
    """Files that no result needs, and why; states and weights only above this age in seconds.
    weights: also those of finished trials.
    """
    busy, visible = Observer(store.folder).look().keys(), store.visible()
    read = set(store.packs.index().values())

    def explain(stored: Stored) -> str:
        kind, seconds = stored.kind, time.time() - stored.entry.modified
        if kind == "unfinished write":
            return "a write that was cut short" if seconds > min(age, DAY) else ""
        if kind == "pack":
            is_old = stored.entry.name not in read and seconds > min(age, DAY)
            return "a pack that is not read" if is_old else ""
        if kind not in OF_ATTEMPT or (name := stored.said["trial"]) in busy:
            return ""
        if name in visible and visible[name].finished:
            if kind == "weights":
                is_old = weights and seconds > age
                return "weights of a finished trial" if is_old else ""
            return "its trial is finished"
        return "state of an old attempt" if kind == "state" and seconds > age else ""

    for stored in walk(store.folder):
        if why := explain(stored):
            yield stored.entry, why


def forget_sweep(results: str | None, name: str, scale: Scale | None, remove: bool) -> int:
    """List or remove the view of a sweep, or search, at this scale (None: at all), and the files of
    those of its trials that no other view lists.

    Raises ValueError if there is no such view, the rows are published, or a trial of it runs.
    """
    store = open_existing(results)
    if is_tracked(store.folder):
        raise ValueError(f"{store.root} holds published rows")
    forgotten, kept, names = set[str](), set[str](), store.names()
    if not any(_is_said(*said, name, scale) for _, said in names):
        there = sorted({other for _, (other, _) in names})
        raise ValueError(f"{store.root} has no view of {name!r}; there: {', '.join(there)}")
    for stored, problem in verify_files(store.folder, get_args(Views)):
        said = stored.said
        if problem and "sweep" in said and not _is_said(said["sweep"], said["scale"], name, scale):
            raise ValueError(f"{stored.entry.name} is damaged: which trials are its own?")
    for views, said in names:
        trials = {row["trial_id"] for row in store.launches(*said, views)}
        (forgotten if _is_said(*said, name, scale) else kept).update(trials)
    for trial, one in Observer(store.folder).look().items():
        if trial in forgotten - kept:
            raise ValueError(f"{trial} is run by {one.owner}: end that first")
    found = [s for s in walk(store.folder) if _is_of(s, name, scale, forgotten - kept)]
    if remove:
        store.folder.delete(stored.entry.name for stored in found)
    counts = Counter(stored.kind for stored in found)
    print(", ".join(f"{number} x {kind}" for kind, number in sorted(counts.items())))
    print(
        f"{len(forgotten & kept)} of {plural(len(forgotten), 'trial')} stay: other views list them"
    )
    print("removed; MLflow keeps its runs" if remove else "would be removed (add --yes)")
    return 0


def _is_of(stored: Stored, sweep: str, scale: str | None, trials: set[str]) -> bool:
    """Whether a file is of a view or its winners, or of these trials."""
    said = stored.said
    of_view = "sweep" in said and _is_said(said["sweep"], said["scale"], sweep, scale)
    return of_view or (stored.kind in OF_TRIAL and said["trial"] in trials)


def _is_said(sweep: str, size: str, name: str, scale: str | None) -> bool:
    """Whether a view of this sweep at this size is meant by a name, and a scale or all of them."""
    return sweep == name and scale in (None, size)


def verify_store(results: str | None) -> int:
    """Read every file of the store once, count files and list bad ones; 1 if there are any.

    Raises ValueError if the folder is not a store.
    """
    store = open_existing(results)
    count, bad = Counter[str](), list[str]()
    for stored, problem in verify_files(store.folder):
        count[stored.kind] += 1
        if problem:
            bad.append(stored.entry.name)
            print(f"  {stored.entry.name}: {problem}", flush=True)
    kinds = ", ".join(f"{number} x {kind}" for kind, number in sorted(count.items()))
    print(f"{store.root}: {sum(count.values())} files ({kinds or 'none'}), {len(bad)} bad")
    if bad:
        print(
            "they are not used. Where a shard is removed its trial runs again; weights come back "
            "from a copy alone, or with `forget` and a rerun"
        )
    return 1 if bad else 0
