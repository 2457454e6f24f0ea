"""Packs: copies of the rows of many shards in a few files, because opening ten thousand small files
is slow.

A pack is one file per kind of record; the `trial` file is written last and makes the pack exist.
Shards stay where they are and stay the truth: `packs/` can be deleted at any time, and is made anew
by whoever next reads many shards; what of it is damaged is removed. Nobody waits for anybody: two
readers that pack at once make two packs, and a shard in both is read from one; a pack that a merge
removed under a reader is read from its shards.
"""

import io
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from sweeps.engine.store.folder import Folder
from sweeps.engine.store.schema import Record, schema

MAX_PACKS = 8  # more are merged into one


class Packs:
    """The packs of one results folder."""

    def __init__(self, folder: Folder):
        self.folder = folder
        self._read: dict[str, list[str]] = {}  # names of the shards in each pack seen so far

    def index(self) -> dict[str, str]:
        """The pack of each packed shard, by the shard's name."""
        index: dict[str, str] = {}
        for pack in self._existing():
            if pack not in self._read:
                try:
                    file = self.folder.read(_file(pack, "trial"))
                    column = pq.read_table(io.BytesIO(file), columns=["shard"]).column("shard")
                except FileNotFoundError:  # merged into another one meanwhile
                    continue
                except pa.ArrowInvalid:
                    self._remove([pack])
                    continue
                self._read[pack] = column.unique().to_pylist()
            index |= dict.fromkeys(self._read[pack], pack)
        return index

    def _remove(self, packs: Iterable[str]) -> None:
        with suppress(OSError):
            self.folder.delete(_file(pack, kind) for pack in packs for kind in get_args(Record))

    def _existing(self) -> list[str]:
        names = [entry.name for entry in self.folder.list("packs")]
        ends = "-trial.parquet"
        return [n.removeprefix("packs/").removesuffix(ends) for n in names if n.endswith(ends)]

    def add(self, shards: Sequence[str]) -> bool:
        """Pack these shards, and all packs into one if there are many. False if the folder cannot
        be written.
        """
        index = self.index()
        existing = [pack for pack in self._existing() if pack in self._read]
        merge = existing if len(existing) >= MAX_PACKS else []
        # Of a shard in several packs only one copy goes on.
        parts_of = {old: [s for s, p in index.items() if p == old] for old in merge}
        shards = [shard for shard in shards if index.get(shard) not in merge]
        pack, known = uuid.uuid4().hex[:8], schema()
        try:
            tables = list[pa.Table]()
            if shards:
                tables = [read_shards(self.folder, shards, known, known.names, None, named=True)]
            for record in reversed(get_args(Record)):  # trial comes last
                parts = [table.filter(pc.field("record") == record) for table in tables]
                parts += [self._rows(old, record, parts_of[old]) for old in merge]
                data = parquet_bytes(pa.concat_tables(parts), compression="zstd")
                self.folder.write(_file(pack, record), data)
        except (OSError, pa.ArrowInvalid):
            return False
        self._remove(merge)
        return True

    def read(self, shards: Sequence[str], record: Record | None, columns: list[str]) -> list[Any]:
        """The rows of these packed shards, a table per pack and kind of record."""
        index, by_pack = self.index(), dict[str, list[str]]()
        for name in shards:
            by_pack.setdefault(index.get(name, ""), []).append(name)
        loose = by_pack.pop("", [])
        records = get_args(Record) if record is None else (record,)
        tables: list[pa.Table] = []
        for pack, names in by_pack.items():
            try:
                tables += [self._rows(pack, kind, names, columns) for kind in records]
            except (OSError, pa.ArrowInvalid):  # merged into another one meanwhile, or damaged
                self._remove([pack])
                loose += names
        if loose:
            rows = None if record is None else ds.field("record") == record
            tables.append(read_shards(self.folder, loose, schema(), columns, rows))
        return tables

    def _rows(
        self, pack: str, record: str, shards: Sequence[str], columns: list[str] | None = None
    ) -> pa.Table:
        """The rows of these shards in a pack; without `columns` all, and the shard's name."""
        path = self.folder.path(_file(pack, record))
        named = schema().append(pa.field("shard", pa.string()))
        data = ds.dataset(path, schema=named, format="parquet", filesystem=self.folder.filesystem)
        everything = len(shards) == len(self._read[pack])
        chosen = None if everything else ds.field("shard").isin(pa.array(shards, pa.string()))
        return data.to_table(columns=columns, filter=chosen)


def read_shards(
    folder: Folder,
    names: Sequence[str],
    known: pa.Schema,
    columns: Sequence[str],
    rows: Any,
    named: bool = False,
) -> pa.Table:
    """Rows of loose shards; `named` adds the column `shard`. The schema is given: inferred from the
    first file, a column added later would silently be dropped.

    Raises ValueError naming the first shard that cannot be read.
    """
    chosen = [*columns, "__filename"] if named else list(columns)
    paths = [folder.path(name) for name in names]

    def read(some: list[str]) -> pa.Table:
        data = ds.dataset(some, schema=known, format="parquet", filesystem=folder.filesystem)
        return data.to_table(columns=chosen, filter=rows)

    try:
        table = read(paths)
    except (pa.ArrowInvalid, OSError):
        for name, path in zip(names, paths, strict=True):
            try:
                read([path])
            except (pa.ArrowInvalid, OSError) as error:
                folder.read(name)  # raises OSError if it is the storage that fails
                raise ValueError(
                    f"{folder.path(name)} is damaged; delete it and its trial runs again: {error}"
                ) from error
        raise
    if named:
        short = dict(zip(paths, names, strict=True))
        column = [short[path] for path in table.column("__filename").to_pylist()]
        table = table.drop_columns(["__filename"])
        table = table.append_column("shard", pa.array(column, pa.string()))
    return table


def parquet_bytes(table: pa.Table, compression: str = "none") -> bytes:
    """A small file: footers cost more than data, so no statistics and no copy of the schema."""
    out = io.BytesIO()
    pq.write_table(table, out, compression=compression, write_statistics=False, store_schema=False)
    return out.getvalue()


def _file(pack: str, record: str) -> str:
    return f"packs/{pack}-{record}.parquet"
