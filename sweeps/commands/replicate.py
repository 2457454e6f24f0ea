"""`python -m sweeps replicate`: reruns a sample of stored trials and compares the results.

On one machine the same code gives the same bits. With another CPU or another number of threads,
sums are rounded differently, and beyond the trained lengths runs of one seed then differ; the
verdict says whether by less than runs of different seeds do. The store is only read; reruns go to
another folder, and repeating the command resumes them.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pcore.cli.text import format_seconds, plural
from pcore.config import TrialConfig, trial_id
from sweeps.commands.catalogue import find_sweep
from sweeps.engine.options import open_store
from sweeps.engine.plan import align
from sweeps.engine.spec import Scale
from sweeps.engine.store.store import Store
from sweeps.engine.trial.attempt import Settings, run_attempt

Verdict = Literal["identical", "within the spread", "beyond the spread", "not comparable", "failed"]
WELL: tuple[Verdict, ...] = ("identical", "within the spread")
MEANING: dict[Verdict, str] = {
    "identical": "every count and loss as stored",
    "within the spread": "at no length further from the stored run than stored runs of other seeds "
    "are from one another",
    "beyond the spread": "further than that at some length",
    "not comparable": "other test sets, or no other seed to compare with",
    "failed": "the rerun did not finish",
}
Key = tuple[str, int, int | None]  # range, length, second length
COUNTS = ("num_examples", "num_correct", "num_correct_tokens", "loss_sum", "test_set")
KEYS = ("range", "length", "second_length")
PROVENANCE = ("cell_id", "seed", "data_seed", "wall_seconds", "device", "num_threads")
MACHINE = ("cpu_model", "cpu_capability")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """What the store holds of one run."""

    trial_id: str
    cell: str
    row: Mapping[str, Any]  # its provenance
    lengths: Mapping[Key, Mapping[str, Any]]  # counts of the last checkpoint


def replicate(
    results: str | None,
    name: str,
    scale: Scale,
    num_trials: int,
    seed: int,
    into: str,
    num_threads: int | None = None,
) -> int:
    """Run a random sample of the finished trials of a sweep again and compare. Exit code 0 if all
    are `WELL`, else 1.

    num_threads: of the reruns; None = as stored.
    Raises ValueError if there is nothing to run again, or `into` is the store itself.
    """
    store, target = open_store(results), Store(into)
    if target.root == store.root:
        raise ValueError(f"--into {into} is the store itself: name another folder")
    runs = _load_runs(store, name, scale)
    configs = _configs(runs, name, scale)
    if not configs:
        raise ValueError(
            f"no finished trial in {store.root} belongs to {name} [{scale}] as it is now"
        )
    chosen = random.Random(seed).sample(sorted(configs), min(num_trials, len(configs)))
    seconds = sum(runs[trial].row["wall_seconds"] or 0 for trial in chosen)
    print(f"rerunning {len(chosen)} of {len(configs)} trials, {format_seconds(seconds)} originally")
    print(f"from {store.root} into {target.root}")
    target.prepare()
    verdicts = list[Verdict]()
    for trial in chosen:
        verdicts.append(_replicate_one(runs, trial, configs[trial], target, num_threads))
    print()
    for verdict in dict.fromkeys(verdicts):
        print(f"{verdicts.count(verdict)} of {len(verdicts)} {verdict}: {MEANING[verdict]}")
    return 0 if all(verdict in WELL for verdict in verdicts) else 1


def _load_runs(store: Store, name: str, scale: Scale) -> dict[str, Stored]:
    """Every finished run of the view, by trial id."""
    sweep = find_sweep(name).name
    if (sweep, scale) not in store.view_names():
        raise ValueError(f"{store.root} holds no view {sweep} [{scale}]")
    view = store.load_view(sweep, scale).to_pylist()
    cells = {member["trial_id"]: member["cell"] for member in view}
    rows = store.load(
        list(cells), "trial", ["trial_id", "status", *PROVENANCE, *MACHINE]
    ).to_pylist()
    lengths = _load_lengths(store, list(cells))
    return {
        row["trial_id"]: Stored(
            trial_id=row["trial_id"],
            cell=cells[row["trial_id"]],
            row=row,
            lengths=lengths[row["trial_id"]],
        )
        for row in rows
        if row["status"] == "ok"
    }


def _configs(runs: Mapping[str, Stored], name: str, scale: Scale) -> dict[str, TrialConfig]:
    """The configuration of each stored run, from the current sweep: code named in rows is never
    run."""
    cells = {cell.id: cell.config for cell in find_sweep(name).cells(scale)}
    found = {}
    for run in runs.values():
        if run.row["cell_id"] in cells:
            seeds = {key: run.row[key] for key in ("seed", "data_seed")}
            config = replace(cells[run.row["cell_id"]], **seeds)
            if trial_id(config) == run.trial_id:
                found[run.trial_id] = config
    return found


def _load_lengths(
    store: Store, trials: Sequence[str]
) -> Mapping[str, Mapping[Key, Mapping[str, Any]]]:
    """The evaluations of these trials at the last checkpoint, by their keys."""
    lengths: dict[str, dict[Key, Mapping[str, Any]]] = defaultdict(dict)
    columns = ["trial_id", "checkpoint", *KEYS, *COUNTS]
    for row in store.load(trials, "evaluation", columns).to_pylist():
        if row["checkpoint"] == "last":
            lengths[row["trial_id"]][tuple(row[key] for key in KEYS)] = row
    return lengths


def _replicate_one(
    runs: Mapping[str, Stored],
    trial: str,
    config: TrialConfig,
    target: Store,
    num_threads: int | None,
) -> Verdict:
    stored = runs[trial]
    print(
        f"\n{stored.cell}, seed {config.seed}, data seed {config.data_seed} ({trial})", flush=True
    )
    device = "cpu" if stored.row["device"] == "cpu" else "cuda"
    threads = num_threads or stored.row["num_threads"] or 1
    settings = Settings(results=target.root, device=device, num_threads=threads)
    outcome = run_attempt(config, settings)
    if outcome.status not in ("ok", "done"):
        print(f"  failed: {outcome.status}. {outcome.error}".rstrip())
        return "failed"
    rerun = target.load([trial], "trial", ["status", "num_threads", *MACHINE]).to_pylist()
    (row,) = (row for row in rerun if row["status"] == "ok")
    print(f"  stored: {_machine(stored.row)}; again: {_machine(row)}")
    again = _load_lengths(target, [trial])[trial]
    seeds = [run.lengths for run in runs.values() if run.cell == stored.cell]
    print(align(list(_table(stored.lengths, again, seeds))))
    verdict = judge(stored.lengths, again, seeds)
    print(f"  {verdict}")
    return verdict


def judge(
    stored: Mapping[Key, Mapping[str, Any]],
    again: Mapping[Key, Mapping[str, Any]],
    seeds: Sequence[Mapping[Key, Mapping[str, Any]]],
) -> Verdict:
    """How a rerun compares with the stored run of its seed; seeds: all stored runs of its cell."""
    if stored.keys() != again.keys() or any(
        stored[key]["test_set"] != again[key]["test_set"] for key in stored
    ):
        return "not comparable"
    if all(stored[key][name] == again[key][name] for key in stored for name in COUNTS):
        return "identical"
    if len(seeds) < 2:
        return "not comparable"
    gaps = {key: abs(_share(again[key]) - _share(stored[key])) for key in stored}
    is_within = all(gap <= spread(seeds, key) for key, gap in gaps.items())
    return "within the spread" if is_within else "beyond the spread"


def spread(seeds: Sequence[Mapping[Key, Mapping[str, Any]]], key: Key) -> float:
    """How far the best stored run lies above the worst at a length, as a share of examples."""
    shares = [_share(run[key]) for run in seeds if key in run]
    return max(shares) - min(shares)


def _table(
    stored: Mapping[Key, Mapping[str, Any]],
    again: Mapping[Key, Mapping[str, Any]],
    seeds: Sequence[Mapping[Key, Mapping[str, Any]]],
) -> Iterable[tuple[str, ...]]:
    yield ("range", "length", "stored %", "again %", "points", "spread over seeds")
    for key in sorted(stored.keys() & again.keys(), key=lambda key: (key[1], key[2] or 0)):
        before, after = 100 * _share(stored[key]), 100 * _share(again[key])
        length = f"{key[1]}" if key[2] is None else f"{key[1]} x {key[2]}"
        apart = 100 * spread(seeds, key) if len(seeds) > 1 else float("nan")
        texts = (f"{before:.1f}", f"{after:.1f}", f"{after - before:+.1f}", f"{apart:.1f}")
        yield (key[0], length, *texts)


def _share(row: Mapping[str, Any]) -> float:
    return row["num_correct"] / row["num_examples"]


def _machine(row: Mapping[str, Any]) -> str:
    """Such as "AMD EPYC (AVX2), 1 thread"."""
    model, threads = row["cpu_model"] or "unknown CPU", row["num_threads"] or 1
    capability = f" ({row['cpu_capability']})" if row["cpu_capability"] else ""
    return f"{model}{capability}, {plural(threads, 'thread')}"
