"""The file names of a store; files with other names are not read, copied or deleted."""

import re
from dataclasses import dataclass
from typing import Literal, get_args

from sweeps.engine.store.folder import TEMPORARY, Folder
from sweeps.engine.store.schema import Record, Status

TRIAL = r"(?P<trial>[0-9a-f]{16})"
VIEW = r"(?P<sweep>[^/]+)-(?P<scale>smoke|laptop|paper)(?:\+[0-9a-f]{8})?"
PATTERNS = {
    "shard": rf"trials/(?P<folder>[0-9a-f]{{2}})/{TRIAL}-(?P<attempt>\d{{1,9}})"
    rf"-(?P<status>{'|'.join(get_args(Status))})-[0-9a-f]+\.parquet",
    "view": rf"views/{VIEW}\.parquet",
    "pack": rf"packs/(?P<pack>[0-9a-f]{{8}})-(?P<record>{'|'.join(get_args(Record))})\.parquet",
    "mechanism file": r"mechanism/[0-9a-f]{2}/[0-9a-f]+\.parquet",
    "state": rf"checkpoints/{TRIAL}/state\.pt",
    "weights": rf"checkpoints/{TRIAL}/(?:last|best|oracle)\.pt",
    "marker": rf"running/{TRIAL}(?:-[0-9a-f]{{8}})?\.json",
    "search": r"searches/[^/]+\.json",
    "search view": rf"searches/{VIEW}\.parquet",
    "mirror": r"mirrored/[^/]+\.json",
    "probe": r"probe-[0-9a-f]{8}",
}
Views = Literal["views", "searches"]  # where views of sweeps are, and of searches
KINDS = {kind: re.compile(pattern) for kind, pattern in PATTERNS.items()}
FOLDERS = tuple(dict.fromkeys(p.partition("/")[0] for p in PATTERNS.values() if "/" in p))


@dataclass(frozen=True, slots=True)
class Shard:
    """The contents of a shard's name. name: relative to the results folder."""

    name: str
    trial_id: str
    attempt: int
    status: str

    @property
    def finished(self) -> bool:
        """Whether nothing is left to run: diverged is a result."""
        return self.status in ("ok", "diverged")


def parse_shard(name: str) -> Shard | None:
    """The contents of a name in `trials/`; None if it is not a shard's."""
    found = KINDS["shard"].fullmatch(name)
    if found is None or found["folder"] != found["trial"][:2]:
        return None
    return Shard(name, found["trial"], int(found["attempt"]), found["status"])


def parse_view(name: str) -> tuple[str, str] | None:
    """(sweep, scale) of the name of a view, also of that of a search; None if it is none."""
    found = KINDS["view"].fullmatch(name) or KINDS["search view"].fullmatch(name)
    return (found["sweep"], found["scale"]) if found else None


def kind_of(name: str) -> str | None:
    """The kind of a file below a results folder, by its name; None if unknown."""
    if name.startswith("trials/"):
        return "shard" if parse_shard(name) else None
    return next((kind for kind, pattern in KINDS.items() if pattern.fullmatch(name)), None)


def is_temporary(name: str) -> bool:
    """Whether this is the name of one of our files while it is being written."""
    folder, slash, last = name.rpartition("/")
    found = TEMPORARY.fullmatch(last)
    return found is not None and kind_of(f"{folder}{slash}{found['name']}") is not None


def is_store(folder: Folder) -> bool:
    """Whether a folder has any of the folders of a store."""
    return any(folder.holds(name) for name in FOLDERS)
