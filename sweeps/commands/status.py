"""What a store holds of sweeps: `python -m sweeps status`."""

from collections import Counter
from collections.abc import Mapping, Sequence

from pcore.cli.text import plural
from sweeps.engine.launch.leases import LaunchLease, running_trials
from sweeps.engine.options import open_store
from sweeps.engine.plan import align, trial_states
from sweeps.engine.spec import Scale, Sweep, Trial
from sweeps.engine.store.store import Store
from sweeps.engine.trial.sources import is_same_code

COLUMNS: tuple[str, ...] = (
    "cell",
    "trials",
    "done",
    "diverged",
    "running",
    "missing",
    "failed",
    "cancelled",
    "stale",
)


def show_status(
    results: str | None, sweeps: Sequence[Sweep], scale: Scale, seeds: str | None
) -> int:
    """Print a table per sweep. Without sweeps: a line per view of the store."""
    store = open_store(results)
    if sweeps:
        print("\n\n".join(_sweep_status(sweep, scale, seeds, store) for sweep in sweeps))
    else:
        print(_store_status(store))
    for other in LaunchLease(store.folder).living(remove=False):
        print(f"\nrunning: {other} holds {plural(len(other.trials), 'trial')}")
    return 0


def _sweep_status(sweep: Sweep, scale: Scale, seeds: str | None, store: Store) -> str:
    """Cells and counts. stale = finished by code known to differ from the current code; failed =
    not finished nor running, and the last attempt failed.
    """
    trials = sweep.trials(scale, seeds)
    running = dict.fromkeys(running_trials(store), "running")
    states = trial_states(trials, store) | running
    same = _same_code(store, [t.id for t in trials])
    rows: list[tuple[str, ...]] = [COLUMNS]
    for label, members in _by_cell(trials).items():
        count = Counter(states[t.id] for t in members)
        failed = count["failed"] + count["retry"] + count["stopped"]
        known = [count[state] for state in ("done", "diverged", "running", "missing")]
        old = sum(same.get(t.id) is False for t in members)
        rows.append((label, *map(str, (len(members), *known, failed, count["cancelled"], old))))
    total = [str(sum(int(row[i]) for row in rows[1:])) for i in range(1, len(COLUMNS))]
    rows.append(("all", *total))
    text = f"{sweep.name} [{scale}]: {sweep.title}\n\n{align(rows)}"
    if unknown := sum(value is None for value in same.values()):
        text += f"\n\n{unknown} finished trials: code version unknown (they have no code hash)"
    return text


def _store_status(store: Store) -> str:
    views = store.views() | store.views("searches")
    if not views:
        return f"no sweep has been run in {store.root} yet"
    visible, running = store.visible(), running_trials(store)
    known = {name: shard.status for name, shard in visible.items()}
    known |= dict.fromkeys(running, "running")
    rows: list[tuple[str, ...]] = [("sweep", "scale", *COLUMNS[1:-1])]
    for (sweep, scale), view in views.items():
        names = view.column("trial_id").unique().to_pylist()
        count = Counter(known.get(name, "missing") for name in names)
        shown = [count.pop(state, 0) for state in ("ok", "diverged", "running", "missing")]
        cancelled = count.pop("cancelled", 0)
        numbers = (len(names), *shown, count.total(), cancelled)
        rows.append((sweep, scale, *map(str, numbers)))
    return align(rows, num_text=2)


def _same_code(store: Store, names: Sequence[str]) -> dict[str, bool | None]:
    """Whether each finished trial was computed by the current code; None = unknown."""
    columns = ["trial_id", "status", "code_hash"]
    return {
        row["trial_id"]: is_same_code(row["code_hash"])
        for row in store.load(names, "trial", columns).to_pylist()
        if row["status"] in ("ok", "diverged")
    }


def _by_cell(trials: Sequence[Trial]) -> Mapping[str, list[Trial]]:
    cells: dict[str, list[Trial]] = {}
    for trial in trials:
        cells.setdefault(trial.cell.label, []).append(trial)
    return cells
