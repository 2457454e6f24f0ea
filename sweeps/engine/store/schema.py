"""The schema of all stored rows: columns, their types and meanings.

A row is one of three records: `trial` (one per attempt: status, provenance, durations), `report`
(training curve) or `evaluation` (counts per checkpoint policy and length). All carry the trial's id
and its whole configuration. A view has one row per trial of a sweep at a scale.
"""

import functools
from typing import Literal

import pyarrow as pa

from pcore.config import RETIRED, known_fields, stored_type
from pcore.tasks import TASKS

Status = Literal["ok", "diverged", "oom", "timeout", "error", "lost", "cancelled"]
Record = Literal["trial", "report", "evaluation"]
ARROW = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}

IDENTITY = {
    "record": pa.string(),
    "trial_id": pa.string(),
    "attempt": pa.int32(),
    "status": pa.string(),
}
TRIAL = {  # record == "trial"
    "error": pa.string(),  # failure text, null if ok
    "cell_id": pa.string(),  # the trial id of the configuration without seeds
    "config_json": pa.string(),  # the whole flat configuration, also of user-written tasks
    "num_parameters": pa.int64(),
    "wall_seconds": pa.float64(),  # of this attempt, evaluation included
    "train_seconds": pa.float64(),
    "eval_seconds": pa.float64(),
    "train_tokens": pa.int64(),  # of the whole training, padding of batches not counted
    "train_flops": pa.float64(),  # of the whole training, as `pcore.flops` counts them
    "first_step": pa.int64(),  # above 0 if this attempt resumed from a checkpoint
    "started_at": pa.string(),  # UTC, ISO 8601
    "code_version": pa.string(),
    "code_hash": pa.string(),  # of the definitions of pcore, see `sweeps.engine.store.sources`
    "git_commit": pa.string(),
    "git_dirty": pa.bool_(),
    "lock_hash": pa.string(),
    "torch_version": pa.string(),
    "python_version": pa.string(),
    "device": pa.string(),
    "dtype": pa.string(),
    "host": pa.string(),
    "num_threads": pa.int32(),
    "cpu_model": pa.string(),  # with the next one null in rows from before they were recorded
    "cpu_capability": pa.string(),  # instructions that torch uses, e.g. AVX2
    "launch": pa.string(),  # name of the launch that ran it
    "stacked": pa.int32(),  # trials that trained as one model; no longer written
    "compiled": pa.bool_(),  # the training steps of this attempt ran through torch.compile
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
    "outcomes": pa.binary(),  # a bit per example, 1 = right (numpy.packbits)
    # Number of examples whose first wrong prediction, or any, is at this index of the response:
    "first_wrong_at": pa.list_(pa.int32()),
    "wrong_at": pa.list_(pa.int32()),
    "samples": pa.string(),  # JSON: the first right and the first wrong example
}
COUNTS = (
    *("num_examples", "num_correct", "num_tokens", "num_correct_tokens"),
    *("num_missed_stop", "num_early_stop", "num_wrong_symbol"),
)
VIEW = {
    "sweep": pa.string(),
    "scale": pa.string(),
    "title": pa.string(),
    "claim": pa.string(),
    "command": pa.string(),  # what runs a changed sweep, without its scale; null: its script does
    "cell": pa.string(),  # label of the cell in tables and figures
    "cell_order": pa.int64(),
    "axes": pa.string(),  # JSON: where the cell is on each axis of the sweep, by the axis' name
    "trial_id": pa.string(),
    "seed": pa.int64(),
    "data_seed": pa.int64(),
}
LAUNCHED = {  # only in the files of views
    "cell_id": pa.string(),
    "script": pa.string(),  # name of the file that lists the cells
    "launched_at": pa.string(),  # UTC, ISO 8601: of two launches the newer one names the cells
}


@functools.cache
def schema() -> pa.Schema:
    """The one schema of all shards: identity, configuration, then the columns of the three
    records.
    """
    columns: dict[str, pa.DataType] = dict(IDENTITY)
    for task in TASKS.values():
        for name, annotation in known_fields(task).items():
            columns.setdefault(name, ARROW[stored_type(annotation)])
    columns |= {name: ARROW[stored_type(type(value))] for name, value in RETIRED.items()}
    return pa.schema(list((columns | TRIAL | REPORT | EVALUATION).items()))


def view_schema() -> pa.Schema:
    """The schema of view files."""
    return pa.schema(list((VIEW | LAUNCHED).items()))
