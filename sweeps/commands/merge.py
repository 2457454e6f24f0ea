"""`python -m sweeps merge FROM INTO`: adds the results of one store to another.

A trial that both machines ran keeps both attempts; readers see one. No result in INTO is ever
changed, so a merge can be repeated at any time. Views of the same cells then list the trials of
both. Only undamaged files with known names are copied,
and no link is followed. States of unfinished trials are copied too, the more advanced one of two,
so that the next slice can resume anywhere. Not copied: packs (rebuilt), markers of running trials,
MLflow, reports.
"""

from collections.abc import Iterable
from typing import Any

import torch

from pcore.checkpoint import load_archive, read_progress
from sweeps.engine.naming import SEPARATOR
from sweeps.engine.store.beside import MECHANISMS, METRICS
from sweeps.engine.store.checks import name_once, read_view
from sweeps.engine.store.folder import Folder
from sweeps.engine.store.location import find_existing, find_results
from sweeps.engine.store.names import kind_of
from sweeps.engine.store.seal import BadFile
from sweeps.engine.store.store import Store
from sweeps.engine.store.verify import find_problem

KINDS = {
    "trials": "shards",
    "views": "views",
    MECHANISMS.folder: "mechanism files",
    METRICS.folder: "metric files",
    "checkpoints": "weights and states",
}


def merge_stores(from_results: str, into_results: str, weights: bool = True) -> int:
    """Copy what INTO lacks, and print counts. weights: also weights and states.

    Raises ValueError if FROM holds no results, or INTO is a folder but not a store.
    """
    source, target = Store(find_existing(from_results)), Store(find_results(into_results))
    if source.root == target.root:
        raise ValueError(f"FROM and INTO are both {source.root}")
    _check_source(source)
    _check_target(target)
    target.prepare()
    for folder, kind in KINDS.items():
        if folder == "checkpoints" and not weights:
            continue
        copied, same, other = _copy(source, target, folder)
        joined = [n for n in other if folder == "views" and _join_views(source, target, n)]
        other = [name for name in other if name not in joined]
        line = f"{kind}: {copied} copied, {same} were there"
        line += f", {len(joined)} now list the trials of both" if joined else ""
        print(line + (f", {len(other)} differ and stay as they were" if other else ""))
        for name in other:
            print(f"  {name}")
        if other and folder == "views":
            print("  their cells are not the same; the script run on INTO lists today's")
    target.pack()
    finished = sum(shard.finished for shard in target.visible().values())
    print(f"{target.root} holds {finished} finished trials")
    return 0


def _check_source(store: Store) -> None:
    if not store.shards() and not store.folder.list("checkpoints"):
        raise ValueError(
            f"{store.root} holds no trials: it is not a results folder, or it is empty"
        )


def _check_target(store: Store) -> None:
    """Accept a new folder or a store; refuse any other folder, e.g. after a typo."""
    names = {entry.name.partition("/")[0] for entry in store.folder.list()}
    if names and not names & set(KINDS):
        found = ", ".join(sorted(names)[:5])
        raise ValueError(f"{store.root} is not a results folder: it holds {found}")


def _copy(source: Store, target: Store, folder: str) -> tuple[int, int, list[str]]:
    """How many files were copied, how many were there alike, and the names of those that are there
    with other contents.
    """
    there = {entry.name for entry in target.folder.list(folder)}
    copied, same, other = 0, 0, list[str]()
    for name in _names(source, target, folder):
        if name not in there:
            if problem := find_problem(source.folder, name):
                name_once(source.folder.path(name), problem)
                continue
            target.folder.write(name, source.folder.read(name))
            copied += 1
        elif _alike(source.folder, target.folder, name):
            same += 1
        elif name.endswith("/state.pt"):
            new = source.folder.read(name)
            further = read_progress(new) > read_progress(target.folder.read(name))
            if further and not find_problem(source.folder, name):
                target.folder.write(name, new)
                copied += 1
            else:
                same += 1
        else:
            other.append(name)
    return copied, same, other


def _join_views(source: Store, target: Store, name: str) -> bool:
    """Let INTO's view list the trials of both, launched with other seeds; False if their cells are
    not the same.
    """
    views = list[list[dict[str, Any]]]()
    for store in (source, target):
        try:
            views.append(read_view(store.folder.read(name), name).to_pylist())
        except BadFile as error:
            name_once(store.folder.path(name), str(error))
            return False
    keys = ["cell", "cell_order", "axes"]
    keys += [] if SEPARATOR in name else ["command"]  # such a name says it; older views do not
    cells = [{tuple(row[key] for key in keys) for row in rows} for rows in views]
    if cells[0] != cells[1]:
        return False
    ours = {row["trial_id"]: row for rows in views for row in rows}  # of one trial, INTO's row
    same = ("sweep", "scale", "title", "claim", "command")
    rows = [row | {key: views[1][0][key] for key in same} for row in ours.values()]
    rows.sort(key=lambda row: (row["cell_order"], row["seed"], row["data_seed"]))
    target.write_view(rows)
    return True


def _names(source: Store, target: Store, folder: str) -> Iterable[str]:
    """Files to copy: no shard that was cut short, no state of a trial that is finished
    on either side.
    """
    if folder == "trials":
        return [shard.name for shard in source.shards()]
    finished = {
        name
        for store in (source, target)
        for name, shard in store.visible().items()
        if shard.finished
    }
    names = [entry.name for entry in source.folder.list(folder) if kind_of(entry.name)]
    return [n for n in names if not (n.endswith("/state.pt") and n.split("/")[1] in finished)]


def _alike(source: Folder, target: Folder, name: str) -> bool:
    if name.startswith("trials/"):
        return True
    ours, theirs = source.read(name), target.read(name)
    is_weights = kind_of(name) == "weights"
    return ours == theirs or (is_weights and _has_same_weights(ours, theirs))


def _has_same_weights(ours: bytes, theirs: bytes) -> bool:
    """Whether two checkpoints are the same model: bytes around its tensors vary with versions."""
    try:
        one, other = (load_archive(data) for data in (ours, theirs))
        names = one["model"].keys() == other["model"].keys()
        told = all(one[key] == other[key] for key in ("config", "policy", "step"))
        return (
            names
            and told
            and all(torch.equal(t, other["model"][n]) for n, t in one["model"].items())
        )
    except Exception:  # torch raises many kinds for a damaged file
        return False
