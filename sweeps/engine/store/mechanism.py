"""Mechanism files: what the heads of a trial look at and why it fails, beside its rows.

    RESULTS/mechanism/<2 letters>/<trial_id>.parquet

Made from the weights of the last checkpoint (`pcore.diagnosis.mechanism`), so a file can be deleted
and made again; it never decides whether a trial is finished.
"""

import io
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sweeps.engine.store.folder import Folder
from sweeps.engine.store.packs import parquet_bytes

MECHANISM = {
    "trial_id": pa.string(),
    "kind": pa.string(),  # head, failures, cause
    "length": pa.int64(),
    "num_examples": pa.int64(),
    # kind == "head": averages over examples and over the queries from '=' on
    "layer": pa.int32(),
    "head": pa.int32(),
    "bos": pa.float32(),  # weight of BOS
    "entropy": pa.float32(),  # nats
    "largest": pa.float32(),  # largest weight of a query
    "level": pa.string(),
    "pattern": pa.string(),  # next, same; null without coupled IDs
    "mass": pa.float32(),  # weight on the keys that the theorem predicts
    "mass_beyond_bos": pa.float32(),
    "most_beyond_bos": pa.float32(),  # what mass_beyond_bos cannot exceed
    "even_beyond_bos": pa.float32(),  # of even attention to all visible keys
    "overlap": pa.float32(),
    "mass_at_stop": pa.float32(),
    # kind == "failures" and "cause": of the test set
    "num_missed_stop": pa.int64(),
    "num_early_stop": pa.int64(),
    "num_wrong_symbol": pa.int64(),
    "num_failed_elsewhere": pa.int64(),  # at starts drawn as in training; null if not asked
    # kind == "failures": cases by key
    "breakdown": pa.string(),
    "asked": pa.string(),  # as tested, other starts, other operands
    "unit": pa.string(),  # examples, predictions
    "about": pa.string(),  # everything, symbols, stop
    "keys": pa.list_(pa.int32()),
    "num_cases": pa.list_(pa.int32()),
    "num_wrong": pa.list_(pa.int32()),
    "explained": pa.float32(),  # share of the variance of right and wrong (epsilon squared)
    # kind == "cause"
    "cause": pa.string(),
    "strength": pa.float32(),
    "sentence": pa.string(),
}
SCHEMA = pa.schema(list(MECHANISM.items()))
FOLDER = "mechanism"


def write_mechanism(folder: Folder, name: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """Write the mechanism file of a trial and return its name."""
    file = f"{FOLDER}/{name[:2]}/{name}.parquet"
    table = pa.Table.from_pylist([{"trial_id": name, **row} for row in rows], schema=SCHEMA)
    folder.write(file, parquet_bytes(table, compression="zstd"))
    return file


def mechanism_names(folder: Folder) -> dict[str, str]:
    """The mechanism file of each trial that has one, by trial id."""
    names = [entry.name for entry in folder.list(FOLDER)]
    return {name.rpartition("/")[2].removesuffix(".parquet"): name for name in names}


def load_mechanism(folder: Folder, trial_ids: Iterable[str]) -> pa.Table:
    """The rows of those trials that have a mechanism file.

    Raises ValueError naming a file that cannot be read.
    """
    known, tables = mechanism_names(folder), [SCHEMA.empty_table()]
    for name in trial_ids:
        if name not in known:
            continue
        try:
            tables.append(pq.read_table(io.BytesIO(folder.read(known[name])), schema=SCHEMA))
        except pa.ArrowInvalid as error:
            raise ValueError(f"{folder.path(known[name])} cannot be read: {error}") from error
    return pa.concat_tables(tables)
