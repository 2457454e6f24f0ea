"""What a store holds: `status` counts trials, `trials` lists them, `why` explains one."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pcore.cli.text import format_seconds
from pcore.config import canonical, own_code, trial_id, unflatten
from sweeps.commands.catalogue import Listed
from sweeps.engine.options import open_store
from sweeps.engine.plan import align, trial_states
from sweeps.engine.store.address import find_trial, stored_addresses
from sweeps.engine.store.schema import COUNTS, TRIAL
from sweeps.engine.store.score import exact_match, pooled_matches
from sweeps.engine.store.sources import is_same_code
from sweeps.engine.store.store import Store
from sweeps.engine.trial.running import running_trials

COUNTED = ("trials", "done", "diverged", "running", "missing", "failed")
LISTED = ("cell", "trial", "seed", "data seed", "state", "train", "near", "test", "weights")
RANGES = ("train", "near", "test")
FEW = 6  # lengths at which `why` prints a result
RESULT = ("checkpoint", "checkpoint_step", "range", "length", "second_length", "test_set", *COUNTS)


def show_status(results: str | None, sweeps: Sequence[Listed]) -> int:
    """Print a table per sweep, or a line per view of the store; then what runs."""
    store = open_store(results)
    running = running_trials(store)
    texts = [_sweep_status(sweep, store, running) for sweep in sweeps]
    print("\n\n".join(texts or [_store_status(store, running)]))
    called = {one.trial_id: one.text for one in stored_addresses(store)} if running else {}
    for name, one in sorted(running.items()):
        steps = f"step {one.step:,} of {one.config.get('optim.num_steps', 0):,}"
        where = f"process {one.process.pid} on {one.process.host}, since {one.started_at}"
        print(f"\nrunning: {called.get(name, name)}, {steps} ({where})")
    return 0


def _sweep_status(sweep: Listed, store: Store, running: Mapping[str, object]) -> str:
    """Cells and counts. stale = finished by code known to differ from the current code; failed =
    not finished nor running, and the last attempt failed.
    """
    states: dict[str, str] = dict(trial_states({t.trial_id: t.cell for t in sweep.trials}, store))
    states |= dict.fromkeys(running, "running")
    same = _same_code(store, list(states))
    cells = dict[str, list[str]]()
    for trial in sweep.trials:
        cells.setdefault(trial.cell, []).append(trial.trial_id)
    rows: list[tuple[str, ...]] = [("cell", *COUNTED, "stale")]
    for label, members in cells.items():
        count = Counter(states[name] for name in members)
        failed = count["failed"] + count["retry"] + count["stopped"]
        known = [count[state] for state in ("done", "diverged", "running", "missing")]
        old = sum(same.get(name) is False for name in members)
        rows.append((label, *map(str, (len(members), *known, failed, old))))
    total = [str(sum(int(row[i]) for row in rows[1:])) for i in range(1, len(rows[0]))]
    text = f"{sweep.sweep} [{sweep.scale}]: {sweep.title}\n\n{align([*rows, ('all', *total)])}"
    if unknown := sum(value is None for value in same.values()):
        text += f"\n\n{unknown} finished trials: code version unknown (they have no code hash)"
    return text


def _same_code(store: Store, names: Sequence[str]) -> dict[str, bool | None]:
    """Whether each finished trial was computed by the current code; None = unknown."""
    rows = store.load(names, "trial", ["trial_id", "status", "code_hash"]).to_pylist()
    finished = (row for row in rows if row["status"] in ("ok", "diverged"))
    return {row["trial_id"]: is_same_code(row["code_hash"]) for row in finished}


def _store_status(store: Store, running: Mapping[str, object]) -> str:
    views = store.views() | store.views("searches")
    if not views:
        return f"no sweep has been run in {store.root} yet"
    known = {name: shard.status for name, shard in store.visible().items()}
    known |= dict.fromkeys(running, "running")
    rows: list[tuple[str, ...]] = [("sweep", "scale", *COUNTED)]
    for (sweep, scale), view in views.items():
        names = view.column("trial_id").unique().to_pylist()
        count = Counter(known.get(name, "missing") for name in names)
        shown = [count.pop(state, 0) for state in ("ok", "diverged", "running", "missing")]
        rows.append((sweep, scale, *map(str, (len(names), *shown, count.total()))))
    return align(rows, num_text=2)


def show_trials(results: str | None, sweeps: Sequence[Listed], all_seeds: bool) -> int:
    """Print a line per trial: what is stored, exact match (%) of the last checkpoint over all
    examples of a range, and where its weights are; then what is missing. all_seeds: also stored
    trials of these sweeps with other seeds.
    """
    store = open_store(results)
    running, stored = running_trials(store), stored_addresses(store)
    for sweep in sweeps:
        mine = [t for t in stored if (t.sweep, t.scale) == (sweep.sweep, sweep.scale)]
        visible = {s.trial_id for s in store.visible_of(t.trial_id for t in mine)}
        others = [t for t in mine if t.trial_id in visible] if all_seeds else []
        trials = list({t.trial_id: t for t in (*sweep.trials, *others)}.values())
        states: dict[str, str] = dict(trial_states({t.trial_id: t.cell for t in trials}, store))
        states |= dict.fromkeys(running, "running")
        match = range_matches(store, [t.trial_id for t in trials])
        rows: list[tuple[str, ...]] = [LISTED]
        for trial in sorted(trials, key=lambda t: states[t.trial_id] == "missing"):
            name = trial.trial_id
            weights = f"checkpoints/{name}/last.pt"
            shares = [match.get((name, r)) for r in RANGES]
            texts = [f"{100 * share:.1f}" if share is not None else "-" for share in shares]
            kept = weights if store.folder.exists(weights) else "-"
            seeds = (str(trial.seed), str(trial.data_seed))
            rows.append((trial.cell, name, *seeds, states[name], *texts, kept))
        print(f"{sweep.sweep} [{sweep.scale}]: {sweep.title}\n\n{align(rows, num_text=2)}")
    print("\ntrain, near, test: exact match (%) over all examples, not as tables weigh lengths")
    print(f"weights are below {store.root}; more of a trial: python -m sweeps why TRIAL")
    return 0


def range_matches(store: Store, trials: Sequence[str]) -> Mapping[tuple[str, str], float]:
    """Exact match of the last checkpoint over all examples of a range, by (trial, range)."""
    columns = ["trial_id", "checkpoint", "range", "num_correct", "num_examples"]
    rows = store.load(trials, "evaluation", columns).to_pylist()
    last = [row for row in rows if row["checkpoint"] == "last"]
    return pooled_matches(((row["trial_id"], row["range"]), row) for row in last)


def show_trial(results: str | None, text: str, as_json: bool = False) -> int:
    """Print the result, addresses and attempts of the trial that is called so (see
    `sweeps.engine.store.address`), or all that is known of it as JSON.
    """
    store = open_store(results)
    stored = stored_addresses(store)
    name = find_trial(text, stored, store.trial_ids())
    facts = _facts(name, [one.text for one in stored if one.trial_id == name], store)
    print(json.dumps(facts, indent=2) if as_json else "\n".join(_summary(facts, store)))
    return 0


def _facts(name: str, places: Sequence[str], store: Store) -> dict[str, Any]:
    """All that is known of a trial, in plain values."""
    rows = store.load_shards(store.shards_of(name), "trial").sort_by("attempt").to_pylist()
    visible, running = store.visible_shard(name), running_trials(store).get(name)
    flat = json.loads(rows[-1]["config_json"]) if rows else dict(running.config if running else {})
    kept = ["attempt", "status", *(column for column in TRIAL if column != "config_json")]
    return {
        "trial": name,
        "status": "running" if running else visible.status if visible else "never run",
        "places": list(places),
        "results": store.load([name], "evaluation", list(RESULT)).to_pylist() if rows else [],
        "attempts": [{key: row[key] for key in kept if row[key] is not None} for row in rows],
        "files": [entry.name for entry in store.folder.list(f"checkpoints/{name}")],
        "configuration": flat,
        **_identity(flat),
    }


def _identity(flat: Mapping[str, Any]) -> dict[str, Any]:
    """What the id of a trial is a hash of; own code that its row names is not imported to say."""
    if not flat:
        return {}
    if own := own_code(flat):
        return {"own_code": own}
    try:
        config = unflatten(flat)
    except ValueError as error:  # of a version with other options
        return {"unreadable": str(error)}
    return {"canonical": canonical(config), "id_today": trial_id(config)}


def _summary(facts: Mapping[str, Any], store: Store) -> Iterator[str]:
    """The result first, then where it belongs and who made it."""
    yield f"trial {facts['trial']}: {facts['status']}"
    yield from _result(facts["results"])
    yield from (f"  {address}" for address in facts["places"])
    for row in facts["attempts"]:
        took = format_seconds(row["wall_seconds"]) if "wall_seconds" in row else "-"
        resumed = f", resumed at step {row['first_step']}" if row.get("first_step") else ""
        yield (
            f"attempt {row['attempt']}: {row['status']}, {row.get('started_at')}, {took} on "
            f"{row.get('host')} ({row.get('device', '?')}), commit "
            f"{row.get('git_commit', '?')[:10]}, code {row.get('code_hash')}{resumed}"
        )
        if "error" in row:
            yield "    " + row["error"].strip().replace("\n", "\n    ")
    yield from (f"kept: {store.folder.path(name)}" for name in facts["files"])
    if own := facts.get("own_code"):
        code = ", ".join(f"{field}={','.join(names)}" for field, names in own.items())
        yield f"its id is also a hash of own code, which is not imported here: {code}"
    if problem := facts.get("unreadable"):
        yield f"today's code does not know this configuration: {problem}"
    if facts.get("id_today", facts["trial"]) != facts["trial"]:
        yield f"today's code gives this configuration the id {facts['id_today']}"
    if facts["configuration"]:
        yield f"all {len(facts['configuration'])} fields of its configuration, every length: --json"


def _result(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Exact match of the last checkpoint by range, and at a few lengths beyond the trained ones."""
    last = [row for row in rows if row["checkpoint"] == "last"]
    matches = pooled_matches((row["range"], row) for row in last)
    ranges = [f"{name} {100 * match:.1f} %" for name, match in matches.items()]
    if ranges:
        yield f"exact match over all lengths: {', '.join(ranges)}"
    shares: dict[int, float] = {}  # the least over second lengths
    for row in last:
        if row["range"] == "test":
            shares[row["length"]] = min(exact_match(row), shares.get(row["length"], 1.0))
    lengths = sorted(shares)
    step = max(1, len(lengths) - 1) / max(1, min(FEW, len(lengths)) - 1)
    few = dict.fromkeys(lengths[round(i * step)] for i in range(min(FEW, len(lengths))))
    if few:
        yield f"  at length (%): {', '.join(f'{n}: {100 * shares[n]:.1f}' for n in few)}"
