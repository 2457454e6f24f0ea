"""Sealed Parquet: files that carry a hash of all their bytes and of the name they were written to.

The hash detects any change in such a file, and any other file under its name. Older files have no
seal; only their contents can be checked.
"""

import hashlib
import io
import re
import sys
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pcore.cli.parser import first_line

SEAL = re.compile(rb"pcore-seal:([0-9a-f]{64})")
EMPTY = b"pcore-seal:" + b"0" * 64


class _NoPandas:
    """Finds no pandas while it stands in `sys.meta_path`."""

    @staticmethod
    def find_spec(name: str, *places: Any) -> None:
        del places
        if name == "pandas":
            raise ModuleNotFoundError(name)


def leave_pandas_out() -> None:
    """pyarrow imports pandas at its first value, in case that is an object of pandas; this takes
    longer than all else that commands without frames import. `to_pandas` imports it all the same.
    """
    if "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, _NoPandas)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(_NoPandas)


leave_pandas_out()


class BadFile(ValueError):
    """A file is damaged or wrong; the message says why, without the file's name."""


def seal(tables: pa.Table | Sequence[pa.Table], name: str, compression: str = "none") -> bytes:
    """A small Parquet file of a table, or a group of rows for each of several, to be written under
    this name below a results folder: footers cost more than data, so no statistics and no copy of
    the schema.
    """
    groups: list[Any] = [tables] if isinstance(tables, pa.Table) else [*tables]
    out = io.BytesIO()
    with pq.ParquetWriter(
        out, groups[0].schema, compression=compression, write_statistics=False, store_schema=False
    ) as writer:
        for group in groups:
            writer.write_table(group)
        writer.add_key_value_metadata({"seal": EMPTY.decode()})
    data = out.getvalue()
    at = data.rindex(EMPTY)
    return _with_hash(data, at, _hash(data, at, name).encode())


def is_sealed(data: bytes, name: str) -> bool:
    """Whether these bytes carry a seal. Raises BadFile if it is broken, or that of another name."""
    at = data.rfind(EMPTY[:11])
    found = SEAL.match(data, at) if at >= 0 else None
    if found is None:
        return False
    if found[1].decode() != _hash(_with_hash(data, at, b"0" * 64), at, name):
        raise BadFile("its contents or name do not match the stored hash")
    return True


def read_parquet(
    data: bytes,
    name: str,
    columns: list[str] | None = None,
    known: bool = False,
    group: int | None = None,
) -> pa.Table:
    """The rows of a file read under this name, all its columns or those of `columns` that it has.

    known: the whole of it was read before. group: these rows alone. Raises BadFile if it is
    damaged or no Parquet file.
    """
    in_part = is_sealed(data, name) or known
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        if file.metadata.num_rows > len(data):
            raise BadFile(f"{file.metadata.num_rows:,} rows in {len(data):,} bytes")
        groups = range(file.num_row_groups) if group is None else [group]
        part = columns if in_part else None
        table = file.read_row_groups(groups, columns=part, use_threads=False)
        if not in_part:  # its bytes may be anything
            table.validate(full=True)
            kept = [c for c in columns or table.column_names if c in table.column_names]
            table = table.select(kept)
    except (pa.ArrowException, OSError, ValueError, LookupError, MemoryError) as error:
        raise BadFile(f"not a readable Parquet file: {first_line(error)[:200]}") from error
    return table.replace_schema_metadata(None)


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of a schema: those that a file lacks are null, others are dropped.

    Raises BadFile if a column has another type.
    """
    columns = []
    names = set(table.column_names)
    for field in schema:
        if field.name not in names:
            columns.append(pa.nulls(table.num_rows, field.type))
            continue
        column = table.column(field.name)
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except (pa.ArrowException, ValueError) as error:
            raise BadFile(f"column {field.name} is {column.type}, not {field.type}") from error
    return pa.table(columns, schema=schema)


def _hash(data: bytes, at: int, name: str) -> str:
    """Of bytes whose seal at this place is empty."""
    assert data[at : at + len(EMPTY)] == EMPTY
    return hashlib.sha256(name.encode() + b"\0" + data).hexdigest()


def _with_hash(data: bytes, at: int, digits: bytes) -> bytes:
    begin = at + len(EMPTY) - len(digits)
    return data[:begin] + digits + data[at + len(EMPTY) :]
