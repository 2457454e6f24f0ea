"""`python -m sweeps replicate`: reruns a sample of stored trials and compares the results.

On one machine the same code gives the same bits. With another CPU or another number of threads,
sums are rounded differently, and beyond the trained lengths runs of one seed then differ; the
verdict says whether by less than runs of different seeds do. The store is only read; reruns go to
another folder, and repeating the command resumes them.
"""

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from pcore.cli.models import choose_device
from pcore.cli.text import format_seconds, plural
from pcore.config import SEEDS, TrialConfig, trial_id, unflatten
from sweeps.commands.catalogue import chosen_views
from sweeps.engine.options import open_store
from sweeps.engine.plan import align
from sweeps.engine.spec import Scale, seeds_text
from sweeps.engine.store.score import exact_match
from sweeps.engine.store.sources import is_same_code
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
KEYS = ("range", "length", "second_length")
COUNTS = ("num_examples", "num_correct", "num_correct_tokens", "loss_sum", "test_set")
OF_RUN = ("trial_id", "cell_id", *SEEDS, "config_json", "status", "wall_seconds", "device")
MACHINE = ("code_hash", "num_threads", "cpu_model", "cpu_capability")
Lengths: TypeAlias = Mapping[tuple[Any, ...], Mapping[str, Any]]  # counts by KEYS
Run: TypeAlias = dict[str, Any]  # columns of the trial's row, and `lengths` of the last checkpoint


def replicate(
    results: str | None,
    name: str,
    scale: Scale,
    num_trials: int,
    seed: int,
    into: str,
    num_threads: int | None = None,
    trust_code: bool = False,
) -> int:
    """Run a random sample of the finished trials of a sweep again, as their rows say, and compare.
    Exit code 0 if all are `WELL`, else 1.

    num_threads: of the reruns; None = as stored. trust_code: import own code that rows name.
    Raises ValueError if there is nothing to run again, or `into` is the store itself.
    """
    store, target = open_store(results), open_store(into)
    if target.root == store.root:
        raise ValueError(f"--into {into} is the store itself: name another folder")
    (view,) = chosen_views(store, [name], scale)
    labels = {row["trial_id"]: row["cell"] for row in store.load_view(*view).to_pylist()}
    runs = load_runs(store, list(labels))
    configs, reasons = _configs(runs, store, trust_code)
    if not configs:
        reason = f": {reasons[0]}" if reasons else ""
        raise ValueError(f"no finished trial of {name} [{scale}] can run again{reason}")
    chosen = random.Random(seed).sample(sorted(configs), min(num_trials, len(configs)))
    seconds = sum(runs[trial]["wall_seconds"] or 0 for trial in chosen)
    print(f"rerunning {len(chosen)} of {len(configs)} trials, {format_seconds(seconds)} originally")
    if reasons:
        print(f"left out: {len(reasons)}, the first because {reasons[0]}")
    print(f"from {store.root} into {target.root}")
    target.folder.check_writable()
    verdicts = list[Verdict]()
    for trial in chosen:
        run, config = runs[trial], configs[trial]
        at = seeds_text(config.seed, config.data_seed)
        print(f"\n{labels[trial]}, {at} ({trial})", flush=True)
        seeds = [one["lengths"] for one in runs.values() if one["cell_id"] == run["cell_id"]]
        verdicts.append(_replicate_one(run, config, seeds, target, num_threads))
    print()
    for verdict in dict.fromkeys(verdicts):
        print(f"{verdicts.count(verdict)} of {len(verdicts)} {verdict}: {MEANING[verdict]}")
    return 0 if all(verdict in WELL for verdict in verdicts) else 1


def load_runs(store: Store, trials: Sequence[str]) -> dict[str, Run]:
    """Those of these trials that finished, by id."""
    rows = store.load(trials, "trial", [*OF_RUN, *MACHINE]).to_pylist()
    runs = {row["trial_id"]: row | {"lengths": {}} for row in rows if row["status"] == "ok"}
    columns = ["trial_id", "checkpoint", *KEYS, *COUNTS]
    for row in store.load(runs, "evaluation", columns).to_pylist():
        if row["checkpoint"] == "last":
            runs[row["trial_id"]]["lengths"][tuple(row[key] for key in KEYS)] = row
    return runs


def _configs(
    runs: Mapping[str, Run], store: Store, trust_code: bool
) -> tuple[dict[str, TrialConfig], list[str]]:
    """The configuration of each run that can be made again, and why others cannot."""
    configs, reasons = dict[str, TrialConfig](), list[str]()
    for trial, run in runs.items():
        where = f"the row of {trial} in {store.root}"
        try:
            config = unflatten(json.loads(run["config_json"]), trust_code=trust_code, file=where)
        except ValueError as error:  # own code that is not trusted, options of another version
            reasons.append(str(error))
            continue
        if trial_id(config) == trial:
            configs[trial] = config
        else:
            reasons.append(f"the code that {where} names has changed")
    return configs, reasons


def _replicate_one(
    stored: Run,
    config: TrialConfig,
    seeds: Sequence[Lengths],
    target: Store,
    num_threads: int | None,
) -> Verdict:
    device = str(choose_device("cpu" if stored["device"] == "cpu" else None))
    threads = num_threads or stored["num_threads"] or 1
    settings = Settings(results=target.root, device=device, num_threads=threads)
    outcome = run_attempt(config, settings)
    if outcome.status not in ("ok", "done"):
        print(f"  failed: {outcome.status}. {outcome.error}".rstrip())
        return "failed"
    again = load_runs(target, [outcome.trial_id])[outcome.trial_id]
    if outcome.status == "done":
        if not is_same_code(again["code_hash"]):
            said = f"{target.root} holds a rerun of {outcome.trial_id} by other code"
            raise ValueError(f"{said}: name another --into")
        print("  this rerun was made before")
    print(f"  stored: {_machine(stored)}; again: {_machine(again)}")
    print(align(list(_table(stored["lengths"], again["lengths"], seeds))))
    verdict = judge(stored["lengths"], again["lengths"], seeds)
    print(f"  {verdict}")
    return verdict


def judge(stored: Lengths, again: Lengths, seeds: Sequence[Lengths]) -> Verdict:
    """How a rerun compares with the stored run of its seed; seeds: all stored runs of its cell."""
    if stored.keys() != again.keys() or any(
        stored[key]["test_set"] != again[key]["test_set"] for key in stored
    ):
        return "not comparable"
    if all(stored[key][name] == again[key][name] for key in stored for name in COUNTS):
        return "identical"
    if len(seeds) < 2:
        return "not comparable"
    gaps = {key: abs(exact_match(again[key]) - exact_match(stored[key])) for key in stored}
    is_within = all(gap <= spread(seeds, key) for key, gap in gaps.items())
    return "within the spread" if is_within else "beyond the spread"


def spread(seeds: Sequence[Lengths], key: tuple[Any, ...]) -> float:
    """How far the best stored run lies above the worst at a length, as a share of examples."""
    shares = [exact_match(run[key]) for run in seeds if key in run]
    return max(shares) - min(shares)


def _table(stored: Lengths, again: Lengths, seeds: Sequence[Lengths]) -> Iterable[tuple[str, ...]]:
    yield ("range", "length", "stored %", "again %", "points", "spread over seeds")
    for key in sorted(stored.keys() & again.keys(), key=lambda key: (key[1], key[2] or 0)):
        before, after = 100 * exact_match(stored[key]), 100 * exact_match(again[key])
        length = f"{key[1]}" if key[2] is None else f"{key[1]} x {key[2]}"
        apart = 100 * spread(seeds, key) if len(seeds) > 1 else float("nan")
        texts = (f"{before:.1f}", f"{after:.1f}", f"{after - before:+.1f}", f"{apart:.1f}")
        yield (key[0], length, *texts)


def _machine(row: Mapping[str, Any]) -> str:
    """Such as "AMD EPYC (AVX2), 1 thread"."""
    model, threads = row["cpu_model"] or "unknown CPU", row["num_threads"] or 1
    capability = f" ({row['cpu_capability']})" if row["cpu_capability"] else ""
    return f"{model}{capability}, {plural(threads, 'thread')}"
