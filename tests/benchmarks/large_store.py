"""A store of 100,000 trials: `python -m tests.benchmarks.large_store`.

Writes synthetic shards, then runs the commands of users as processes of their own and prints what
each took: core seconds (user and system, which other work on the machine changes little), wall
seconds and the most memory. The exit code is 1 if a limit is missed; limits are in wall seconds,
which only an idle machine can show.
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from pcore.config import flatten
from pcore.flops import count_train_flops
from sweeps.commands.catalogue import find_sweep
from sweeps.engine.launch.launch import view_rows
from sweeps.engine.plan import make_plan
from sweeps.engine.spec import Trial
from sweeps.engine.store.packs import CHUNK, SHARD, write_pack
from sweeps.engine.store.schema import schema
from sweeps.engine.store.seal import seal
from sweeps.engine.store.store import Store
from sweeps.engine.trial.provenance import code_provenance
from tests.support.rows.example_store import NUM_EXAMPLES, make_evaluation, write_trial

ROOT = Path(__file__).parents[2]
MOST_MB = 1000
SCRIPT = '''"""A sweep of a hundred cells."""

from sweeps.baseline import addition
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Sweep, axis, grid

SWEEP = Sweep(
    name="large",
    title="A large sweep",
    claim="A hundred cells.",
    cells=lambda scale: grid(
        addition("smoke"),
        steps=axis("optim.num_steps", *range(1, 26)),
        heads=axis("model.num_heads", 1, 2, 4, 8),
    ),
    seeds=dict.fromkeys(("smoke", "laptop", "paper"), "{seeds}"),
)
if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
'''
CELLS = 100
VARIED = ("seed", "data_seed", "optim.num_steps", "model.num_heads")


def main() -> int:
    """Print a line per measurement; 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100_000, help="multiple of 1,000")
    parser.add_argument("--loose", type=int, default=10_000, help="multiple of 1,000")
    parser.add_argument("--folder", default=None, help="keep the stores here and use them again")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pcore-large-") as temporary:
        folder = Path(given.folder or temporary)
        loose, many = folder / "loose", folder / "many"
        # In processes of their own: a command is charged with the memory that its parent has.
        for work in ((loose, given.loose, False), (many, given.trials, True)):
            child = multiprocessing.get_context("spawn").Process(target=fill, args=work)
            child.start()
            child.join()
        of = f"{given.trials:,} trials"
        missed = [
            *measure(f"first read of {given.loose:,} loose shards", 20, loose, "sweeps", "status"),
            *measure(f"plan, {of}", 10, many, "sweeps", "plan"),
            *measure(f"status, {of}", 10, many, "sweeps", "status"),
            *measure(f"table, {of}", 30, many, "analysis", "table"),
        ]
    for line in missed:
        print(f"missed: {line}")
    return 1 if missed else 0


# The stores


def fill(folder: Path, count: int, packed: bool) -> None:
    """Write a sweep of `count` finished trials with 20 reports and 7 evaluations each, unless it
    is there. packed: their rows are in packs, and under their own names lies one
    shard again and again, since nobody reads it.
    """
    script = folder / "large.py"
    if script.exists():
        return
    began, store = time.process_time(), Store(folder / "results")
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / "making" / script.name  # under its own name, which views keep
    written.parent.mkdir()
    written.write_text(SCRIPT.format(seeds=count // CELLS))
    plan = make_plan(find_sweep(str(written)), "smoke", None, store, priced=False)
    store.write_view(view_rows(plan))
    trials, rng = [planned.trial for planned in plan.trials], np.random.default_rng(0)
    template = _template(trials[0])
    os.fsync = lambda number: None  # nobody waits for a disk here
    for begin in range(0, count, CHUNK):
        chunk = trials[begin : begin + CHUNK]
        (_pack if packed else _scatter)(store, chunk, _rows(template, chunk, rng))
    written.rename(script)
    took = time.process_time() - began
    print(f"written: {count:,} trials in {took:.0f} core s", flush=True)


def _template(trial: Trial) -> pa.Table:
    """The rows of one trial as the engine writes them."""
    with tempfile.TemporaryDirectory() as folder:
        store, places = Store(folder), ("missed_stop", "early_stop", "wrong_symbol")
        unexplained = {f"num_{place}": 0 for place in places}  # right at random, see `_rows`
        evaluations = make_evaluation(9, 1.5, 0, **unexplained)[::2]
        known = code_provenance() | {"train_seconds": 2.0, "eval_seconds": 1.0, "num_threads": 1}
        known |= {"first_step": 0, "started_at": "2026-01-01T00:00:00+00:00"}
        flops = count_train_flops(trial.config)
        write_trial(store, trial.config, "ok", evaluations, **known, train_flops=flops)
        return store.load()


def _rows(template: pa.Table, trials: Sequence[Trial], rng: np.random.Generator) -> pa.Table:
    """The rows of these trials, one after another."""
    each, known = template.num_rows, schema()
    rows = template.take(np.tile(np.arange(each), len(trials)))
    flats = [flatten(trial.config) for trial in trials]
    texts = np.repeat([json.dumps(flat) for flat in flats], each)
    is_trial = np.asarray(rows.column("record")) == "trial"
    is_evaluation = np.asarray(rows.column("record")) == "evaluation"
    changed = {name: np.repeat([flat[name] for flat in flats], each) for name in VARIED}
    changed["trial_id"] = np.repeat([trial.id for trial in trials], each)
    right = rng.integers(0, NUM_EXAMPLES + 1, rows.num_rows)
    masked = {
        "cell_id": (np.repeat([trial.cell.id for trial in trials], each), is_trial),
        "config_json": (texts, is_trial),
        "num_correct": (right, is_evaluation),
    }
    columns = {name: pa.array(v, known.field(name).type) for name, v in changed.items()}
    for name, (values, mask) in masked.items():
        columns[name] = pa.array(values, known.field(name).type, mask=~mask)
    for name, column in columns.items():
        rows = rows.set_column(rows.column_names.index(name), known.field(name), column)
    return rows


def _names(trials: Sequence[Trial]) -> list[str]:
    return [f"trials/{t.id[:2]}/{t.id}-1-ok-01234567.parquet" for t in trials]


def _scatter(store: Store, trials: Sequence[Trial], rows: pa.Table) -> None:
    """A shard per trial."""
    each = rows.num_rows // len(trials)
    for i, name in enumerate(_names(trials)):
        store.folder.write(name, seal(rows.slice(i * each, each), name))


def _pack(store: Store, trials: Sequence[Trial], rows: pa.Table) -> None:
    """A pack of them, as `Packs.add` writes it, and the names of their shards."""
    names, folder = _names(trials), store.folder
    one = seal(rows.slice(0, rows.num_rows // len(trials)), names[0])
    for name in names:
        file = folder.local / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(one)
    column = pa.array(np.repeat(names, rows.num_rows // len(trials)), pa.string())
    write_pack(folder, rows.append_column(SHARD, column))


# The commands


def measure(what: str, limit: float, folder: Path, *command: str) -> list[str]:
    """Run a command of users on a store and print what it took; what missed its limit."""
    sweep = "large" if "table" in command else str(folder / "large.py")
    words = [sys.executable, "-m", *command, sweep, "--scale", "smoke"]
    words += ["--results", str(folder / "results")]
    variables = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    began = time.monotonic()
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(words, cwd=ROOT, env=variables, stdout=out, stderr=out)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read().decode()
    if child.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {child.returncode}: {text[-2000:]}")
    core, wall, peak = used.ru_utime + used.ru_stime, time.monotonic() - began, used.ru_maxrss / 1e3
    print(f"{what}: {core:.1f} core s, {wall:.1f} s, {peak:.0f} MB", flush=True)
    missed = [f"{what}: {wall:.1f} s, limit {limit:.0f} s"] if wall > limit else []
    return missed + [f"{what}: {peak:.0f} MB, limit {MOST_MB} MB"] * (peak > MOST_MB)


if __name__ == "__main__":
    sys.exit(main())
