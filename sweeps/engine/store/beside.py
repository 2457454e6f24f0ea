"""Files beside the rows of a trial, made from its weights: its mechanism, and own metrics.

    RESULTS/mechanism/<2 letters>/<trial_id>.parquet            what heads attend to, why it fails
    RESULTS/metrics/<2 letters>/<trial_id>-<8 digits>.parquet   one metric of somebody's own

They can be deleted and made again (`python -m sweeps measure`); none ever decides
whether a trial is finished.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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
KINDS = {"head", "failures", "cause", "error"}
METRIC = {
    "trial_id": pa.string(),
    "metric": pa.string(),  # package.module:function
    "source": pa.string(),  # hash of the module's file
    "checkpoint": pa.string(),  # policy: last, best, oracle
    "length": pa.int64(),
    "second_length": pa.int64(),
    "test_set": pa.string(),  # hash of the examples that were decoded
    "values": pa.list_(pa.float32()),  # of each example in its order; null: does not apply to it
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Beside:
    """One kind of such files. asked: the column that every file has; words: what may be in it,
    None = anything.
    """

    folder: str
    columns: Mapping[str, pa.DataType]
    asked: str
    words: frozenset[str] | None

    def write(
        self, folder: Folder, trial: str, rows: Iterable[Mapping[str, Any]], part: str = ""
    ) -> str:
        """Write a file of a trial and return its name. part: which of several."""
        end = f"-{hashlib.sha256(part.encode()).hexdigest()[:8]}" if part else ""
        file = f"{self.folder}/{trial[:2]}/{trial}{end}.parquet"
        schema = pa.schema(list(self.columns.items()))
        table = pa.Table.from_pylist([{"trial_id": trial, **row} for row in rows], schema=schema)
        folder.write(file, seal(table, file, compression="zstd"))
        return file

    def names(self, folder: Folder) -> dict[str, list[str]]:
        """The files of each trial that has some, by trial id."""
        names: dict[str, list[str]] = {}
        for entry in folder.list(self.folder, links=True):
            if not entry.is_file:
                name_once(folder.path(entry.name), "a link, which is not followed")
            elif entry.name.endswith(".parquet"):
                names.setdefault(_trial_of(entry.name), []).append(entry.name)
        return names

    def load(self, folder: Folder, trials: Iterable[str]) -> pa.Table:
        """The rows of those trials that have files; a file that is damaged is named and left out,
        as if there were none.
        """
        known = self.names(folder)
        tables = [pa.schema(list(self.columns.items())).empty_table()]
        for file in (file for trial in trials for file in known.get(trial, ())):
            if (rows := self.read(folder, file)) is not None:
                tables.append(rows)
        return pa.concat_tables(tables)

    def read(self, folder: Folder, file: str) -> pa.Table | None:
        """The rows of a file; None, and its name on stderr, if it is damaged or gone."""
        try:
            return self.check(folder.read(file), file)
        except FileNotFoundError:
            return None
        except BadFile as error:
            name_once(folder.path(file), str(error))
            return None

    def check(self, data: bytes, file: str) -> pa.Table:
        """The rows in the bytes of a file. Raises BadFile if they cannot be."""
        found = read_parquet(data, file)
        if self.asked not in found.column_names:  # of another program, perhaps without rows
            raise BadFile(f"it has no column {self.asked!r}")
        rows = conform(found, pa.schema(list(self.columns.items())))
        if others := set(rows.column("trial_id").to_pylist()) - {_trial_of(file)}:
            raise BadFile(f"its rows have trial_id {few(others)}")
        words = set(rows.column(self.asked).to_pylist())
        if unknown := words - (words if self.words is None else self.words):
            raise BadFile(f"its rows have {self.asked} {few(unknown)}")
        return rows


MECHANISMS = Beside(folder="mechanism", columns=MECHANISM, asked="kind", words=frozenset(KINDS))
METRICS = Beside(folder="metrics", columns=METRIC, asked="metric", words=None)


def _trial_of(file: str) -> str:
    return file.rpartition("/")[2].removesuffix(".parquet").partition("-")[0]
