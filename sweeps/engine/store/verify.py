"""Reads every file of a store once: its kind, and what is wrong with it."""

import contextlib
from collections.abc import Iterable, Iterator

from pcore.checkpoint import load_archive, read_progress
from sweeps.engine.store import mechanisms
from sweeps.engine.store.checks import check_shard, read_view
from sweeps.engine.store.folder import Folder, parse_json
from sweeps.engine.store.names import FOLDERS, KINDS, Stored, parse_shard, walk
from sweeps.engine.store.seal import BadFile, is_sealed


def verify_files(folder: Folder, places: Iterable[str] = FOLDERS) -> Iterator[tuple[Stored, str]]:
    """Every file in these folders of a store, and why it is bad; empty if it is undamaged."""
    for stored in walk(folder, places):
        problem = ""
        if stored.kind == "link":
            problem = "a link, which is not followed"
        elif stored.kind in KINDS or _is_view(stored):
            with contextlib.suppress(FileNotFoundError):
                problem = find_problem(folder.read(stored.entry.name), stored)
        yield stored, problem


def find_problem(data: bytes, stored: Stored) -> str:
    """What is wrong with the bytes of a file; empty if nothing is. The rows of a pack are not
    compared with those of its shards.
    """
    name, kind = stored.entry.name, stored.kind
    try:
        if shard := parse_shard(name):
            check_shard(data, shard)
        elif _is_view(stored):
            read_view(data, name)
        elif kind == "pack" and not is_sealed(data, name):
            raise BadFile("it has no seal: it is not read")
        elif kind == "mechanism file":
            mechanisms.check(data, name)
        elif kind == "weights":
            check_weights(data)
        elif kind == "state" and read_progress(data)[0] < 0:
            raise BadFile("no readable state")
        elif name.endswith(".json") and not isinstance(parse_json(data), dict):
            raise BadFile("not a JSON object")
    except ValueError as error:  # BadFile, and what json says
        return str(error)
    return ""


def check_weights(data: bytes) -> None:
    """Raise BadFile unless torch can read these bytes and each part has its checksum."""
    try:
        load_archive(data)
    except Exception as error:  # of many kinds
        raise BadFile(f"no readable checkpoint: {error}") from error


def _is_view(stored: Stored) -> bool:
    """Whether it is one, or is where only views are."""
    is_there = stored.entry.name.startswith("views/") and not stored.entry.is_hidden
    return stored.kind == "search view" or is_there
