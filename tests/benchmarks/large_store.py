"""A store of 100,000 trials: `python -m tests.benchmarks.large_store`.

Writes them as trials would (10 ms of a core each), then runs the commands of users as processes of
their own and prints what each took: core seconds (user and system, which other work on the machine
changes little), wall seconds and the most memory. The exit code is 1 if a limit is missed; limits
are in wall seconds, which only an idle machine can show.
"""

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pcore.config import TrialConfig
from pcore.flops import count_train_flops
from sweeps.commands.catalogue import find_sweep
from sweeps.engine.launch.launch import view_rows
from sweeps.engine.plan import make_plan
from sweeps.engine.store.packs import CHUNK
from sweeps.engine.store.store import Store
from sweeps.engine.trial.provenance import code_provenance
from tests.benchmarks.record import record
from tests.support.rows.example_store import make_evaluation, write_trial

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


def main() -> int:
    """Print a line per measurement; 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100_000, help="multiple of 10,000")
    count = parser.parse_args().trials
    with tempfile.TemporaryDirectory(prefix="pcore-large-") as temporary:
        loose, many = Path(temporary) / "loose", Path(temporary) / "many"
        # In processes of their own: a command is charged with the memory that its parent has.
        for work in ((loose, count // 10, False), (many, count, True)):
            child = multiprocessing.get_context("spawn").Process(target=fill, args=work)
            child.start()
            child.join()
        kept = [
            measure(f"first read of {count // 10:,} loose shards", 20, loose, "sweeps", "status"),
            measure(f"plan, {count:,} trials", 10, many, "sweeps", "plan"),
            measure(f"status, {count:,} trials", 10, many, "sweeps", "status"),
            measure(f"table, {count:,} trials", 30, many, "analysis", "table"),
        ]
    return int(not all(kept))


def fill(folder: Path, count: int, packed: bool) -> None:
    """Write a sweep of `count` finished trials with 20 reports and 7 evaluations each."""
    store, script = Store(folder / "results"), folder / "large.py"
    folder.mkdir()
    script.write_text(SCRIPT.format(seeds=count // CELLS))
    plan = make_plan(find_sweep(str(script)), "smoke", None, store)
    store.write_view(view_rows(plan))
    works = [(store.root, planned.trial.config) for planned in plan.trials]
    with multiprocessing.get_context("spawn").Pool() as pool:
        pool.starmap(write, works, chunksize=CHUNK)
    if packed:
        store.pack()


def write(root: str, config: TrialConfig) -> None:
    """A finished trial with counts of its own."""
    os.fsync = lambda number: None  # nobody waits for a disk here
    known = code_provenance() | {"train_seconds": 2.0, "eval_seconds": 1.0, "num_threads": 1}
    known |= {"first_step": 0, "started_at": "2026-01-01T00:00:00+00:00"}
    known["train_flops"] = count_train_flops(config)
    evaluations = make_evaluation(9 + config.optim.num_steps / 10, 1.5, config.seed)[::2]
    write_trial(Store(root), config, "ok", evaluations, **known)


def measure(what: str, limit: float, folder: Path, *command: str) -> bool:
    """Run a command of users on a store and print what it took; whether it kept to its limits."""
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
    wall = time.monotonic() - began
    record(f"{what}: core time", used.ru_utime + used.ru_stime, "{:.1f} s")
    is_quick = record(f"{what}: wall time", wall, "{:.1f} s", most=limit)
    return record(f"{what}: memory", used.ru_maxrss / 1e3, "{:.0f} MB", most=MOST_MB) and is_quick


if __name__ == "__main__":
    sys.exit(main())
