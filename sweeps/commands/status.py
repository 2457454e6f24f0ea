"""What a store holds of sweeps: `python -m sweeps status`."""

from collections import Counter
from collections.abc import Sequence

from pcore.cli.text import plural
from sweeps.commands.catalogue import Listed
from sweeps.engine.launch.leases import LaunchLease
from sweeps.engine.options import open_store
from sweeps.engine.plan import align, trial_states
from sweeps.engine.store.sources import is_same_code
from sweeps.engine.store.store import Store
from sweeps.engine.trial.running import running_trials

COLUMNS: tuple[str, ...] = (
    "cell",
    "trials",
    "done",
    "diverged",
    "running",
    "missing",
    "failed",
    "stale",
)


def show_status(results: str | None, sweeps: Sequence[Listed]) -> int:
    """Print a table per sweep. Without sweeps: a line per view of the store."""
    store = open_store(results)
    if sweeps:
        print("\n\n".join(_sweep_status(sweep, store) for sweep in sweeps))
    else:
        print(_store_status(store))
    for other in LaunchLease(store.folder).living(remove=False):
        print(f"\nrunning: {other} holds {plural(len(other.trials), 'trial')}")
    return 0


def _sweep_status(sweep: Listed, store: Store) -> str:
    """Cells and counts. stale = finished by code known to differ from the current code; failed =
    not finished nor running, and the last attempt failed.
    """
    running = dict.fromkeys(running_trials(store), "running")
    states = trial_states({t.trial_id: t.cell for t in sweep.trials}, store) | running
    same = _same_code(store, list(states))
    rows: list[tuple[str, ...]] = [COLUMNS]
    by_cell = dict[str, list[str]]()
    for trial in sweep.trials:
        by_cell.setdefault(trial.cell, []).append(trial.trial_id)
    for label, members in by_cell.items():
        count = Counter(states[name] for name in members)
        failed = count["failed"] + count["retry"] + count["stopped"]
        known = [count[state] for state in ("done", "diverged", "running", "missing")]
        old = sum(same.get(name) is False for name in members)
        rows.append((label, *map(str, (len(members), *known, failed, old))))
    total = [str(sum(int(row[i]) for row in rows[1:])) for i in range(1, len(COLUMNS))]
    rows.append(("all", *total))
    text = f"{sweep.sweep} [{sweep.scale}]: {sweep.title}\n\n{align(rows)}"
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
        numbers = (len(names), *shown, count.total())
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
