"""One launch of sweeps: plan them, run what is missing, report."""

import contextlib
import itertools
import json
import math
import shlex
import subprocess
import sys
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from pcore.cli.parser import FAILED
from pcore.cli.text import format_seconds, plural
from pcore.config import TrialConfig
from pcore.conformance import require_sound
from sweeps.engine.launch.hooks import Hook, Hooks, Launch, load_hook
from sweeps.engine.launch.mirror.target import Follower, find_target
from sweeps.engine.launch.scheduler import Scheduler
from sweeps.engine.options import LaunchOptions
from sweeps.engine.plan import (
    Plan,
    count_states,
    launch_order,
    make_plan,
    predict_wall,
)
from sweeps.engine.price import Price, price_cells
from sweeps.engine.spec import Sweep
from sweeps.engine.store.location import check_not_published
from sweeps.engine.store.store import Store
from sweeps.engine.store.views import count_hidden, is_same_sweep
from sweeps.engine.trial.attempt import Outcome
from sweeps.engine.trial.provenance import code_provenance

BROKEN_OFF = 10.0  # seconds that hooks have to end with a launch that breaks off
MAX_LINES = 20  # of unfinished trials listed at the end


def run_sweeps(sweeps: Sequence[Sweep], options: LaunchOptions) -> int:
    """Run what the store lacks of these sweeps. Exit codes: 0 all trials finished, 1 some did not.

    Raises ValueError, before anything starts, for what cannot work.
    """
    hooks = [load_hook(name) for name in options.hooks]
    named: dict[str, Sweep] = {}
    for sweep in sweeps:
        if named.setdefault(sweep.name, sweep) is not sweep:
            raise ValueError(f"two sweeps are called {sweep.name!r}: rename the script of one")
    sweeps = list(named.values())
    store, num_slots = Store(options.results), options.executor.num_slots
    plans = plan_sweeps(sweeps, options, store)
    if any(plan.to_run for plan in plans):
        check_not_published(store.folder)
    store.folder.check_writable()
    store.pack()
    for plan in plans:
        store.write_view(view_rows(plan), "searches" if plan.sweep.is_search else "views")
        print(f"{plan.title}\n  {count_states(plan)}")
        if hidden := count_hidden(store.launches(plan.sweep.name, plan.scale)):
            print(f"  {plural(hidden, 'older trial')} not shown: their labels are other cells now")
    if options.scale == "smoke":
        print("not trained: smoke scale only checks that everything runs; its numbers mean nothing")
    elif code_provenance()["git_commit"] is None:
        print("rows will not name their commit, as no git history is here: set PCORE_GIT_COMMIT")
    print(f"results: {store.root}")
    began, pending = time.monotonic(), launch_order(plans, num_slots)
    if pending:
        wall = predict_wall(pending, num_slots, options.executor.start_seconds)
        print(f"predicted: {format_seconds(wall)} on {plural(num_slots, 'slot')}")
        sys.stdout.flush()
    launch = Launch(plans=plans, store=store)
    with told(launch, hooks, options) as ended:
        scheduler = Scheduler(options, store)
        if pending:
            scheduler.run(launch.title, pending)
            store.pack()
        ended.append(_report(plans, store, options, scheduler.outcomes))
    if pending:
        print(f"launch ended after {format_seconds(time.monotonic() - began)}")
    return ended[0]


@contextlib.contextmanager
def told(launch: Launch, hooks: Sequence[Hook], options: LaunchOptions) -> Generator[list[int]]:
    """Hooks and MLflow follow a launch from its start to its end; the block appends its exit
    code.
    """
    listeners, ended = Hooks(launch, hooks), list[int]()
    views = [(plan.sweep.name, plan.scale) for plan in launch.plans]
    target = find_target(launch.store, options.tracking_uri)
    mirror = Follower(target, views) if options.mlflow else None
    try:
        yield ended
    finally:
        listeners.close(ended[0] if ended else None, math.inf if ended else BROKEN_OFF)
        if mirror:
            mirror.close(wait=bool(ended))


def plan_sweeps(sweeps: Sequence[Sweep], options: LaunchOptions, store: Store) -> list[Plan]:
    """The plans of these sweeps. Raises ValueError for what cannot work or would be measured
    wrongly, and for the name of another sweep in the store.
    """
    check_names(sweeps, store)
    device, threads, local = options.device, options.num_threads, options.executor.is_local

    def find_prices(cells: Mapping[str, TrialConfig]) -> Mapping[str, Price]:
        return price_cells(cells, store, device, threads, local)

    again = options.retry_errors
    plans = [make_plan(s, options.scale, options.seeds, store, again, find_prices) for s in sweeps]
    for planned in itertools.chain.from_iterable(plan.to_run for plan in plans):
        require_sound(planned.trial.config, device)
    return plans


def check_names(sweeps: Iterable[Sweep], store: Store) -> None:
    """Raise ValueError if a sweep has the name of another one in the store, whose view it would
    join.
    """
    names = store.names()
    for sweep in sweeps:
        for views, (name, scale) in names:
            if name != sweep.name or not (rows := store.launches(name, scale, views)):
                continue
            newest = max(rows, key=lambda row: row["launched_at"] or "")
            ours = {"command": sweep.command or None, "script": sweep.script}
            if not is_same_sweep(ours, newest):
                command = newest["command"] and f"{newest['command']} --scale {scale}"
                made_by = command or newest["script"] or "a script"
                raise ValueError(
                    f"{store.root} has another sweep {name!r} [{scale}], made by: {made_by}; "
                    f"choose another name, or remove it first: python -m sweeps forget {name}"
                )


def view_rows(plan: Plan) -> list[dict[str, object]]:
    """The rows of the view of a plan: which trial belongs to which cell."""
    order = {
        label: i for i, label in enumerate(dict.fromkeys(p.trial.cell.label for p in plan.trials))
    }
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return [
        {
            "sweep": plan.sweep.name,
            "scale": plan.scale,
            "title": plan.sweep.title,
            "claim": plan.sweep.claim.strip(),
            "command": plan.sweep.command or None,
            "cell": planned.trial.cell.label,
            "cell_order": order[planned.trial.cell.label],
            "axes": json.dumps(dict(planned.trial.cell.axes)),
            "trial_id": planned.trial.id,
            "seed": planned.trial.config.seed,
            "data_seed": planned.trial.config.data_seed,
            "cell_id": planned.trial.cell.id,
            "script": plan.sweep.script or None,
            "launched_at": now,
        }
        for planned in plan.trials
    ]


def _report(
    plans: Sequence[Plan],
    store: Store,
    options: LaunchOptions,
    outcomes: Mapping[str, Outcome],
) -> int:
    """Draw tables and figures with a command that can be repeated, and report failures."""
    failed = False
    for plan in (plan for plan in plans if not plan.sweep.is_search):
        command = ["-m", "analysis", "table", plan.sweep.name, "--scale", plan.scale]
        command += ["--results", store.root]
        if options.report:
            print(flush=True)
            failed |= subprocess.run([sys.executable, *command], check=False).returncode != 0
        print(f"\nredraw: python {shlex.join(command)}", flush=True)
    problems = [line for plan in plans for line in _unfinished_lines(plan, store, outcomes)]
    for line in problems[:MAX_LINES]:
        print(line)
    if len(problems) > MAX_LINES:
        print(f"... and {len(problems) - MAX_LINES} more")
    return FAILED if failed or any(not line.startswith("diverged") for line in problems) else 0


def _unfinished_lines(plan: Plan, store: Store, outcomes: Mapping[str, Outcome]) -> list[str]:
    """A line for every trial that is not ok; the text of each error once."""
    visible, lines, shown = store.visible(), list[str](), set[str]()
    for planned in plan.trials:
        shard, outcome = visible.get(planned.trial.id), outcomes.get(planned.trial.id)
        status = shard.status if shard else "not finished"
        if status == "ok":
            continue
        if outcome is not None and outcome.status in ("stopped", "unsaved"):
            status = outcome.status
        line = f"{status}: {planned.trial.name} ({planned.trial.id})"
        text = outcome.error if outcome is not None and status != "diverged" else ""
        if not text and shard is not None and status == "error":
            text = str(store.load_shards([shard], "trial", ["error"]).to_pylist()[0]["error"])
        if text and text not in shown:
            shown.add(text)
            line += "\n    " + text.strip().replace("\n", "\n    ")
        lines.append(line)
    return lines
