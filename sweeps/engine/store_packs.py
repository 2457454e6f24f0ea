"""Packs: copies of the rows of many shards in a few files, because opening ten thousand small files
is slow.

A pack is one file per kind of record; the `trial` file is written last and makes the pack exist.
Shards stay where they are and stay the truth: `packs/` can be deleted at any time, and is made anew
by whoever next reads many shards. Nobody waits for anybody: two readers that pack at once make two
packs, and a shard in both is read from one.
"""

import io
import uuid
from collections.abc import Sequence
from typing import Any, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from sweeps.engine.storage import Folder
from sweeps.engine.store_schema import Record, schema

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
                file = self.folder.read(_file(pack, "trial"))
                column = pq.read_table(io.BytesIO(file), columns=["shard"]).column("shard")
                self._read[pack] = column.unique().to_pylist()
            index |= dict.fromkeys(self._read[pack], pack)
        return index

    def _existing(self) -> list[str]:
        names = [entry.name for entry in self.folder.list("packs")]
        ends = "-trial.parquet"
        return [n.removeprefix("packs/").removesuffix(ends) for n in names if n.endswith(ends)]

    def add(self, shards: Sequence[str]) -> bool:
        """Pack these shards, and all packs into one if there are many. False if the folder cannot
        be written.
        """
        existing = self._existing()
        merge = existing if len(existing) >= MAX_PACKS else []
        pack = uuid.uuid4().hex[:8]
        known = schema()
        try:
            tables = [read_shards(self.folder, shards, known, known.names, None, named=True)]
            for record in reversed(get_args(Record)):  # trial comes last
                parts = [table.filter(pc.field("record") == record) for table in tables]
                parts += [self._open(old, record).to_table() for old in merge]
                data = parquet_bytes(pa.concat_tables(parts), compression="zstd")
                self.folder.write(_file(pack, record), data)
        except OSError:
            return False
        self.folder.delete(_file(old, record) for old in merge for record in get_args(Record))
        return True

    def read(self, shards: Sequence[str], record: Record | None, columns: list[str]) -> list[Any]:
        """The rows of these packed shards, a table per pack and kind of record."""
        index, by_pack = self.index(), dict[str, list[str]]()
        for name in shards:
            by_pack.setdefault(index[name], []).append(name)
        records = get_args(Record) if record is None else (record,)
        tables: list[pa.Table] = []
        for pack, names in by_pack.items():
            everything = len(names) == len(self._read[pack])
            chosen = None if everything else ds.field("shard").isin(names)
            for kind in records:
                tables.append(self._open(pack, kind).to_table(columns=columns, filter=chosen))
        return tables

    def _open(self, pack: str, record: str) -> Any:
        path = self.folder.path(_file(pack, record))
        named = schema().append(pa.field("shard", pa.string()))
        return ds.dataset(path, schema=named, format="parquet", filesystem=self.folder.filesystem)


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
    chosen: dict[str, Any] = {column: ds.field(column) for column in columns}
    if named:
        chosen["shard"] = ds.field("__filename")
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
                raise ValueError(
                    f"{folder.path(name)} is damaged; delete it and its trial runs again: {error}"
                ) from error
        raise
    if named:
        short = dict(zip(paths, names, strict=True))
        column = pa.array([short[path] for path in table.column("shard").to_pylist()], pa.string())
        table = table.set_column(table.num_columns - 1, "shard", column)
    return table


def parquet_bytes(table: pa.Table, compression: str = "none") -> bytes:
    """A small file: footers cost more than data, so no statistics and no copy of the schema."""
    out = io.BytesIO()
    pq.write_table(table, out, compression=compression, write_statistics=False, store_schema=False)
    return out.getvalue()


def _file(pack: str, record: str) -> str:
    return f"packs/{pack}-{record}.parquet"
