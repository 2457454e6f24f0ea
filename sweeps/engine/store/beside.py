"""Mechanism files: what the heads of a trial attend to and why it fails, beside its rows.

    RESULTS/mechanism/<2 letters>/<trial_id>.parquet

Made from the weights of the last checkpoint (`pcore.diagnosis.mechanism`), so a file can be deleted
and made again; it never decides whether a trial is finished.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from sweeps.engine.store.checks import few, name_once
from sweeps.engine.store.folder import Folder
from sweeps.engine.store.seal import BadFile, conform, read_parquet, seal

MECHANISM = {
    "trial_id": pa.string(),
    "kind": pa.string(),  # head, failures, cause, error
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
KINDS = {"head", "failures", "cause", "error"}
FOLDER = "mechanism"


def write_mechanism(folder: Folder, name: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """Write the mechanism file of a trial and return its name."""
    file = f"{FOLDER}/{name[:2]}/{name}.parquet"
    table = pa.Table.from_pylist([{"trial_id": name, **row} for row in rows], schema=SCHEMA)
    folder.write(file, seal(table, file, compression="zstd"))
    return file


def mechanism_names(folder: Folder) -> dict[str, str]:
    """The mechanism file of each trial that has one, by trial id."""
    names: dict[str, str] = {}
    for entry in folder.list(FOLDER, links=True):
        if not entry.is_file:
            name_once(folder.path(entry.name), "a link, which is not followed")
        elif entry.name.endswith(".parquet"):
            names[entry.name.rpartition("/")[2].removesuffix(".parquet")] = entry.name
    return names


def load_mechanism(folder: Folder, trial_ids: Iterable[str]) -> pa.Table:
    """The rows of those trials that have a mechanism file; one that is damaged is named and left
    out, as if the trial had none.
    """
    known, tables = mechanism_names(folder), [SCHEMA.empty_table()]
    for name in trial_ids:
        if name in known and (rows := read_mechanism(folder, known[name])) is not None:
            tables.append(rows)
    return pa.concat_tables(tables)


def read_mechanism(folder: Folder, file: str) -> pa.Table | None:
    """The rows of a mechanism file; None, and its name on stderr, if it is damaged or gone."""
    try:
        rows = check_mechanism(folder.read(file), file)
    except FileNotFoundError:
        return None
    except BadFile as error:
        name_once(folder.path(file), str(error))
        return None
    return rows


def check_mechanism(data: bytes, file: str) -> pa.Table:
    """The rows in the bytes of a mechanism file. Raises BadFile if they cannot be."""
    found = read_parquet(data, file)
    if "kind" not in found.column_names:  # a file of another program, perhaps without rows
        raise BadFile("it has no column 'kind'")
    rows = conform(found, SCHEMA)
    trial = file.rpartition("/")[2].removesuffix(".parquet")
    if others := set(rows.column("trial_id").to_pylist()) - {trial}:
        raise BadFile(f"its rows have trial_id {few(others)}")
    if unknown := set(rows.column("kind").to_pylist()) - KINDS:
        raise BadFile(f"its rows have kind {few(unknown)}")
    return rows
