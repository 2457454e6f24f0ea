"""The file names of a store; files with other names are not read, copied or deleted."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from sweeps.engine.store.folder import TEMPORARY, Entry, Folder
from sweeps.engine.store.schema import Status

TRIAL = r"(?P<trial>[0-9a-f]{16})"
VIEW = r"(?P<sweep>[^/]+)-(?P<scale>smoke|laptop|paper)(?:\+[0-9a-f]{8})?"
PATTERNS = {
    "shard": r"trials/(?P<folder>[0-9a-f]{2})/(?P<trial>(?P=folder)[0-9a-f]{14})"
    rf"-(?P<attempt>\d{{1,9}})-(?P<status>{'|'.join(get_args(Status))})-[0-9a-f]+\.parquet",
    "view": rf"views/{VIEW}\.parquet",
    "pack": r"packs/[0-9a-f]{8}\.parquet",
    "mechanism file": r"mechanism/[0-9a-f]{2}/(?P<trial>[0-9a-f]+)\.parquet",
    "state": rf"checkpoints/{TRIAL}/state\.pt",
    "weights": rf"checkpoints/{TRIAL}/(?:last|best|oracle)\.pt",
    "marker": rf"running/{TRIAL}(?:-[0-9a-f]{{8}})?\.json",
    "search": r"searches/(?P<sweep>[^/]+)-(?P<scale>smoke|laptop|paper)\.json",
    "search view": rf"searches/{VIEW}\.parquet",
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


class Stored(NamedTuple):
    """A file in the folders of a store. kind: of KINDS, or unfinished write, link, file of others;
    said: the parts of a name of its kind, such as its trial.
    """

    entry: Entry
    kind: str
    said: Mapping[str, str]


def walk(folder: Folder, places: Iterable[str] = FOLDERS) -> Iterator[Stored]:
    """Every file in these folders of a store."""
    for place in places:
        for entry in folder.walk(place):
            if not entry.is_file:
                yield Stored(entry, "link", {})
            elif entry.is_hidden:
                above, slash, last = entry.name.rpartition("/")
                found = TEMPORARY.fullmatch(last)
                is_ours = found is not None and parse_name(f"{above}{slash}{found['name']}")[0]
                yield Stored(entry, "unfinished write" if is_ours else "file of others", {})
            else:
                kind, said = parse_name(entry.name)
                yield Stored(entry, kind or "file of others", said)


def parse_name(name: str) -> tuple[str, Mapping[str, str]]:
    """The kind of a file below a results folder, empty if unknown, and the parts of its name."""
    for kind, pattern in KINDS.items():
        if found := pattern.fullmatch(name):
            return kind, found.groupdict()
    return "", {}


def parse_shard(name: str) -> Shard | None:
    """The contents of a shard's name; None if it is none."""
    found = KINDS["shard"].fullmatch(name)
    return found and Shard(name, found["trial"], int(found["attempt"]), found["status"])


def parse_view(name: str) -> tuple[str, str] | None:
    """(sweep, scale) of the name of a view, also of that of a search; None if it is none."""
    found = KINDS["view"].fullmatch(name) or KINDS["search view"].fullmatch(name)
    return (found["sweep"], found["scale"]) if found else None


def is_store(folder: Folder) -> bool:
    """Whether a folder has anything in the folders of a store."""
    return any(folder.walk(name) for name in ("views", *FOLDERS))
