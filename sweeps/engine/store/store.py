"""The store: one immutable Parquet shard per attempt of a trial, and views that say which trials a
sweep consists of.

    RESULTS/trials/<2 letters>/<trial_id>-<attempt>-<status>-<unique>.parquet     written once
    RESULTS/views/<sweep>-<scale>.parquet                      the cells of a sweep and their trials
    RESULTS/packs/                                             copies for fast reading, see packs

RESULTS is a local or shared folder or `s3://bucket/prefix`. Readers see one `ok` row set per trial;
damaged or half-written files are as if they did not exist.
"""

import dataclasses
import io
import json
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from pcore.config import TrialConfig, flatten, trial_id, without_seeds
from sweeps.engine.store.folder import Folder
from sweeps.engine.store.packs import Packs, parquet_bytes, read_shards
from sweeps.engine.store.schema import Record, Status, schema, view_schema

MAGIC = b"PAR1"  # the last four bytes of every whole Parquet file
FEW = 16  # trials up to which their folders are listed instead of the whole store
LOOSE = 500  # shards outside of packs from which on reading packs them first


@dataclasses.dataclass(frozen=True, slots=True)
class Shard:
    """What the name of a shard says. name: below the results folder."""

    name: str
    trial_id: str
    attempt: int
    status: str

    @property
    def finished(self) -> bool:
        """Whether nothing is left to run: diverged is a result."""
        return self.status in ("ok", "diverged")


class Store:
    """Rows of finished attempts in a folder that all workers can write to."""

    def __init__(self, root: str | Path):
        self.folder = Folder(root)
        self.packs = Packs(self.folder)
        self._whole: set[str] = set()  # shards seen whole: they never change

    @property
    def root(self) -> str:
        """Where the store is: an absolute path or a URI."""
        return self.folder.uri

    def prepare(self) -> None:
        """Prove that the folder can be written. Raises ValueError with the reason if not."""
        self.folder.check_writable()

    def write(
        self,
        config: TrialConfig,
        status: Status,
        trial: Mapping[str, Any],
        reports: Iterable[Mapping[str, Any]] = (),
        evaluations: Iterable[Mapping[str, Any]] = (),
    ) -> str:
        """Write one attempt of a trial and return the shard's name. Columns outside the schema are
        a programming error.
        """
        known = schema()
        flat = flatten(config)
        name = trial_id(config)
        attempt = max((shard.attempt for shard in self.shards_of(name)), default=0) + 1
        common = {"trial_id": name, "attempt": attempt, "status": status}
        common |= {key: value for key, value in flat.items() if key in known.names}
        whole = {"cell_id": trial_id(without_seeds(config)), "config_json": json.dumps(flat)}
        rows = [{"record": "trial", **whole, **common, **trial}]
        rows += [{"record": "report", **common, **row} for row in reports]
        rows += [{"record": "evaluation", **common, **row} for row in evaluations]
        for row in rows:
            assert set(row) <= set(known.names), set(row) - set(known.names)
        unique = uuid.uuid4().hex[:8]
        file = f"{_shard_folder(name)}/{name}-{attempt}-{status}-{unique}.parquet"
        self.folder.write(file, parquet_bytes(pa.Table.from_pylist(rows, schema=known)))
        return file

    def shards(self) -> list[Shard]:
        """All whole shards; sorted by trial and attempt."""
        return self._parse("trials")

    def shards_of(self, name: str) -> list[Shard]:
        """The whole shards of one trial, first attempt first."""
        return [shard for shard in self._parse(_shard_folder(name), name) if shard.trial_id == name]

    def _parse(self, folder: str, prefix: str = "") -> list[Shard]:
        found: list[Shard] = []
        for entry in self.folder.list(folder):
            parts = entry.name.rpartition("/")[2].removesuffix(".parquet").split("-")
            if parts[0].startswith(prefix) and len(parts) == 4 and parts[1].isdigit():
                found.append(Shard(entry.name, parts[0], int(parts[1]), parts[2]))
        self._find_whole(shard.name for shard in found)
        whole = [shard for shard in found if shard.name in self._whole]
        return sorted(whole, key=lambda s: (s.trial_id, s.attempt, s.name))

    def _find_whole(self, names: Iterable[str]) -> None:
        """Add those of these shards to `_whole` that are."""
        new = [name for name in names if name not in self._whole]
        if self.folder.remote:  # shows complete uploads only; elsewhere a copy may be cut short
            self._whole.update(new)
            return
        packed = self.packs.index() if len(new) > FEW else {}
        for name in new:
            if name in packed or self.folder.tail(name, len(MAGIC)) == MAGIC:
                self._whole.add(name)

    def visible(self) -> dict[str, Shard]:
        """The one shard per trial that readers see: its first `ok` attempt, else its last
        attempt.
        """
        return choose(self.shards())

    def visible_shard(self, name: str) -> Shard | None:
        """The shard of one trial that readers see."""
        return choose(self.shards_of(name)).get(name)

    def load(
        self,
        trial_ids: Iterable[str] | None = None,
        record: Record | None = None,
        columns: list[str] | None = None,
    ) -> pa.Table:
        """Rows of the visible shards, of some trials and one kind of record if asked for, with the
        explicit schema.

        Raises ValueError naming a shard that is whole but cannot be read.
        """
        wanted = None if trial_ids is None else set(trial_ids)
        if wanted is not None and len(wanted) <= FEW:
            visible = [s for name in wanted if (s := self.visible_shard(name))]
        else:
            visible = [s for s in self.visible().values() if wanted is None or s.trial_id in wanted]
        return self.load_shards(visible, record, columns)

    def load_shards(
        self,
        shards: Iterable[Shard],
        record: Record | None = None,
        columns: list[str] | None = None,
    ) -> pa.Table:
        """Rows of these shards, visible or not."""
        known = schema()
        columns = columns or known.names
        index, names = self.packs.index(), sorted(shard.name for shard in shards)
        loose = [name for name in names if name not in index]
        if len(loose) >= LOOSE and self.packs.add(loose):
            index = self.packs.index()
            loose = [name for name in loose if name not in index]
        rows = None if record is None else ds.field("record") == record
        tables = [read_shards(self.folder, loose, known, columns, rows)] if loose else []
        if packed := [name for name in names if name in index]:
            tables += self.packs.read(packed, record, columns)
        empty = known.empty_table().select(columns)
        return pa.concat_tables([empty, *tables]).combine_chunks()

    def write_view(self, rows: list[dict[str, Any]]) -> str:
        """Write the view of one sweep at one scale: a row per trial with the columns of `VIEW`."""
        name = f"views/{rows[0]['sweep']}-{rows[0]['scale']}.parquet"
        table = pa.Table.from_pylist(rows, schema=view_schema())
        self.folder.write(name, parquet_bytes(table))
        return name

    def view_names(self) -> list[tuple[str, str]]:
        """(sweep, scale) of all views, by name; a scale contains no hyphen."""
        files = [e.name.removeprefix("views/") for e in self.folder.list("views")]
        stems = [file.removesuffix(".parquet") for file in files if file.endswith(".parquet")]
        return [(stem.rpartition("-")[0], stem.rpartition("-")[2]) for stem in stems]

    def load_view(self, sweep: str, scale: str) -> pa.Table:
        """The cells and trials of a sweep. Raises ValueError that lists the views that exist."""
        try:
            data = self.folder.read(f"views/{sweep}-{scale}.parquet")
        except FileNotFoundError:
            existing = ", ".join("-".join(names) for names in self.view_names()) or "none"
            raise ValueError(
                f"no view '{sweep}-{scale}' in {self.root}; there: {existing}"
            ) from None
        return pq.read_table(io.BytesIO(data), schema=view_schema())


def choose(shards: Iterable[Shard]) -> dict[str, Shard]:
    """Of each trial its first `ok` attempt, else its last."""
    chosen: dict[str, Shard] = {}
    for shard in shards:
        if shard.trial_id not in chosen or chosen[shard.trial_id].status != "ok":
            chosen[shard.trial_id] = shard
    return chosen


def _shard_folder(name: str) -> str:
    """The folder of a trial's shards: a folder of ten thousand files is slow to list."""
    return f"trials/{name[:2]}"
