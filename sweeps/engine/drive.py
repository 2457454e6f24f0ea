"""One launch: plan the sweeps, take their trials, run what is missing, try again what deserves it,
report.

Every pass begins with the store: what finished meanwhile (by whomever) is not run. Trials that
another launch holds are left to it and waited for; if that launch dies, they are taken over.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path

from pcore.config import TrialConfig, trial_id
from sweeps.engine.attempt import GIVEN_UP, Outcome, Settings, remove_markers
from sweeps.engine.failures import MAX_TRIES, RETRIED
from sweeps.engine.launches import Launch, Other
from sweeps.engine.options import (
    check_run,
    count_threads,
    find_results,
    guess_slots,
    is_local,
    make_settings,
    start_seconds,
)
from sweeps.engine.plan import (
    Plan,
    PlannedTrial,
    count_states,
    format_seconds,
    in_order,
    make_plan,
    predict_wall,
    trim,
)
from sweeps.engine.price import describe_error
from sweeps.engine.progress import Progress
from sweeps.engine.spec import Cell, Sweep, Trial
from sweeps.engine.store import Store

FAILED, REFUSED, INTERRUPTED = 1, 2, 130
WAIT_POLL = 2.0  # seconds between two looks at trials of another launch
MAX_LINES = 20  # of unfinished trials listed at the end


def run_sweeps(sweeps: Sequence[Sweep], options: argparse.Namespace) -> int:
    """Run what the store lacks of these sweeps. Exit codes: 0 all trials finished, 1 some did not.

    Raises ValueError, before anything starts, for what cannot work.
    """
    check_run(options)
    sweeps = list({sweep.name: sweep for sweep in sweeps}.values())
    store, num_slots = Store(find_results(options.results)), guess_slots(options)
    plans = plan_sweeps(sweeps, options, store, num_slots)
    store.prepare()
    for plan in plans:
        store.write_view(view_rows(plan))
        print(f"{plan.sweep.name} [{plan.scale}]: {plan.sweep.title}\n  {count_states(plan)}")
    print(f"results: {store.root}")
    began, pending = time.monotonic(), in_order(plans, num_slots)
    if pending:
        wall = predict_wall(pending, num_slots, start_seconds(options))
        print(f"predicted: {format_seconds(wall)} on {num_slots} slots")
        print("".join(f"{note}\n" for note in dict.fromkeys(p.note for p in plans) if note), end="")
        sys.stdout.flush()
    mirrors = _start_mirrors(plans, store, options)

    def on_finish(outcome: Outcome) -> None:
        if outcome.status not in ("paused", "unsaved", "stopped"):
            for mirror in mirrors:
                mirror.add(outcome.trial_id)

    runner = Runner(options, store, on_finish)
    title = ", ".join(f"{plan.sweep.name} [{plan.scale}]" for plan in plans)
    complete = not pending or runner.run_until_done(title, pending)
    code = _report(plans, store, options, runner)
    for plan, mirror in zip(plans, mirrors, strict=False):
        if problem := mirror.close(report_folder(plan, store)):
            print(
                f"MLflow mirror incomplete ({problem}); the rows in {store.root} are complete",
                file=sys.stderr,
            )
    if pairs := _predicted_and_taken(pending, runner.last):
        print(describe_error(pairs))
    if pending:
        print(f"launch ended after {format_seconds(time.monotonic() - began)}")
    return code if complete else FAILED


def _predicted_and_taken(
    pending: Sequence[PlannedTrial], outcomes: Mapping[str, Outcome]
) -> list[tuple[float, float]]:
    """Seconds of the trials that this launch ran from their first step to their end, alone: a
    price is that of a trial by itself.
    """
    known = [(p.price, outcomes[p.trial.id]) for p in pending if p.trial.id in outcomes]
    return [
        (price.seconds, outcome.seconds)
        for price, outcome in known
        if price and outcome.status == "ok" and outcome.first_step == 0 and outcome.stacked == 1
    ]


def plan_sweeps(
    sweeps: Sequence[Sweep], options: argparse.Namespace, store: Store, num_slots: int
) -> list[Plan]:
    """The plans of these sweeps, cut down to the budget if there is one."""
    plans = [
        make_plan(
            sweep,
            options.scale,
            options.seeds,
            store,
            options.device,
            retry_errors=options.retry_errors,
            num_threads=count_threads(options),
            local=is_local(options),
        )
        for sweep in sweeps
    ]
    if options.budget:
        asked = sum(len(plan.trials) for plan in plans)
        plans = trim(plans, num_slots, options.budget, start_seconds(options))
        if (kept := sum(len(plan.trials) for plan in plans)) < asked:
            print(
                f"the budget of {format_seconds(options.budget)} holds {kept} of {asked} trials: "
                "fewer replicates of every cell"
            )
    return plans


class Runner:
    """Runs trials under one launch, in passes, until nothing is left that is worth running."""

    def __init__(
        self,
        options: argparse.Namespace,
        store: Store,
        on_finish: Callable[[Outcome], None],
    ):
        self.options, self.store, self.on_finish = options, store, on_finish
        self.began = time.monotonic()
        self.tries: Counter[str] = Counter()
        self.last: dict[str, Outcome] = {}  # outcome of the latest try of each trial

    def run_until_done(self, title: str, pending: Sequence[PlannedTrial]) -> bool:
        """False if the launch ended early: the slice is over or results cannot be written."""
        with Launch(self.store.folder, say=self._say) as launch:
            remove_markers(self.store)
            while left := self._worth_running(pending):
                taken = launch.claim(p.trial.id for p in left)
                mine = [p for p in left if p.trial.id not in taken]
                if mine := self._unfinished(mine):  # another launch may have run them meanwhile
                    self._pass(title, mine, launch.name)
                    ended = {self.last[p.trial.id].status for p in mine if p.trial.id in self.last}
                    if ended & {"paused", "unsaved"}:
                        return False
                elif taken:
                    self._wait(launch, taken)
        return True

    def _worth_running(self, pending: Sequence[PlannedTrial]) -> list[PlannedTrial]:
        return [p for p in self._unfinished(pending) if self._deserves_a_try(p.trial.id)]

    def _unfinished(self, trials: Sequence[PlannedTrial]) -> list[PlannedTrial]:
        final = self._finished()
        return [p for p in trials if p.trial.id not in final]

    def _finished(self) -> set[str]:
        return {name for name, shard in self.store.visible().items() if shard.finished}

    def _deserves_a_try(self, name: str) -> bool:
        outcome = self.last.get(name)
        if outcome is None:
            return True
        if outcome.status == "lost" and outcome.error.endswith(GIVEN_UP):
            return False
        return outcome.status in RETRIED and self.tries[name] < MAX_TRIES

    def _pass(self, title: str, mine: Sequence[PlannedTrial], launch: str) -> None:
        def finished(outcome: Outcome) -> None:
            self.tries[outcome.trial_id] += 1
            self.last[outcome.trial_id] = outcome
            self.on_finish(outcome)

        settings = make_settings(self.options, self.store, launch, self.began)
        execute(title, mine, settings, self.options, self.store, finished)
        for p in mine:  # whatever was not heard of is not tried for ever
            self.last.setdefault(
                p.trial.id, Outcome(trial_id=p.trial.id, status="not started", seconds=0.0)
            )

    def _wait(self, launch: Launch, taken: dict[str, Other]) -> None:
        """Until the trials of other launches are finished, or their launches are gone."""
        names = frozenset(taken)
        for other in {o.name: o for o in taken.values()}.values():
            count = sum(o.name == other.name for o in taken.values())
            print(f"{count} trials are being run by {other}; waiting for them", flush=True)
        while launch.living(names):
            if names <= self._finished():
                return
            time.sleep(WAIT_POLL)

    def _say(self, text: str) -> None:
        print(text, flush=True)


def execute_configs(
    title: str, configs: Sequence[TrialConfig], options: argparse.Namespace, store: Store
) -> None:
    """Run configurations that belong to no sweep, in one launch; on return each is in the store,
    whatever became of it.

    Raises ValueError if the results folder cannot be written.
    """
    cells = [Cell(label=trial_id(config), config=config) for config in configs]
    trials = [Trial(cell=cell, config=cell.config, id=cell.label) for cell in cells]
    pending = [PlannedTrial(trial=trial, state="missing", price=None) for trial in trials]
    runner = Runner(options, store, on_finish=lambda outcome: None)
    runner.run_until_done(title, pending)
    for outcome in runner.last.values():
        if outcome.status == "unsaved":
            raise ValueError(outcome.error)


@contextlib.contextmanager
def session(options: argparse.Namespace, store: Store) -> Generator[int]:
    """What the executor needs, open until the end of the block; yields how many trials run at
    once. A session inside another one is the same.
    """
    if options.executor == "inline":
        yield 1
        return
    from sweeps.engine.run import Slots, ray_session

    address = options.ray_address or os.environ.get("RAY_ADDRESS")
    with ray_session(address, Slots(**_slots(options)), store) as num_slots:
        yield num_slots


def execute(
    title: str,
    pending: Sequence[PlannedTrial],
    settings: Settings,
    options: argparse.Namespace,
    store: Store,
    on_finish: Callable[[Outcome], None],
) -> None:
    """Run these trials once with the executor of the options."""
    with (
        session(options, store) as num_slots,
        Progress(title, pending, num_slots) as progress,
    ):
        if options.executor == "inline":
            from sweeps.engine.inline import run_inline

            run_inline(pending, settings, progress, on_finish)
        else:
            from sweeps.engine.run import Slots, run_on_ray

            run_on_ray(pending, settings, progress, on_finish, Slots(**_slots(options)))


def _slots(options: argparse.Namespace) -> dict[str, float]:
    """CPUs and GPUs of one trial."""
    gpus = options.gpus_per_trial
    if gpus is None:
        gpus = 1.0 if options.device.startswith("cuda") else 0.0
    return {"cpus": options.cpus_per_trial, "gpus": gpus}


def view_rows(plan: Plan) -> list[dict[str, object]]:
    """The rows of the view of a plan: which trial belongs to which cell."""
    order = {
        label: i for i, label in enumerate(dict.fromkeys(p.trial.cell.label for p in plan.trials))
    }
    return [
        {
            "sweep": plan.sweep.name,
            "scale": plan.scale,
            "title": plan.sweep.title,
            "claim": plan.sweep.claim.strip(),
            "cell": planned.trial.cell.label,
            "cell_order": order[planned.trial.cell.label],
            "trial_id": planned.trial.id,
            "seed": planned.trial.config.seed,
            "data_seed": planned.trial.config.data_seed,
        }
        for planned in plan.trials
    ]


def report_folder(plan: Plan, store: Store) -> Path:
    """Where table and figure of a sweep are written."""
    return view_folder(f"{plan.sweep.name}-{plan.scale}", store)


def view_folder(view: str, store: Store) -> Path:
    """Where what is drawn of a view is written: beside a local store, else in ./reports."""
    place = Path("reports") if store.folder.remote else store.folder.local / "reports"
    return place / view


def _start_mirrors(plans: Sequence[Plan], store: Store, options: argparse.Namespace):
    if options.no_mlflow:
        return []
    from sweeps.engine.tracking import Mirror, find_uri, shown_plan

    uri = find_uri(options.tracking_uri, store)
    return [Mirror(shown_plan(plan), store, uri) for plan in plans]


def _report(
    plans: Sequence[Plan], store: Store, options: argparse.Namespace, runner: Runner
) -> int:
    """Draw tables and figures with the command that anyone can repeat, and say what failed."""
    failed = False
    for plan in plans:
        command = ["-m", "analysis", "table", plan.sweep.name, "--scale", plan.scale]
        command += ["--results", store.root]
        if not options.no_report:
            print(flush=True)
            failed |= subprocess.run([sys.executable, *command], check=False).returncode != 0
        print(f"\nredraw: python {' '.join(command)}", flush=True)
    problems = [line for plan in plans for line in _unfinished_lines(plan, store, runner)]
    for line in problems[:MAX_LINES]:
        print(line)
    if len(problems) > MAX_LINES:
        print(f"... and {len(problems) - MAX_LINES} more")
    return FAILED if failed or any(not line.startswith("diverged") for line in problems) else 0


def _unfinished_lines(plan: Plan, store: Store, runner: Runner) -> list[str]:
    """A line for every trial that is not ok; the text of each error once."""
    visible, lines, told = store.visible(), list[str](), set[str]()
    for planned in plan.trials:
        shard, outcome = visible.get(planned.trial.id), runner.last.get(planned.trial.id)
        status = shard.status if shard else "not finished"
        if status == "ok":
            continue
        if outcome is not None and outcome.status in ("stopped", "unsaved"):
            status = outcome.status
        line = f"{status}: {planned.trial.cell.label}, seed {planned.trial.config.seed}"
        line += f" ({planned.trial.id})"
        text = outcome.error if outcome is not None and status != "diverged" else ""
        if not text and shard is not None and status == "error":
            text = str(store.load_shards([shard], "trial", ["error"]).to_pylist()[0]["error"])
        if text and text not in told:
            told.add(text)
            line += "\n    " + text.strip().replace("\n", "\n    ")
        lines.append(line)
    return lines
