"""Single trials: `python -m sweeps trials SWEEP` lists them, `why TRIAL` explains one."""

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pcore.cli.text import format_seconds, plural
from pcore.config import canonical, flatten, trial_id, unflatten
from pcore.registry import own_code
from sweeps.commands.catalogue import Listed, find_sweep, sweep_names
from sweeps.engine.options import open_store
from sweeps.engine.plan import align, trial_states
from sweeps.engine.spec import SCALES, Trial
from sweeps.engine.store.address import (
    TrialAddress,
    Unknown,
    find_trial,
    parse_address,
    stored_addresses,
)
from sweeps.engine.store.schema import COUNTS, TRIAL
from sweeps.engine.store.score import pooled_matches
from sweeps.engine.store.store import Store
from sweeps.engine.trial.running import running_trials

COLUMNS = ("cell", "trial", "seed", "data seed", "state", "train", "near", "test", "weights")
RANGES = ("train", "near", "test")
FEW = 6  # lengths at which `why` prints a result
RESULT = ("checkpoint", "checkpoint_step", "range", "length", "second_length", "test_set", *COUNTS)


def show_trials(results: str | None, sweeps: Sequence[Listed]) -> int:
    """Print a line per trial of these sweeps: exact match (%) of the last checkpoint over all
    examples of a range, and where its weights are.
    """
    store = open_store(results)
    views = {(sweep.sweep, sweep.scale) for sweep in sweeps}
    stored = [one for one in stored_addresses(store) if (one.sweep, one.scale) in views]
    visible = {shard.trial_id for shard in store.visible_of(one.trial_id for one in stored)}
    stored, running = [one for one in stored if one.trial_id in visible], running_trials(store)
    for sweep in sweeps:
        states = trial_states({t.trial_id: t.cell for t in sweep.trials}, store)
        states |= dict.fromkeys(running, "running")
        match = range_matches(store, [t.trial_id for t in sweep.trials])
        rows: list[tuple[str, ...]] = [COLUMNS]
        for trial in sweep.trials:
            name = trial.trial_id
            weights = f"checkpoints/{name}/last.pt"
            texts = [
                f"{100 * m:.1f}" if (m := match.get((name, r))) is not None else "-" for r in RANGES
            ]
            numbers = (str(trial.seed), str(trial.data_seed))
            kept = weights if store.folder.exists(weights) else "-"
            rows.append((trial.cell, name, *numbers, states[name], *texts, kept))
        print(f"{sweep.sweep} [{sweep.scale}]: {sweep.title}\n\n{align(rows, num_text=2)}")
        shown = {(trial.seed, trial.data_seed) for trial in sweep.trials}
        others = {
            p.trial_id
            for p in stored
            if (p.sweep, p.scale) == (sweep.sweep, sweep.scale)
            and (p.seed, p.data_seed) not in shown
        }
        if others:
            print(f"\nstored with other seeds: {plural(len(others), 'trial')}; --seeds shows them")
    print(f"\nweights are below {store.root}; more of a trial: python -m sweeps why TRIAL")
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
    addresses, shards = stored_addresses(store), store.shards()
    planned = dict[TrialAddress, Trial]()
    try:
        name = find_trial(text, addresses, [shard.trial_id for shard in shards])
    except Unknown as unknown:
        planned = _planned_addresses(text)
        name = _find_planned(text, planned, addresses, unknown)
    addresses = [one for one in [*addresses, *planned] if one.trial_id == name]
    facts = _facts(name, addresses, store)
    print(json.dumps(facts, indent=2) if as_json else "\n".join(_summary(facts, store)))
    return 0


def _planned_addresses(text: str) -> dict[TrialAddress, Trial]:
    """What scripts would run: that of the sweep of an address, or all of them."""
    names, sweep = sweep_names(), parse_address(text).sweep
    if "/" in text:
        names = [sweep] if sweep in names else []
    return {
        TrialAddress(name, scale, t.cell.label, t.config.seed, t.config.data_seed, t.id): t
        for name in names
        for scale in SCALES
        for t in find_sweep(name).trials(scale)
    }


def _find_planned(
    text: str, planned: Iterable[TrialAddress], stored: Iterable[TrialAddress], unknown: Unknown
) -> str:
    """The id of a trial that was never run; what is said if there is none is about the sweep as it
    was run, if it was.
    """
    try:
        return find_trial(text, list(planned))
    except Unknown as error:
        sweep = parse_address(text).sweep
        is_stored = sweep in {one.sweep for one in stored}
        raise (error if planned and not is_stored else unknown) from None


def _facts(name: str, addresses: Sequence[TrialAddress], store: Store) -> dict[str, Any]:
    """All that is known of a trial, in plain values."""
    rows = store.load_shards(store.shards_of(name), "trial").sort_by("attempt").to_pylist()
    visible, running = store.visible_shard(name), name in running_trials(store)
    flat = json.loads(rows[-1]["config_json"]) if rows else _planned_fields(name, addresses)
    kept = ["attempt", "status", *(column for column in TRIAL if column != "config_json")]
    results = store.load([name], "evaluation", list(RESULT)).to_pylist() if rows else []
    return {
        "trial": name,
        "status": "running" if running else visible.status if visible else "never run",
        "places": [one.text for one in addresses],
        "results": results,
        "attempts": [{key: row[key] for key in kept if row[key] is not None} for row in rows],
        "files": [entry.name for entry in store.folder.list(f"checkpoints/{name}")],
        "configuration": flat,
        **_identity(flat),
    }


def _planned_fields(name: str, addresses: Sequence[TrialAddress]) -> dict[str, Any]:
    """The configuration of a trial without rows, from its script; {} where that changed."""
    for one in addresses:
        with contextlib.suppress(ValueError):
            for found, trial in _planned_addresses(f"{one.sweep}/").items():
                if found.trial_id == name:
                    return flatten(trial.config)
    return {}


def _identity(flat: Mapping[str, Any]) -> dict[str, Any]:
    """What the id of a trial is a hash of; own code that its row names is not imported to say."""
    if not flat:
        return {}
    if own := own_code(flat):
        return {"own_code": own}
    config = unflatten(flat)
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
        code = ", ".join(f"{field}={value}" for field, value in own.items())
        yield f"its id is also a hash of own code, which is not imported here: {code}"
    if facts.get("id_today", facts["trial"]) != facts["trial"]:
        yield f"today's code gives this configuration the id {facts['id_today']}"
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
            share = row["num_correct"] / row["num_examples"]
            shares[row["length"]] = min(share, shares.get(row["length"], 1.0))
    lengths = sorted(shares)
    step = max(1, len(lengths) - 1) / max(1, min(FEW, len(lengths)) - 1)
    few = dict.fromkeys(lengths[round(i * step)] for i in range(min(FEW, len(lengths))))
    if few:
        yield f"  at length (%): {', '.join(f'{n}: {100 * shares[n]:.1f}' for n in few)}"
