"""Runs a search from command line to winners: a loop of sweeps.

A round is the next rung of the configurations under way, as a sweep of ordinary trials. When it has
run, every study promotes or stops its configurations and starts new ones until its budget is used.
"""

import argparse
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from pcore.cli.parser import EXPECTED, FAILED, Parser, find_own_code
from pcore.cli.text import plain_output
from pcore.config import trial_id
from sweeps.engine.launch.cli import exit_code
from sweeps.engine.options import (
    LaunchOptions,
    add_executor,
    add_hooks,
    add_results,
    read_options,
)
from sweeps.engine.plan import Plan, make_plan
from sweeps.engine.search.results import read_scores, write_best
from sweeps.engine.search.space import (
    SEED,
    Budget,
    Search,
    format_budget,
    prepare_arms,
)
from sweeps.engine.spec import SCALES, Cell, Scale, Sweep
from sweeps.engine.store.store import Store

Best: TypeAlias = dict[str, dict[str, Any]]


class Replay:
    """A search as far as a store allows: the next trainings, and the winners at the end.

    It decides again what earlier launches decided, from the scores in the store. A training that
    this one asked for and that is not finished then has failed.
    """

    def __init__(self, search: Search, scale: Scale, budget: Budget):
        """Raises ValueError for what cannot work."""
        from sweeps.engine.search.study import Arm  # not needed for a plan

        configs = prepare_arms(search, scale, budget)
        self.arms = [Arm(label, config, search.space, budget) for label, config in configs.items()]
        self.asked = dict[str, Cell]()  # by trial id
        self.tried = set[str]()

    def next_cells(self, store: Store) -> list[Cell]:
        """What has to be trained before any arm can go on; nothing at the end."""
        while sum(arm.start() for arm in self.arms):
            jobs = {
                trial_id(job): Cell(label=label, config=job)
                for arm in self.arms
                for label, job in arm.jobs().items()
            }
            self.asked |= jobs
            scores = read_scores(store, jobs)
            finished = {name for name, scored in scores.items() if scored.finished}
            if missing := jobs.keys() - finished - self.tried:
                self.tried |= missing
                return [cell for name, cell in jobs.items() if name in missing]
            for arm in self.arms:
                arm.settle(scores)
        return []

    def conclude(self) -> tuple[Best, list[str]]:
        """(winner by arm, configurations that failed). Raises ValueError for an arm without."""
        best = {arm.label: winner for arm in self.arms if (winner := arm.best()) is not None}
        failed = [line for arm in self.arms for line in arm.failed]
        if missing := [arm.label for arm in self.arms if arm.label not in best]:
            lines = "".join(f"; {line}" for line in failed)
            raise ValueError(f"no configuration finished its rungs in: {', '.join(missing)}{lines}")
        return best, failed


def sweep_of(search: Search, cells: Sequence[Cell]) -> Sweep:
    """These trainings of a search as a sweep."""
    return Sweep(
        name=search.name,
        title=search.title,
        claim=search.claim,
        cells=lambda scale: cells,
        seeds=dict.fromkeys(SCALES, f"1@{SEED}"),
        is_search=True,
    )


# The command line ---------------------------------------------------------------------------------


@plain_output()
def main(search: Search, argv: Sequence[str] | None = None) -> int:
    """Run a search from the command line. Exit codes: 0 no configuration failed, 1 some did, 2
    refused, 130 interrupted.
    """
    parser = Parser(
        prog=f"{search.name}.py",
        description=search.claim,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--scale", choices=SCALES, default="laptop", help="size of the search (default: laptop)")
    add("--configurations", type=int, help="of each arm, instead of the budget of the script")
    add("--plan", action="store_true", help="print the budget; run nothing")
    add_results(parser)
    add_executor(parser)
    add_hooks(parser)
    try:
        given = parser.parse_args(argv)
        find_own_code()
        options, budget = read_options(given), search.budget_at(given.scale)
        if given.configurations is not None:
            budget = replace(budget, configurations=given.configurations)
        sweep_of(search, ()).check(options.scale)
        arms = prepare_arms(search, options.scale, budget)
        print(format_budget(search, options.scale, budget, arms), flush=True)
        return 0 if given.plan else _run(search, options, budget)
    except EXPECTED as error:
        return exit_code(search.name, error)


def _run(search: Search, options: LaunchOptions, budget: Budget) -> int:
    """Run a search, followed by hooks and the mirror, and keep its winners; its exit code."""
    from sweeps.engine.launch.hooks import Launch, load_hook  # torch: not for --help
    from sweeps.engine.launch.launch import run_sweeps, told, view_rows

    replay, store = Replay(search, options.scale, budget), Store(options.results)
    plans = [_plan(search, options.scale, replay, store)]
    launch = Launch(plans=plans, store=store)
    of_round = replace(options, mlflow=False, report=False, hooks=(), retry_errors=True)
    hooks = [load_hook(name) for name in options.hooks]
    with told(launch, hooks, options) as ended, options.executor.session(store):
        while cells := replay.next_cells(store):
            plans[0] = _plan(search, options.scale, replay, store)
            run_sweeps([sweep_of(search, cells)], of_round)
        plans[0] = _plan(search, options.scale, replay, store)
        store.write_view(view_rows(plans[0]), "searches")
        best, failed = replay.conclude()
        file, before = write_best(store.root, search.name, options.scale, best)
        _report(search, options, f"{store.root}/{file}", failed)
        for label, won in best.items():
            if (number := won["num_configurations"]) < budget.configurations:
                print(f"{label}: {number} configurations, as its space seems to hold no others")
            if number < (more := before.get(label, 0)):
                print(f"{label}: best of {number} configurations; the one before, of {more}")
        ended.append(FAILED if failed else 0)
    return ended[0]


def _plan(search: Search, scale: Scale, replay: Replay, store: Store) -> Plan:
    """A search as far as it has come, as hooks know a sweep."""
    sweep = sweep_of(search, list(replay.asked.values()))
    return make_plan(sweep, scale, None, store)


def _report(search: Search, options: LaunchOptions, file: str, failed: Sequence[str]) -> None:
    """Print the best of every arm and what failed."""
    command = ["-m", "analysis", "search", search.name, "--scale", options.scale]
    command += ["--results", options.results]
    if options.report:
        print(flush=True)
        subprocess.run([sys.executable, *command], check=False)
    print(f"\none run of each configuration (seed {SEED}): close scores may be chance")
    print("chosen on the near range; the test range was neither evaluated nor read")
    print(f"winners: {file}\nevery configuration: python {shlex.join(command)}", flush=True)
    for line in failed:
        print(f"failed: {line}")
    if failed:
        print("arms with failures were tuned less; the same command retries failed trainings")
