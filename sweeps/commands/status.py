"""`python -m sweeps status` and `why`: what a store holds of sweeps and of one trial."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pcore.config import canonical, trial_id, unflatten
from pcore.registry import own_code
from sweeps.commands.catalogue import find_sweep, sweep_names
from sweeps.commands.trials import range_matches
from sweeps.engine.launch.leases import LaunchLease
from sweeps.engine.options import open_store
from sweeps.engine.plan import align, format_seconds, trial_states
from sweeps.engine.spec import SCALES, Scale, Sweep, Trial
from sweeps.engine.store.store import Shard, Store
from sweeps.engine.trial.sources import is_same_code

COLUMNS: tuple[str, ...] = (
    "cell",
    "trials",
    "done",
    "diverged",
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
        print(f"\nrunning: {other} holds {len(other.trials)} trials")
    return 0


def _sweep_status(sweep: Sweep, scale: Scale, seeds: str | None, store: Store) -> str:
    """Cells and counts. stale = finished by code known to differ from the current code; failed =
    not finished, and the last attempt failed.
    """
    trials = sweep.trials(scale, seeds)
    states = trial_states(trials, store)
    same = _same_code(store, [t.id for t in trials])
    rows: list[tuple[str, ...]] = [COLUMNS]
    for label, members in _by_cell(trials).items():
        count = Counter(states[t.id] for t in members)
        failed = count["failed"] + count["retry"] + count["stopped"]
        numbers = (count["done"], count["diverged"], count["missing"], failed, count["cancelled"])
        old = sum(same.get(t.id) is False for t in members)
        rows.append((label, *map(str, (len(members), *numbers, old))))
    total = [str(sum(int(row[i]) for row in rows[1:])) for i in range(1, len(COLUMNS))]
    rows.append(("all", *total))
    text = f"{sweep.name} [{scale}]: {sweep.title}\n\n{align(rows)}"
    if unknown := sum(value is None for value in same.values()):
        text += f"\n\n{unknown} finished trials: code version unknown (no comparable hash, and "
        text += "no commit of this repository)"
    return text


def _store_status(store: Store) -> str:
    views = store.views()
    if not views:
        return f"no sweep has been run in {store.root} yet"
    visible = store.visible()
    rows: list[tuple[str, ...]] = [("sweep", "scale", *COLUMNS[1:-1])]
    for (sweep, scale), view in views.items():
        names = view.column("trial_id").unique().to_pylist()
        count = Counter(visible[n].status if n in visible else "missing" for n in names)
        known = [count[status] for status in ("ok", "diverged", "missing", "cancelled")]
        numbers = (len(names), *known[:3], len(names) - sum(known), known[3])
        rows.append((sweep, scale, *map(str, numbers)))
    return align(rows, num_text=2)


def _same_code(store: Store, names: Sequence[str]) -> dict[str, bool | None]:
    """Whether each finished trial was computed by the current code; None = unknown."""
    columns = ["trial_id", "status", "code_hash", "git_commit", "git_dirty"]
    return {
        row["trial_id"]: is_same_code(row["code_hash"], row["git_commit"], row["git_dirty"])
        for row in store.load(names, "trial", columns).to_pylist()
        if row["status"] in ("ok", "diverged")
    }


def show_trial(results: str | None, prefix: str) -> int:
    """Print everything about the trial whose id begins with this prefix."""
    store = open_store(results)
    shards = [s for s in store.shards() if s.trial_id.startswith(prefix)]
    names = sorted({shard.trial_id for shard in shards})
    if len(names) > 1:
        few = ", ".join(names[:5])
        raise ValueError(f"{len(names)} trials begin with {prefix!r}: {few}, ...")
    if names:
        print(_stored_trial(names[0], shards, store))
        return 0
    for sweep, scale, trial in _planned_trials():
        if trial.id.startswith(prefix):
            print(f"{trial.id}: {trial.cell.label}, seed {trial.config.seed}")
            print(f"a trial of {sweep} [{scale}], not run in {store.root} yet")
            print(f"\ncanonical form:\n{canonical(trial.config)}")
            return 0
    raise ValueError(f"no trial {prefix!r} in {store.root}, nor in any sweep")


def _stored_trial(name: str, shards: Sequence[Shard], store: Store) -> str:
    rows = store.load_shards(shards, "trial").sort_by("attempt").to_pylist()
    flat: dict[str, Any] = json.loads(rows[-1]["config_json"])
    lines = [f"trial {name}", *_result(name, store), ""]
    for row in rows:
        took = format_seconds(row["wall_seconds"]) if row["wall_seconds"] else "-"
        resumed = f", resumed at step {row['first_step']}" if row["first_step"] else ""
        lines.append(
            f"attempt {row['attempt']}: {row['status']}, {row['started_at']}, {took} on "
            f"{row['host']} ({row['device'] or '?'}), commit {(row['git_commit'] or '?')[:10]}, "
            f"code {row['code_hash']}{resumed}"
        )
        if row["error"]:
            lines.append("    " + str(row["error"]).strip().replace("\n", "\n    "))
    lines += ["", "used by:", *_uses(name, store), "", "kept files:"]
    lines += [f"  {e.name} ({e.size} bytes)" for e in store.folder.list(f"checkpoints/{name}")]
    lines += ["", "configuration:", *(f"  {key} = {value}" for key, value in flat.items())]
    return "\n".join([*lines, "", *_identity(name, flat)])


def _identity(name: str, flat: Mapping[str, Any]) -> Iterable[str]:
    """What the id of a trial is a hash of; own code that its row names is not imported to say."""
    if names := own_code(flat):
        code = ", ".join(f"{field}={value}" for field, value in names.items())
        yield f"its id is also a hash of own code, which is not imported here: {code}"
        return
    config = unflatten(flat)
    yield "canonical form (its SHA-256 begins with the trial id):"
    yield canonical(config)
    if trial_id(config) != name:
        yield f"today's code gives this configuration the id {trial_id(config)}"


def _result(name: str, store: Store) -> Iterable[str]:
    """Exact match by range and at every length beyond the trained ones, of the last checkpoint."""
    for (_, part), match in range_matches(store, [name]).items():
        yield f"exact match, {part} range: {100 * match:.1f} %"
    columns = ["checkpoint", "range", "length", "num_correct", "num_examples"]
    rows = store.load([name], "evaluation", columns).to_pylist()
    shares = [
        f"{row['length']}: {100 * row['num_correct'] / row['num_examples']:.1f}"
        for row in rows
        if row["checkpoint"] == "last" and row["range"] == "test"
    ]
    if shares:
        yield f"by length (%): {', '.join(shares)}"


def _uses(name: str, store: Store) -> Iterable[str]:
    for (sweep, scale), view in store.views().items():
        for row in view.to_pylist():
            if row["trial_id"] == name:
                table = f"reports/{sweep}-{scale}/table.*"
                yield f"  {sweep} [{scale}], cell {row['cell']!r}, in {table}"


def _planned_trials() -> Iterable[tuple[str, Scale, Trial]]:
    for name in sweep_names():
        sweep = find_sweep(name)
        for scale in SCALES:
            for trial in sweep.trials(scale):
                yield name, scale, trial


def _by_cell(trials: Sequence[Trial]) -> Mapping[str, list[Trial]]:
    cells: dict[str, list[Trial]] = {}
    for trial in trials:
        cells.setdefault(trial.cell.label, []).append(trial)
    return cells
