"""All checks that a file of a store must pass before it is used.

A shard must hold the attempt in its name, possible counts, evaluations if it is `ok`, and the
configuration whose hash is its trial id. A view must hold trials of the sweep and scale in its
name. A failed check raises BadFile with the reason.
"""

import sys
from typing import Any, get_args

import numpy as np
import pyarrow as pa

from pcore.config import trial_id, unflatten
from pcore.settings import MAX_OUTCOMES
from sweeps.engine.store.folder import Folder, parse_json
from sweeps.engine.store.names import Shard, parse_view
from sweeps.engine.store.schema import COUNTS, Record, schema, view_schema
from sweeps.engine.store.seal import BadFile, conform, is_sealed, read_parquet

# What commands ask of all trials: read with what is checked, so that no file is opened twice.
ORIGIN = ["trial_id", "status", "error", "code_hash", "git_commit", "git_dirty"]
CHECKED = [
    *("record", "trial_id", "attempt", "status", "config_json"),
    *("checkpoint", "range", "length", "outcomes", *COUNTS),
    *ORIGIN[2:],
]


def read_shard(folder: Folder, shard: Shard, columns: list[str] | None = None) -> pa.Table:
    """Rows of a shard that was checked before: some columns or all, in the one schema.

    Raises BadFile if it is unreadable, FileNotFoundError if it is gone.
    """
    table = read_parquet(folder.read(shard.name), shard.name, columns, known=True)
    return conform(table, columns_of(columns))


def columns_of(names: list[str] | None) -> pa.Schema:
    """These columns of the one schema, or all."""
    return schema() if names is None else pa.schema([schema().field(name) for name in names])


def rows_of(rows: pa.Table, record: str) -> pa.Table:
    """The rows of one kind of record. By a mask: an expression would be run by a query engine with
    threads of its own, which costs a small table more than reading it.
    """
    return rows.filter(pa.array(rows.column("record").to_numpy() == record))


def check_shard(data: bytes, shard: Shard) -> dict[str, Any]:
    """The columns `ORIGIN` of its trial. Raises BadFile if the shard is damaged or impossible."""
    rows = conform(read_parquet(data, shard.name, CHECKED), columns_of(CHECKED))
    for column in ("trial_id", "attempt", "status"):
        values = rows.column(column).unique().to_pylist()
        if values != [getattr(shard, column)]:
            raise BadFile(f"its rows have {column} {few(values)}")
    records = rows.column("record").to_pylist()
    if unknown := set(records) - set(get_args(Record)):
        raise BadFile(f"its rows have record {few(unknown)}")
    if records.count("trial") != 1:
        raise BadFile(f"{records.count('trial')} rows of the trial instead of one")
    count = records.count("evaluation")
    if count and set(records[-count:]) != {"evaluation"}:
        raise BadFile("its evaluations are not its last rows")
    if count:
        _check_counts(rows.slice(len(records) - count))
    elif shard.status == "ok":
        raise BadFile("ok, but without evaluations")
    at = records.index("trial")
    if not is_sealed(data, shard.name):  # a seal says whose rows these are
        _check_config(rows.column("config_json")[at].as_py(), shard.trial_id)
    return {name: rows.column(name)[at].as_py() for name in ORIGIN}


def _check_counts(rows: pa.Table) -> None:
    """0 <= right <= examples > 0 for examples and tokens, kinds of failures no more than failures,
    outcomes as many as right ones.
    """
    for column in ("checkpoint", "range", "length", "num_examples", "num_correct"):
        if rows.column(column).null_count:
            raise BadFile(f"evaluations without {column}")
    for column, words in WORDS.items():
        if unknown := set(rows.column(column).to_pylist()) - words:
            raise BadFile(f"evaluations of {column} {few(unknown)}")
    counts = {name: rows.column(name).to_numpy() for name in COUNTS}
    examples, right = counts["num_examples"], counts["num_correct"]
    lengths = rows.column("length").to_numpy()
    _refuse((examples <= 0) | (right < 0) | (right > examples), lengths, right, examples)
    tokens, right_tokens = counts["num_tokens"], counts["num_correct_tokens"]
    wrong_tokens = (tokens <= 0) | (right_tokens < 0) | (right_tokens > tokens)
    _refuse(wrong_tokens, lengths, right_tokens, tokens, " tokens")
    kinds = [counts[name] for name in ("num_missed_stop", "num_early_stop", "num_wrong_symbol")]
    many = (np.minimum.reduce(kinds) < 0) | (sum(kinds) > examples - right)
    _refuse(many, lengths, np.nan_to_num(sum(kinds)), examples - right, " failures", "explained")
    for outcomes, n, count in zip(
        rows.column("outcomes").to_pylist(), examples, right, strict=True
    ):
        if outcomes is None:
            continue
        ones, kept = int.from_bytes(outcomes).bit_count(), min(int(n), MAX_OUTCOMES)
        if len(outcomes) != (kept + 7) // 8 or not 0 <= count - ones <= n - kept:
            raise BadFile(f"outcomes of {ones} right answers, counted as {count} of {n}")


WORDS = {
    "checkpoint": {"last", "best", "oracle"},
    "range": {"train", "near", "test"},
}


def _refuse(
    wrong: Any, lengths: Any, part: Any, whole: Any, what: str = "", verb: str = "right"
) -> None:
    if wrong.any():
        i = int(np.argmax(wrong))
        counts = f"{part[i]:.0f} of {whole[i]:.0f}{what}"
        raise BadFile(f"{counts} {verb} at length {lengths[i]}, which is impossible")


def _check_config(text: str | None, name: str) -> None:
    """Refuse the configuration of another trial, as far as it can be known here: own code is not
    imported for this, and another version may have other fields.
    """
    try:
        flat = parse_json(text or "")
    except ValueError:
        flat = None
    if not isinstance(flat, dict) or any(isinstance(v, (dict, list)) for v in flat.values()):
        raise BadFile("its config_json is not a valid configuration")
    try:
        config = unflatten(flat)
    except ValueError:
        return
    if (other := trial_id(config)) != name:
        raise BadFile(f"its configuration is that of trial {other}")


def read_view(data: bytes, name: str) -> pa.Table:
    """The rows of a view. Raises BadFile if it is damaged or impossible."""
    if (said := parse_view(name)) is None:
        raise BadFile("its name is not that of a sweep and a scale")
    rows = conform(read_parquet(data, name), view_schema())
    if not rows.num_rows:
        raise BadFile("a view without trials")
    for column, word in zip(("sweep", "scale"), said, strict=True):
        values = rows.column(column).unique().to_pylist()
        if values != [word]:
            raise BadFile(f"its rows have {column} {few(values)}")
    for column in ("cell", "cell_order", "trial_id"):
        if rows.column(column).null_count:
            raise BadFile(f"rows without {column}")
    for text in rows.column("axes").unique().to_pylist():
        try:
            known = isinstance(parse_json(text or "{}"), dict)
        except ValueError:
            known = False
        if not known:
            raise BadFile(f"its rows have axes {text!r}")
    return rows


_said: set[str] = set()


def name_once(path: str, reason: str) -> None:
    """Report on stderr that a file is left out, once per process."""
    say_once(f"left out: {path}: {reason}")


def say_once(text: str) -> None:
    """Print something on stderr, once per process."""
    if text not in _said:
        _said.add(text)
        print(text, file=sys.stderr, flush=True)


def few(values: Any) -> str:
    """The first values, for a message."""
    texts = sorted(map(str, values))
    return ", ".join(texts[:3]) + (", ..." if len(texts) > 3 else "")
