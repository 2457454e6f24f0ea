"""`python -m sweeps trials`: id, state, result and weights of every trial of a sweep."""

from collections.abc import Mapping, Sequence
from typing import Any

from sweeps.engine.options import open_store
from sweeps.engine.plan import align, trial_states
from sweeps.engine.spec import Scale, Sweep
from sweeps.engine.store.store import Store

COLUMNS = ("cell", "trial", "seed", "data seed", "state", "train", "near", "test", "weights")
RANGES = ("train", "near", "test")


def show_trials(
    results: str | None, sweeps: Sequence[Sweep], scale: Scale, seeds: str | None
) -> int:
    """Print a line per trial of these sweeps: exact match (%) of the last checkpoint over all
    examples of a range, and where its weights are.
    """
    store = open_store(results)
    for sweep in sweeps:
        trials = sweep.trials(scale, seeds)
        states = trial_states(trials, store)
        match = range_matches(store, [trial.id for trial in trials])
        rows: list[tuple[str, ...]] = [COLUMNS]
        for trial in trials:
            weights = f"checkpoints/{trial.id}/last.pt"
            texts = [
                f"{100 * m:.1f}" if (m := match.get((trial.id, r))) is not None else "-"
                for r in RANGES
            ]
            numbers = (str(trial.config.seed), str(trial.config.data_seed))
            kept = weights if store.folder.exists(weights) else "-"
            rows.append((trial.cell.label, trial.id, *numbers, states[trial.id], *texts, kept))
        print(f"{sweep.name} [{scale}]: {sweep.title}\n\n{align(rows, num_text=2)}")
    print(f"\nweights are below {store.root}; more of a trial: python -m sweeps why TRIAL")
    return 0


def range_matches(store: Store, trials: Sequence[str]) -> Mapping[tuple[str, str], float]:
    """Exact match of the last checkpoint over all examples of a range, by (trial, range)."""
    columns = ["trial_id", "checkpoint", "range", "num_correct", "num_examples"]
    sums: dict[tuple[str, str], list[int]] = {}
    row: dict[str, Any]
    for row in store.load(trials, "evaluation", columns).to_pylist():
        if row["checkpoint"] == "last":
            total = sums.setdefault((row["trial_id"], row["range"]), [0, 0])
            total[0] += row["num_correct"]
            total[1] += row["num_examples"]
    return {key: correct / examples for key, (correct, examples) in sums.items()}
