"""Whether what was written is still right: stamps of rows and code, and notes beside files.

A stamp is over all that the tables and figures of a view are made from: its rows in the view, the
names of the shards (which never change), the files of mechanisms, the code and its libraries.

A note lies beside files and has the stamp that they were made at and a hash of each as it was
written. So it cannot vouch for files that another command wrote meanwhile, or whose writer was
killed: they are made again.
"""

import hashlib
import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

from sweeps.engine.store.beside import MECHANISMS
from sweeps.engine.store.folder import Folder
from sweeps.engine.store.store import Store

View: TypeAlias = tuple[str, str, str]  # sweep, scale, checkpoint policy
ROOT = Path(__file__).parents[2]
CODE = ("analysis", "pcore", "sweeps/engine/store")  # that numbers and figures are made with
LIBRARIES = ("matplotlib", "numpy", "pandas", "scipy", "seaborn")


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """Files that are as they were written."""

    files: dict[Path, bytes]
    about: Any  # what was noted of them


def stamp_views(store: Store, views: Collection[View]) -> dict[View, str]:
    """The stamp of each of these views that the store has."""
    rows, visible, code = store.views(), store.visible(), stamp_code()
    # Mechanisms are written again in place: a float that changes need not change the size.
    beside = {e.name: (e.size, e.modified) for e in store.folder.list(MECHANISMS.folder)}
    stamps = dict[View, str]()
    for sweep, scale, checkpoint in (view for view in views if view[:2] in rows):
        view = rows[sweep, scale].to_pylist()
        trials = sorted({row["trial_id"] for row in view})
        shards = [visible[name].name for name in trials if name in visible]
        files = [f"{MECHANISMS.folder}/{name[:2]}/{name}.parquet" for name in trials]
        parts = (view, shards, [beside.get(file) for file in files])
        stamps[sweep, scale, checkpoint] = digest(code, sweep, scale, checkpoint, *parts)
    return stamps


def stamp_code() -> str:
    """All code, data and libraries that a number or a figure may depend on."""
    files = sorted(file for name in CODE for file in (ROOT / name).rglob("*.*"))
    kinds = (".py", ".toml", ".js", ".css")
    sources = b"\0".join(file.read_bytes() for file in files if file.suffix in kinds)
    return digest(hash_bytes(sources), *map(version, LIBRARIES))


def digest(*parts: Any) -> str:
    """One short hash of parts that JSON can hold."""
    return hash_bytes(json.dumps(parts).encode())


def hash_bytes(data: bytes) -> str:
    """A short hash of the bytes of a file."""
    return hashlib.sha256(data).hexdigest()[:16]


def write_note(note: Path, made_of: str, hashes: Mapping[Path, str], about: Any) -> None:
    """Note beside files what they are made of. hashes: of what was written, not of what is there:
    another writer may have been faster.
    """
    names = {os.path.relpath(file, note.parent): value for file, value in hashes.items()}
    text = json.dumps({"made_of": made_of, "files": names, "about": about}, indent=1)
    Folder(note.parent).write(note.name, f"{text}\n".encode())  # whole or not at all


def read_note(note: Path, made_of: str) -> Kept | None:
    """The files of a note; None if they are made of something else, or not as they were written."""
    try:
        noted = json.loads(note.read_text(encoding="utf-8"))
        if noted["made_of"] != made_of:
            return None
        files = {note.parent / name: (note.parent / name).read_bytes() for name in noted["files"]}
        if [hash_bytes(data) for data in files.values()] != list(noted["files"].values()):
            return None
        return Kept(files=files, about=noted["about"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
