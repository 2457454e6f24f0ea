"""Reads every file of a store once: its kind, and what is wrong with it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

from pcore.checkpoint import read_progress
from sweeps.engine.store import mechanisms
from sweeps.engine.store.checks import check_checkpoint, check_shard, read_view
from sweeps.engine.store.folder import Folder, parse_json
from sweeps.engine.store.names import FOLDERS, KINDS, is_temporary, kind_of, parse_shard
from sweeps.engine.store.packs import file_name
from sweeps.engine.store.schema import Record
from sweeps.engine.store.seal import BadFile, is_sealed


@dataclass(frozen=True, kw_only=True, slots=True)
class Verified:
    """A file of a store. problem: why it is bad; empty if it is undamaged."""

    name: str
    kind: str  # of `names.KINDS`, "unfinished write" or "file of others"
    problem: str = ""


def verify_files(folder: Folder) -> Iterator[Verified]:
    """Every file in the folders of a store, those of packs last."""
    packs: dict[str, list[str]] = {}
    for place in FOLDERS:
        for entry in folder.list(place, hidden=True):
            kind = "unfinished write" if is_temporary(entry.name) else "file of others"
            yield Verified(name=entry.name, kind=kind)
        for entry in folder.list(place, links=True):
            kind = kind_of(entry.name) or "file of others"
            if not entry.is_file:
                problem = "a link, which is not followed"
                yield Verified(name=entry.name, kind="link", problem=problem)
            elif found := KINDS["pack"].fullmatch(entry.name):
                packs.setdefault(found["pack"], []).append(entry.name)
            else:
                yield Verified(name=entry.name, kind=kind, problem=find_problem(folder, entry.name))
    for pack, names in packs.items():
        problem = _pack_problem(folder, pack)
        yield from (Verified(name=name, kind="pack", problem=problem) for name in names)


def find_problem(folder: Folder, name: str) -> str:
    """What is wrong with a file that is not a pack; empty if nothing is, or it is gone."""
    kind = kind_of(name)
    try:
        if kind == "shard":
            shard = parse_shard(name)
            assert shard is not None
            check_shard(folder, shard)
        elif kind in ("view", "search view") or (name.startswith("views/") and kind is None):
            read_view(folder.read(name), name)
        elif kind == "mechanism file":
            mechanisms.check(folder.read(name), name)
        elif kind == "weights":
            check_checkpoint(folder.read(name))
        elif kind == "state" and read_progress(folder.read(name))[0] < 0:
            raise BadFile("no readable state")
        elif kind and name.endswith(".json") and not _is_object(folder.read(name)):
            raise BadFile("not a JSON object")
    except FileNotFoundError:
        return ""
    except ValueError as error:  # BadFile, and what json says
        return str(error)
    return ""


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
