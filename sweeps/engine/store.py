"""The store: one immutable Parquet shard per attempt of a trial, and views that say which trials a
sweep consists of.

    results/trials/<trial_id>-<attempt>-<status>-<unique>.parquet    written once: temporary file,
    fsync, rename results/views/<sweep>-<scale>.parquet                            the cells of a
    sweep and their trials

Every shard has the one schema of `schema()`. A row is one of three records: `trial` (one per
attempt: status, provenance, durations), `report` (training curve) or `evaluation` (counts per
checkpoint policy and length). All carry the trial's id and its whole configuration. Readers see one
`ok` row set per trial; damaged or half-written files are as if they did not exist.
"""

import dataclasses
import json
import os
import types
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from pcore.config import TrialConfig, flatten, known_fields, trial_id
from pcore.tasks import TASKS

Status = Literal["ok", "diverged", "oom", "timeout", "error", "lost"]
Record = Literal["trial", "report", "evaluation"]

IDENTITY = {
    "record": pa.string(),
    "trial_id": pa.string(),
    "attempt": pa.int32(),
    "status": pa.string(),
}
TRIAL = {  # record == "trial"
    "error": pa.string(),  # failure text, null if ok
    "config_json": pa.string(),  # the whole flat configuration, also of user-written tasks
    "num_parameters": pa.int64(),
    "wall_seconds": pa.float64(),  # of this attempt, evaluation included
    "train_seconds": pa.float64(),
    "eval_seconds": pa.float64(),
    "first_step": pa.int64(),  # above 0 if this attempt resumed from a checkpoint
    "started_at": pa.string(),  # UTC, ISO 8601
    "code_version": pa.string(),
    "code_hash": pa.string(),  # of the source files of pcore
    "git_commit": pa.string(),
    "git_dirty": pa.bool_(),
    "lock_hash": pa.string(),
    "torch_version": pa.string(),
    "python_version": pa.string(),
    "device": pa.string(),
    "dtype": pa.string(),
    "host": pa.string(),
    "num_threads": pa.int32(),
}
REPORT = {  # record == "report"
    "step": pa.int64(),
    "loss": pa.float64(),  # mean training loss since the last report, nats per target
    "learning_rate": pa.float64(),
    "grad_norm": pa.float64(),
    "seconds": pa.float64(),  # of training so far in this attempt
}
EVALUATION = {  # record == "evaluation"
    "checkpoint": pa.string(),  # policy: last, best, oracle
    "checkpoint_step": pa.int64(),
    "range": pa.string(),  # train, near, test
    "length": pa.int64(),
    "second_length": pa.int64(),
    "test_set": pa.string(),  # hash of the examples
    "num_examples": pa.int64(),
    "num_correct": pa.int64(),
    "num_tokens": pa.int64(),
    "num_correct_tokens": pa.int64(),
    "num_missed_stop": pa.int64(),
    "num_early_stop": pa.int64(),
    "num_wrong_symbol": pa.int64(),
    "loss_sum": pa.float64(),
}
VIEW = {
    "sweep": pa.string(),
    "scale": pa.string(),
    "title": pa.string(),
    "claim": pa.string(),
    "cell": pa.string(),  # label of the cell in tables and figures
    "cell_order": pa.int64(),
    "trial_id": pa.string(),
    "seed": pa.int64(),
    "data_seed": pa.int64(),
}


def schema() -> pa.Schema:
    """The one schema of all shards: identity, configuration, then the columns of the three
    records.
    """
    columns: dict[str, pa.DataType] = dict(IDENTITY)
    for task in TASKS.values():
        for name, annotation in known_fields(task).items():
            columns.setdefault(name, _arrow_type(annotation))
    return pa.schema(list((columns | TRIAL | REPORT | EVALUATION).items()))


def _arrow_type(annotation: Any) -> pa.DataType:
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(a for a in get_args(annotation) if a is not type(None))
    plain = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
    return plain.get(annotation, pa.string())


def view_schema() -> pa.Schema:
    """The schema of view files."""
    return pa.schema(list(VIEW.items()))


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """What the name of a shard says."""

    path: Path
    trial_id: str
    attempt: int
    status: str


class Store:
    """Rows of finished attempts in a folder that all workers can write to."""

    def __init__(self, root: str | Path):
        self.root = Path(root).expanduser().absolute()
        self.trials, self.views = self.root / "trials", self.root / "views"

    def prepare(self) -> None:
        """Create the folders and prove that they can be written. Raises ValueError with the reason
        if not.
        """
        probe = self.root / f".probe-{uuid.uuid4().hex[:8]}"
        try:
            for folder in (self.trials, self.views):
                folder.mkdir(parents=True, exist_ok=True)
            probe.write_bytes(b"ok")
            probe.unlink()
        except OSError as error:
            reason = error.strerror or str(error)
            raise ValueError(f"results folder {self.root} cannot be written: {reason}") from error

    def write(
        self,
        config: TrialConfig,
        status: Status,
        trial: Mapping[str, Any],
        reports: Iterable[Mapping[str, Any]] = (),
        evaluations: Iterable[Mapping[str, Any]] = (),
    ) -> Path:
        """Write one attempt of a trial and return its file. Columns outside the schema are a
        programming error.
        """
        known = schema()
        flat = flatten(config)
        name, attempt = trial_id(config), self.next_attempt(trial_id(config))
        common = {"trial_id": name, "attempt": attempt, "status": status}
        common |= {key: value for key, value in flat.items() if key in known.names}
        rows = [{"record": "trial", "config_json": json.dumps(flat), **common, **trial}]
        rows += [{"record": "report", **common, **row} for row in reports]
        rows += [{"record": "evaluation", **common, **row} for row in evaluations]
        for row in rows:
            assert set(row) <= set(known.names), set(row) - set(known.names)
        file = self.trials / f"{name}-{attempt}-{status}-{uuid.uuid4().hex[:8]}.parquet"
        write_parquet(pa.Table.from_pylist(rows, schema=known), file)
        return file

    def shards(self) -> list[Shard]:
        """All complete shards, by name alone; sorted by trial and attempt."""
        return self._parse(self.trials.glob("*.parquet"))

    def _parse(self, files: Iterable[Path]) -> list[Shard]:
        found = []
        for file in files:
            parts = file.stem.split("-")
            if len(parts) == 4 and parts[1].isdigit() and _is_complete(file):
                name, attempt, status, _ = parts
                found.append(Shard(path=file, trial_id=name, attempt=int(attempt), status=status))
        return sorted(found, key=lambda s: (s.trial_id, s.attempt, s.path.name))

    def shards_of(self, name: str) -> list[Shard]:
        """The complete shards of one trial, first attempt first."""
        return self._parse(self.trials.glob(f"{name}-*.parquet"))

    def visible(self) -> dict[str, Shard]:
        """The one shard per trial that readers see: its first `ok` attempt, else its last
        attempt.
        """
        return _choose(self.shards())

    def visible_shard(self, name: str) -> Shard | None:
        """The shard of one trial that readers see."""
        return _choose(self.shards_of(name)).get(name)

    def next_attempt(self, name: str) -> int:
        """1 for a trial that was never tried."""
        return max((shard.attempt for shard in self.shards_of(name)), default=0) + 1

    def load(
        self,
        trial_ids: Iterable[str] | None = None,
        record: Record | None = None,
        columns: list[str] | None = None,
    ) -> pa.Table:
        """Rows of the visible shards, of some trials and one kind of record if asked for, with the
        explicit schema.
        """
        known = schema()
        wanted = None if trial_ids is None else set(trial_ids)
        files = [s.path for s in self.visible().values() if wanted is None or s.trial_id in wanted]
        if not files:
            return known.empty_table().select(columns or known.names)
        rows = None if record is None else ds.field("record") == record
        # The explicit schema: inferred from the first file, a column added later would silently be
        # dropped.
        return ds.dataset(files, schema=known, format="parquet").to_table(
            columns=columns, filter=rows
        )

    def write_view(self, rows: list[dict[str, Any]]) -> Path:
        """Write the view of one sweep at one scale: a row per trial with the columns of `VIEW`."""
        file = self.views / f"{rows[0]['sweep']}-{rows[0]['scale']}.parquet"
        write_parquet(pa.Table.from_pylist(rows, schema=view_schema()), file)
        return file

    def load_view(self, sweep: str, scale: str) -> pa.Table:
        """The cells and trials of a sweep. Raises ValueError that lists the views that exist."""
        file = self.views / f"{sweep}-{scale}.parquet"
        if not file.is_file():
            existing = ", ".join(sorted(p.stem for p in self.views.glob("*.parquet"))) or "none"
            raise ValueError(f"no view {file.stem!r} in {self.views}; there: {existing}")
        return pq.read_table(file, schema=view_schema())


def write_parquet(table: pa.Table, file: Path) -> None:
    """Write a file so that it is either whole or absent: temporary name, fsync, rename."""
    temporary = file.with_name(f".{file.name}.{uuid.uuid4().hex[:8]}.tmp")
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with temporary.open("wb") as out:
            # Small files: footers cost more than data, so no statistics, no copy of the schema, no
            # compression.
            pq.write_table(
                table, out, compression="none", write_statistics=False, store_schema=False
            )
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


def _choose(shards: Iterable[Shard]) -> dict[str, Shard]:
    chosen: dict[str, Shard] = {}
    for shard in shards:
        if shard.trial_id not in chosen or chosen[shard.trial_id].status != "ok":
            chosen[shard.trial_id] = shard
    return chosen


def _is_complete(path: Path) -> bool:
    """A Parquet file ends with its magic number."""
    try:
        with path.open("rb") as file:
            file.seek(-4, os.SEEK_END)
            return file.read(4) == b"PAR1"
    except OSError:
        return False
