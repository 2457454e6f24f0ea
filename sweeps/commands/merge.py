"""`python -m sweeps merge FROM INTO`: copies what INTO lacks of another store.

No file of INTO is changed, so a merge can be repeated at any time; only of two states of an
unfinished trial the further one is kept, so that the next launch resumes anywhere. Of a trial that
INTO has finished by another attempt nothing is copied, so that no merge changes a number; on
another CPU a rerun of the same seeds differs. Only undamaged files with known names are copied, and
no link is followed. Not copied: packs (rebuilt), what says who runs a trial, MLflow, reports.
"""

from collections import Counter

from pcore.checkpoint import read_progress
from sweeps.engine.options import open_existing, open_store
from sweeps.engine.store import mechanisms
from sweeps.engine.store.checks import name_once
from sweeps.engine.store.location import find_existing
from sweeps.engine.store.names import KINDS, Stored, walk
from sweeps.engine.store.store import Store
from sweeps.engine.store.verify import find_problem
from sweeps.engine.store.views import is_same_sweep

SHOWN = {
    "trials": "shards",
    mechanisms.FOLDER: "mechanism files",
    "searches": "searches",
    "checkpoints": "weights and states",
}


def merge_stores(from_results: str, into_results: str, weights: bool = True) -> int:
    """Copy what INTO lacks, and print counts. weights: also weights and states.
    1 if a sweep was left out, else 0.

    Raises ValueError if FROM holds no results, or INTO is a folder but not a store.
    """
    source = open_existing(find_existing(from_results))
    target = open_store(into_results)
    if source.root == target.root:
        raise ValueError(f"FROM and INTO are both {source.root}")
    if target.folder.list():  # not a new folder: perhaps a typo
        target = open_existing(into_results)
    target.folder.check_writable()
    ours, theirs = target.visible(), source.visible()
    finished = {name for name, shard in (*ours.items(), *theirs.items()) if shard.finished}
    settled = {n for n, shard in ours.items() if shard.finished and theirs.get(n, shard) != shard}
    for folder, kind in SHOWN.items():
        if folder == "checkpoints" and not weights:
            continue
        there = {entry.name for entry in target.folder.list(folder)}
        found = [s for s in walk(source.folder, [folder]) if _is_wanted(s, finished, settled)]
        done = Counter(_copy(source, target, s, s.entry.name in there) for s in found)
        bad = f", {done['damaged']} damaged in FROM" if done["damaged"] else ""
        print(f"{kind}: {done['copied']} copied, {done['there']} were there{bad}")
    grown, left_out = _join_views(source, target)
    print(f"views: {grown} grew")
    target.pack()
    finished = sum(shard.finished for shard in target.visible().values())
    print(f"{target.root} holds {finished} finished trials")
    return 1 if left_out else 0


def _is_wanted(stored: Stored, finished: set[str], settled: set[str]) -> bool:
    """Whether a file is copied if it is undamaged: no view, no state of a trial that is finished on
    either side, nothing of one that is settled in INTO.
    """
    is_over = stored.said.get("trial") in (finished if stored.kind == "state" else settled)
    return stored.kind in KINDS and stored.kind != "search view" and not is_over


def _copy(source: Store, target: Store, stored: Stored, there: bool) -> str:
    """Copy a file that INTO lacks, or a state that is further than INTO's; what became of it."""
    name = stored.entry.name
    if there and stored.kind != "state":
        return "there"
    data = source.folder.read(name)
    if there and read_progress(data) <= read_progress(target.folder.read(name)):
        return "there"
    if problem := find_problem(data, stored):
        name_once(source.folder.path(name), problem)
        return "damaged"
    target.folder.write(name, data)
    return "copied"


def _join_views(source: Store, target: Store) -> tuple[int, int]:
    """Add the launches of FROM's views to those of INTO; how many views grew, and how many were
    left out, since they are of another sweep of the same name.
    """
    grown = left_out = 0
    for views, said in source.names():
        rows = source.launches(*said, views)
        rows = [row | {"launched_at": row["launched_at"] or ""} for row in rows]
        known = target.launches(*said, views)
        if rows and known and not is_same_sweep(rows[0], known[0]):
            left_out += 1
            print(
                f"  {'-'.join(said)}: INTO has another sweep of this name; no table of INTO shows "
                "the trials of FROM's: keep FROM, or run it there with another --name"
            )
        elif rows:
            grown += bool(target.write_view(rows, views))
    return grown, left_out
