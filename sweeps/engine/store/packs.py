"""Packs: copies of the rows of many shards in a few files, because opening ten thousand small files
is slow.

    RESULTS/packs/<unique>.parquet     the rows of up to CHUNK shards, a group per kind of record

Only checked shards are packed and only sealed packs are read; a damaged or older pack is ignored,
and rows come from the shards. Shards stay the record: `packs/` can be deleted at any time. Commands
that write to a store pack it (`Store.pack`), readers write nothing. There are no locks: two
processes that pack at once make two packs, and a shard in both is read from one.
"""

import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, get_args

import pyarrow as pa
import pyarrow.compute as pc

from sweeps.engine.store.checks import columns_of, name_once, read_shard, rows_of
from sweeps.engine.store.folder import Folder
from sweeps.engine.store.names import KINDS, Shard
from sweeps.engine.store.schema import Record
from sweeps.engine.store.seal import BadFile, conform, is_sealed, read_parquet, seal

RECORDS: tuple[Record, ...] = get_args(Record)
CHUNK = 1000  # shards of a pack
# Shards that are read at once from a remote storage, which is waited for; on a local disk threads
# wait for one another and take longer.
READERS = 8
SHARD = pa.field("shard", pa.string())


class Packs:
    """The packs of one results folder."""

    def __init__(self, folder: Folder):
        self.folder = folder
        self._shards: dict[str, list[str]] = {}  # names of the shards in each pack seen so far

    def index(self) -> dict[str, str]:
        """The pack of each packed shard, by the shard's name."""
        index: dict[str, str] = {}
        files = [entry.name for entry in self.folder.list("packs")]
        for pack in filter(KINDS["pack"].fullmatch, files):
            if pack not in self._shards:
                try:
                    self._shards[pack] = self._read(pack, "trial", ["shard"])["shard"].to_pylist()
                except FileNotFoundError:
                    continue
                except BadFile as error:
                    self._shards[pack] = []
                    name_once(self.folder.path(pack), str(error))
            index |= dict.fromkeys(self._shards[pack], pack)
        return index

    def _read(self, pack: str, record: Record, columns: list[str]) -> pa.Table:
        data = self.folder.read(pack)
        if not is_sealed(data, pack):
            raise BadFile("it has no seal")
        return read_parquet(data, pack, columns, group=RECORDS.index(record))

    def add(self, shards: Sequence[Shard]) -> None:
        """Pack these shards, which were checked before. Raises BadFile if one has become unreadable
        and StorageFailed if the folder cannot be written.
        """
        tables = list[pa.Table]()
        for shard, table in zip(shards, read_shards(self.folder, shards), strict=True):
            column = pa.array([shard.name] * table.num_rows, pa.string())
            tables.append(table.append_column(SHARD, column))
        write_pack(self.folder, pa.concat_tables(tables))

    def read(self, pack: str, record: Record, names: Sequence[str], columns: list[str]) -> pa.Table:
        """The rows of these shards in a pack. Raises BadFile or FileNotFoundError."""
        rows = self._read(pack, record, [*columns, "shard"])
        if len(names) < len(self._shards[pack]):
            rows = rows.filter(pc.field("shard").isin(list(names)))
        return conform(rows, columns_of(columns))


def write_pack(folder: Folder, rows: pa.Table) -> None:
    """Write a pack of these rows, which have the column `SHARD`."""
    name = f"packs/{uuid.uuid4().hex[:8]}.parquet"
    groups = [rows_of(rows, record) for record in RECORDS]
    folder.write(name, seal(groups, name, compression="zstd"))


def read_shards(
    folder: Folder,
    shards: Sequence[Shard],
    columns: list[str] | None = None,
    record: Record | None = None,
) -> list[pa.Table]:
    """Rows of loose shards, a table each; of one kind of record only, if asked for.

    Raises BadFile naming the first that has become unreadable since it was checked.
    """
    wanted = [*dict.fromkeys([*columns, "record"])] if columns and record else columns

    def read(shard: Shard) -> pa.Table:
        try:
            rows = read_shard(folder, shard, wanted)
        except (BadFile, FileNotFoundError) as error:
            raise BadFile(f"{folder.path(shard.name)}: {error}") from error
        if record is not None:
            rows = rows_of(rows, record)
        return rows if columns is None else rows.select(columns)

    return map_parallel(folder, read, shards)


def map_parallel(folder: Folder, work: Any, items: Sequence[Any]) -> list[Any]:
    """`work`, which reads from the folder, on each item; several at once if they are many and
    remote.
    """
    if not folder.remote or len(items) < READERS:
        return [work(item) for item in items]
    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(work, items))
