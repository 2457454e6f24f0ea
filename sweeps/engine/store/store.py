"""The store: one immutable Parquet shard per attempt of a trial, and views that list the trials of
a sweep.

    RESULTS/trials/<2 letters>/<trial_id>-<attempt>-<status>-<unique>.parquet     written once
    RESULTS/views/                                 the cells of sweeps and their trials, see views
    RESULTS/packs/                                             copies for fast reading, see packs

RESULTS is a local or shared folder or `s3://bucket/prefix`. Readers see one `ok` row set per trial.
Every file is checked before it is used (`checks`). A file that fails is reported once on stderr and
skipped by all readers alike, so that its trial counts as missing and runs again.
"""

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa

from pcore.config import TrialConfig, flatten, trial_id, without_seeds
from sweeps.engine.store.checks import ORIGIN, check_shard, columns_of, name_once, say_once
from sweeps.engine.store.folder import Folder
from sweeps.engine.store.names import Shard, Views, parse_shard
from sweeps.engine.store.packs import CHUNK, Packs, map_parallel, read_shards
from sweeps.engine.store.schema import VIEW, Record, Status, schema, view_schema
from sweeps.engine.store.seal import BadFile, seal
from sweeps.engine.store.views import Row, join_launches, list_views, read_files, write_view

GONE = "it is gone"
FEW = 16  # trials up to which their folders are listed instead of the whole store


class Store:
    """Rows of finished attempts in a folder that all workers can write to."""

    def __init__(self, root: str | Path):
        self.folder = Folder(root)
        self.packs = Packs(self.folder)
        self._sound: set[str] = set()  # shards that were checked: they never change
        self._bad: dict[str, str] = {}  # why others are left out
        self._origins: dict[str, dict[str, Any]] = {}  # of shards that were checked one by one

    @property
    def root(self) -> str:
        """Where the store is: an absolute path or a URI."""
        return self.folder.uri

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
        # Those that are left out count too.
        attempt = max((shard.attempt for shard in self._list(name)), default=0) + 1
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
        self.folder.write(file, seal(pa.Table.from_pylist(rows, schema=known), file))
        return file

    def shards(self) -> list[Shard]:
        """All undamaged shards, sorted by trial and attempt."""
        return self._check(self._list())

    def shards_of(self, name: str) -> list[Shard]:
        """The undamaged shards of one trial, first attempt first."""
        return self._check(self._list(name))

    def trial_ids(self, status: str | None = None) -> set[str]:
        """Trials that have a shard (of this status), sound or not: nothing is read."""
        return {shard.trial_id for shard in self._list() if status in (None, shard.status)}

    def _list(self, name: str = "") -> list[Shard]:
        """What there is by name, of one trial or of all."""
        found = list[Shard]()
        for entry in self.folder.list(_shard_folder(name) if name else "trials", links=True):
            shard = parse_shard(entry.name)
            if not entry.is_file:
                if shard is None or not name or shard.trial_id == name:
                    name_once(self.folder.path(entry.name), "a link, which is not followed")
            elif shard is not None and (not name or shard.trial_id == name):
                found.append(shard)
        return sorted(found, key=lambda s: (s.trial_id, s.attempt, s.name))

    def _check(self, shards: list[Shard], packed: bool = True) -> list[Shard]:
        """Those of them that are sound: packed, or checked now. packed: False for those of packs
        that cannot be read.
        """
        new = [s for s in shards if s.name not in self._sound and s.name not in self._bad]
        index = self.packs.index() if packed and len(new) > FEW else {}
        self._sound.update(shard.name for shard in new if shard.name in index)
        loose = [shard for shard in new if shard.name not in index]
        if len(loose) > 2 * CHUNK:
            say_once(f"reading {len(loose):,} files one by one; a launch packs them")
        problems = map_parallel(self.folder, self._problem, loose)
        for shard, problem in zip(loose, problems, strict=True):
            if not problem or (packed and not index and shard.name in self.packs.index()):
                self._sound.add(shard.name)
            elif problem != GONE:
                self._bad[shard.name] = problem
        for shard in shards:
            if shard.name in self._bad:
                name_once(self.folder.path(shard.name), self._bad[shard.name])
        return [shard for shard in shards if shard.name in self._sound]

    def _problem(self, shard: Shard) -> str:
        """Why a shard is left out; empty if it is undamaged."""
        try:
            self._origins[shard.name] = check_shard(self.folder.read(shard.name), shard)
        except FileNotFoundError:
            return GONE
        except BadFile as error:
            return str(error)
        return ""

    def pack(self) -> None:
        """Copy loose shards into packs, as long as there are CHUNK of them. Raises StorageFailed if
        the folder cannot be written.
        """
        shards, index = self.shards(), self.packs.index()
        loose = [shard for shard in shards if shard.name not in index]
        for begin in range(0, len(loose) - CHUNK + 1, CHUNK):
            self.packs.add(loose[begin : begin + CHUNK])

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
        return self.load_shards(self.visible_of(trial_ids), record, columns)

    def visible_of(self, trial_ids: Iterable[str] | None = None) -> list[Shard]:
        """The visible shards of these trials, or of all."""
        if trial_ids is None:
            return list(self.visible().values())
        wanted = set(trial_ids)
        if len(wanted) <= FEW:
            return [s for name in wanted if (s := self.visible_shard(name))]
        listed = [shard for shard in self._list() if shard.trial_id in wanted]
        return list(choose(self._check(listed)).values())

    def load_shards(
        self,
        shards: Iterable[Shard],
        record: Record | None = None,
        columns: list[str] | None = None,
    ) -> pa.Table:
        """Rows of these shards, visible or not."""
        known = schema()
        columns = columns or known.names
        index, loose = self.packs.index(), list[Shard]()
        by_pack: dict[str, list[Shard]] = {}
        for shard in sorted(shards, key=lambda s: s.name):
            pack = index.get(shard.name)
            (by_pack.setdefault(pack, []) if pack else loose).append(shard)
        records = get_args(Record) if record is None else (record,)
        tables = [known.empty_table().select(columns)]
        for pack, members in by_pack.items():
            names = [shard.name for shard in members]
            try:
                tables += [self.packs.read(pack, kind, names, columns) for kind in records]
            except (FileNotFoundError, BadFile) as error:
                name_once(self.folder.path(pack), str(error))
                self._sound.difference_update(names)
                loose += self._check(members, packed=False)
        if record == "trial" and set(columns) <= set(ORIGIN):
            known_rows = [self._origins[s.name] for s in loose if s.name in self._origins]
            loose = [shard for shard in loose if shard.name not in self._origins]
            tables.append(pa.Table.from_pylist(known_rows, schema=columns_of(columns)))
        tables += read_shards(self.folder, loose, columns, record)
        return pa.concat_tables(tables)

    def write_view(self, rows: Sequence[Row], views: Views = "views") -> str:
        """Add to the view of one sweep, or search, at one scale: a row per trial with the columns
        of `schema.view_schema`. The name of the file; empty if the view says so already.
        """
        said = str(rows[0]["sweep"]), str(rows[0]["scale"])
        return write_view(self.folder, rows, self.launches(*said, views), views)

    def view_names(self) -> list[tuple[str, str]]:
        """(sweep, scale) of all undamaged views, by name."""
        return list(self.views())

    def names(self) -> list[tuple[Views, tuple[str, str]]]:
        """Kind, and (sweep, scale), of all views, by the names of their files."""
        return [(kind, said) for kind in get_args(Views) for said in list_views(self.folder, kind)]

    def views(self, views: Views = "views") -> dict[tuple[str, str], pa.Table]:
        """The rows of all undamaged views of sweeps, or of searches, by sweep and scale."""
        names = list_views(self.folder, views)
        found = {said: self._view(*said, views) for said in names}
        return {said: rows for said, rows in found.items() if rows.num_rows}

    def load_view(self, sweep: str, scale: str, views: Views = "views") -> pa.Table:
        """The cells and trials of a sweep, or search. Raises ValueError that lists those that
        exist.
        """
        if (rows := self._view(sweep, scale, views)).num_rows:
            return rows
        existing = ", ".join("-".join(names) for names in self.views(views)) or "none"
        raise ValueError(f"no view '{sweep}-{scale}' in {self.root}; there: {existing}")

    def _view(self, sweep: str, scale: str, views: Views) -> pa.Table:
        rows = self.launches(sweep, scale, views)
        known = pa.schema([view_schema().field(name) for name in VIEW])
        return pa.Table.from_pylist(join_launches(rows), schema=known)

    def launches(self, sweep: str, scale: str, views: Views = "views") -> list[Row]:
        """The rows of a view as its launches wrote them. Rows of before views had ids of cells get
        those that their trials have.
        """
        entries = list_views(self.folder, views).get((sweep, scale), [])
        rows = read_files(self.folder, entries).to_pylist()
        old = [row for row in rows if row["cell_id"] is None]
        if old and len(entries) > 1:
            names = ["trial_id", "cell_id"]
            stored = self.load([row["trial_id"] for row in old], "trial", names).to_pylist()
            cells = {row["trial_id"]: row["cell_id"] for row in stored}
            for row in old:
                row["cell_id"] = cells.get(row["trial_id"])
        return rows


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
