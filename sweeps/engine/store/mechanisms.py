"""Files beside the rows of trials, made from their weights: what heads attend to, and why they
fail (`pcore.diagnosis.mechanism`), as RESULTS/mechanism/<2 letters>/<trial_id>.parquet.

They can be deleted and made again (`python -m sweeps measure`); none ever decides whether a trial
is finished.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from sweeps.engine.store.checks import few, name_once
from sweeps.engine.store.folder import Folder
from sweeps.engine.store.seal import BadFile, conform, read_parquet, seal

FOLDER = "mechanism"
COLUMNS = {
    "trial_id": pa.string(),
    "kind": pa.string(),  # head, failures, cause, error
    "length": pa.int64(),
    "num_examples": pa.int64(),
    # kind == "head": averages over examples and over the queries from '=' on
    "layer": pa.int32(),
    "head": pa.int32(),
    "bos": pa.float32(),  # weight of BOS
    "level": pa.string(),
    "pattern": pa.string(),  # next, same; null without coupled IDs
    "mass": pa.float32(),  # weight on the keys that the theorem predicts
    "mass_beyond_bos": pa.float32(),
    "most_beyond_bos": pa.float32(),  # what mass_beyond_bos cannot exceed
    "even_beyond_bos": pa.float32(),  # of even attention to all visible keys
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
KINDS = {"head", "failures", "cause", "error"}
SCHEMA = pa.schema(list(COLUMNS.items()))


def write(folder: Folder, trial: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write the file of a trial."""
    file = f"{FOLDER}/{trial[:2]}/{trial}.parquet"
    table = pa.Table.from_pylist([{"trial_id": trial, **row} for row in rows], schema=SCHEMA)
    folder.write(file, seal(table, file, compression="zstd"))


def names(folder: Folder) -> dict[str, str]:
    """The files by trial id."""
    found: dict[str, str] = {}
    for entry in folder.list(FOLDER, links=True):
        if not entry.is_file:
            name_once(folder.path(entry.name), "a link, which is not followed")
        elif entry.name.endswith(".parquet"):
            found[_trial_of(entry.name)] = entry.name
    return found


def load(folder: Folder, trials: Iterable[str]) -> pa.Table:
    """The rows of those trials that have a file; one that is damaged is named and left out, as if
    there were none.
    """
    known = names(folder)
    files = (known[trial] for trial in trials if trial in known)
    tables = (rows for file in files if (rows := read(folder, file)) is not None)
    return pa.concat_tables([SCHEMA.empty_table(), *tables])


def read(folder: Folder, file: str) -> pa.Table | None:
    """The rows of a file; None, and its name on stderr, if it is damaged or gone."""
    try:
        return check(folder.read(file), file)
    except FileNotFoundError:
        return None
    except BadFile as error:
        name_once(folder.path(file), str(error))
        return None


def check(data: bytes, file: str) -> pa.Table:
    """The rows in the bytes of a file. Raises BadFile if they cannot be."""
    found = read_parquet(data, file)
    if "kind" not in found.column_names:  # of another program, perhaps without rows
        raise BadFile("it has no column 'kind'")
    rows = conform(found, SCHEMA)
    for column, right in {"trial_id": {_trial_of(file)}, "kind": KINDS}.items():
        if others := set(rows.column(column).to_pylist()) - right:
            raise BadFile(f"its rows have {column} {few(others)}")
    return rows


def _trial_of(file: str) -> str:
    return file.rpartition("/")[2].removesuffix(".parquet")
