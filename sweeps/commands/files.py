"""Commands on the files of a store: `gc` removes those that no result needs, `forget` those of a
sweep that was a mistake, `verify` finds damaged ones. They touch only files with known names in the
store's own folders, and follow no link.
"""

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pcore.cli.text import plural
from sweeps.engine.options import open_existing
from sweeps.engine.spec import Scale
from sweeps.engine.store.folder import Entry, Folder
from sweeps.engine.store.location import is_tracked
from sweeps.engine.store.names import FOLDERS, KINDS, Views, is_temporary, kind_of, parse_view
from sweeps.engine.store.store import Store
from sweeps.engine.store.verify import Verified, verify_files
from sweeps.engine.trial.running import Observer

DAY = 86400.0
QUARANTINE = "quarantine"
OF_ATTEMPT = ("state", "weights", "marker")
WITH_GARBAGE = ("checkpoints", "packs", "running")  # their whole files may be; rows never are
OF_TRIAL = ("shard", "mechanism file", "state", "weights")  # kinds of files


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
    garbage = list(find_garbage(store, older_than, weights))
    for item in garbage:
        print(f"  {item.size:>12,}  {item.name}  ({item.why})")
    if remove:
        store.folder.delete(item.name for item in garbage)
        for item in garbage:
            store.folder.remove_if_empty(item.name.rpartition("/")[0])
        store.pack()
    total = sum(item.size for item in garbage) / 1e6
    done = "removed" if remove else "would be removed (add --yes)"
    print(f"{plural(len(garbage), 'file')}, {total:.1f} MB {done}")
    return 0


def find_garbage(store: Store, age: float, weights: bool) -> Iterator[Garbage]:
    """Files that no result needs, states and weights only above this age in seconds. weights: also
    those of finished trials.
    """
    busy, visible = Observer(store.folder).look().keys(), store.visible()
    read = set(store.packs.index().values())

    def explain(entry: Entry) -> str:
        kind, seconds = kind_of(entry.name) or "", time.time() - entry.modified
        if is_temporary(entry.name):
            return "a write that was cut short" if seconds > min(age, DAY) else ""
        found = KINDS[kind].fullmatch(entry.name) if kind in ("pack", *OF_ATTEMPT) else None
        if found is None:
            return ""
        if kind == "pack":  # its last part is missing, or it is of before there were seals
            is_old = found["pack"] not in read and seconds > min(age, DAY)
            return "a pack that is not read" if is_old else ""
        if (name := found["trial"]) in busy:
            return ""
        if name in visible and visible[name].finished:
            if kind == "weights":
                is_old = weights and seconds > age
                return "weights of a finished trial" if is_old else ""
            return "its trial is finished"
        return "state of an old attempt" if kind == "state" and seconds > age else ""

    places = [(place, False) for place in WITH_GARBAGE] + [(place, True) for place in FOLDERS]
    for place, hidden in places:
        for entry in store.folder.list(place, hidden=hidden):
            if why := explain(entry):
                yield Garbage(name=entry.name, size=entry.size, why=why)


def forget_sweep(results: str | None, name: str, scale: Scale | None, remove: bool) -> int:
    """List or remove the view of a sweep, or search, at this scale (None: at all), and the files of
    those of its trials that no other view lists.

    Raises ValueError if there is no such view, the rows are published, or a trial of it runs.
    """
    store = open_existing(results)
    if is_tracked(store.folder):
        raise ValueError(f"{store.root} holds published rows")
    kinds: tuple[Views, ...] = ("views", "searches")
    forgotten, kept = set[str](), set[str]()
    for views in kinds:
        for stored in store.names(views):
            is_meant = stored[0] == name and scale in (None, stored[1])
            trials = {row["trial_id"] for row in store.launches(*stored, views)}
            (forgotten if is_meant else kept).update(trials)
    if not forgotten:
        there = sorted({other for views in kinds for other, _ in store.names(views)})
        raise ValueError(f"{store.root} has no view of {name!r}; there: {', '.join(there)}")
    for trial, one in Observer(store.folder).look().items():
        if trial in forgotten - kept:
            raise ValueError(f"{trial} is run by {one.owner}: end that first")
    found = list(_files_of(store.folder, name, scale, forgotten - kept))
    if remove:
        store.folder.delete(file for file, _ in found)
    counts = Counter(kind for _, kind in found)
    print(", ".join(f"{number} x {kind}" for kind, number in sorted(counts.items())))
    print(
        f"{len(forgotten & kept)} of {plural(len(forgotten), 'trial')} stay: other views list them"
    )
    print("removed; `mirror` makes MLflow anew" if remove else "would be removed (add --yes)")
    return 0


def _files_of(
    folder: Folder, sweep: str, scale: str | None, trials: set[str]
) -> Iterable[tuple[str, str]]:
    """(name, kind) of the files of a view, its winners and these trials."""
    for entry in (entry for place in FOLDERS for entry in folder.list(place)):
        kind, said = kind_of(entry.name) or "", parse_view(entry.name)
        if kind == "search":
            name, _, of_scale = entry.name[len("searches/") : -len(".json")].rpartition("-")
            said = name, of_scale
        of_view = said is not None and said[0] == sweep and scale in (None, said[1])
        of_trial = kind in OF_TRIAL and trials & set(re.findall(r"[0-9a-f]{16}", entry.name))
        if of_view or of_trial:
            yield entry.name, kind


def verify_store(results: str | None, repair: bool) -> int:
    """Read every file of the store once, count files and list bad ones; 1 if there are any.
    repair: move these to `quarantine/` below the folder; 0 then.

    Raises ValueError if the folder is not a store.
    """
    store = open_existing(results)
    count, bad = Counter[str](), list[Verified]()
    for found in verify_files(store.folder):
        count[found.kind] += 1
        if found.problem:
            bad.append(found)
            print(f"  {found.name}: {found.problem}", flush=True)
    kinds = ", ".join(f"{number} x {kind}" for kind, number in sorted(count.items()))
    print(f"{store.root}: {sum(count.values())} files ({kinds or 'none'}), {len(bad)} bad")
    if not bad or not repair:
        return 1 if bad else 0
    for found in bad:
        store.folder.move(found.name, f"{QUARANTINE}/{found.name}")
    print(
        f"moved to {store.folder.path(QUARANTINE)}; trials without another attempt will run again"
    )
    return 0
