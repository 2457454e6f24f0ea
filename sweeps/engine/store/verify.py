"""Reads every file of a store once: its kind, and what is wrong with it."""

import contextlib
from collections.abc import Iterator
from typing import get_args

from pcore.checkpoint import read_progress
from sweeps.engine.store import mechanisms
from sweeps.engine.store.checks import check_checkpoint, check_shard, read_view
from sweeps.engine.store.folder import Folder, parse_json
from sweeps.engine.store.names import KINDS, Stored, parse_shard, walk
from sweeps.engine.store.packs import file_name
from sweeps.engine.store.schema import Record
from sweeps.engine.store.seal import BadFile, is_sealed


def verify_files(folder: Folder) -> Iterator[tuple[Stored, str]]:
    """Every file in the folders of a store, and why it is bad; empty if it is undamaged."""
    packs: dict[str, str] = {}
    for stored in walk(folder):
        problem = ""
        if stored.kind == "link":
            problem = "a link, which is not followed"
        elif stored.kind == "pack":
            pack = stored.said["pack"]
            problem = packs[pack] if pack in packs else _pack_problem(folder, pack)
            packs[pack] = problem
        elif stored.kind in KINDS or _is_view(stored):
            with contextlib.suppress(FileNotFoundError):
                problem = find_problem(folder.read(stored.entry.name), stored)
        yield stored, problem


def find_problem(data: bytes, stored: Stored) -> str:
    """What is wrong with the bytes of a file that is not a pack; empty if nothing is."""
    name, kind = stored.entry.name, stored.kind
    try:
        if shard := parse_shard(name):
            check_shard(data, shard)
        elif _is_view(stored):
            read_view(data, name)
        elif kind == "mechanism file":
            mechanisms.check(data, name)
        elif kind == "weights":
            check_checkpoint(data)
        elif kind == "state" and read_progress(data)[0] < 0:
            raise BadFile("no readable state")
        elif name.endswith(".json") and not _is_object(data):
            raise BadFile("not a JSON object")
    except ValueError as error:  # BadFile, and what json says
        return str(error)
    return ""


def _is_view(stored: Stored) -> bool:
    """Whether it is one, or is where only views are."""
    is_there = stored.entry.name.startswith("views/") and not stored.entry.is_hidden
    return stored.kind == "search view" or is_there


def _is_object(data: bytes) -> bool:
    return isinstance(parse_json(data), dict)


def _pack_problem(folder: Folder, pack: str) -> str:
    """What is wrong with a part of a pack. Its rows are not compared with those of its shards."""
    try:
        for record in get_args(Record):
            name = file_name(pack, record)
            if not is_sealed(folder.read(name), name):
                return "of before there were seals, or damaged: it is not read"
    except FileNotFoundError:
        return "a part of it is missing"
    except BadFile as error:
        return str(error)
    return ""
