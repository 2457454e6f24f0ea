"""Runs a search from command line to winners, in rounds of one rung per configuration.

A round is a list of ordinary trials. What the store lacks of them is executed, inline or on Ray;
then every study promotes or stops its configurations and starts new ones until its budget is
used.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from pcore.cli.parser import Parser, find_own_code
from pcore.cli.text import plural
from pcore.config import TrialConfig, trial_id
from sweeps.engine.launch.cli import EXPECTED, exit_code
from sweeps.engine.options import FAILED, LaunchOptions, add_executor, add_results, read_options
from sweeps.engine.search.results import format_best, read_scores, write_best
from sweeps.engine.search.space import Budget, Search, format_budget, prepare_arms
from sweeps.engine.spec import SCALES, Scale
from sweeps.engine.store.location import check_not_published
from sweeps.engine.store.store import Store

if TYPE_CHECKING:
    from sweeps.engine.search.study import Arm

# Runs these trials, given by label; on return each is in the store, whatever became of it.
Execute: TypeAlias = Callable[[Mapping[str, TrialConfig]], None]
Best: TypeAlias = dict[str, dict[str, Any]]


def run_search(
    search: Search,
    scale: Scale,
    results: str,
    execute: Execute,
    *,
    budget: Budget | None = None,
    width: int = 1,
    say: Callable[[str], None] = print,
) -> tuple[Best, list[str]]:
    """(winner by arm, configurations that failed). Goes on where an earlier launch ended.

    budget: default that of the search. width: configurations of each arm under way at once. Raises
    ValueError for what cannot work, before any compute, and if an arm has no winner.
    """
    from sweeps.engine.search.study import Arm  # not needed for a plan

    budget = budget or search.budget[scale]
    configs = prepare_arms(search, scale, budget)
    if width < 1:
        raise ValueError(f"width {width} is below 1")
    store = Store(results)
    store.prepare()
    arms = [Arm(label, config, search.space, budget) for label, config in configs.items()]
    number = 0
    while sum(arm.start(width) for arm in arms):
        number += 1
        _run_round(number, arms, store, execute, say)
    return _conclude(arms)


def _run_round(
    number: int, arms: "Sequence[Arm]", store: Store, execute: Execute, say: Callable[[str], None]
) -> None:
    """Run the next rung of every configuration under way, then promote or stop each."""
    jobs = {trial_id(job): (label, job) for arm in arms for label, job in arm.jobs().items()}
    scores = read_scores(store, jobs)
    unfinished = [name for name in jobs if name not in scores or not scores[name].finished]
    if missing := dict(jobs[name] for name in unfinished):
        check_not_published(store.folder)
        steps = sum(job.optim.num_steps for job in missing.values())
        begun = sum(len(arm.values) for arm in arms)
        total = sum(arm.budget.configurations for arm in arms)
        say(
            f"round {number}: {plural(len(missing), 'training')}, {steps:,} steps; "
            f"{begun} of {total} configurations begun"
        )
        execute(missing)
        scores |= read_scores(store, unfinished)
    for arm in arms:
        arm.settle(scores)


def _conclude(arms: "Sequence[Arm]") -> tuple[Best, list[str]]:
    best = {arm.label: winner for arm in arms if (winner := arm.best()) is not None}
    failed = [line for arm in arms for line in arm.failed]
    if missing := [arm.label for arm in arms if arm.label not in best]:
        lines = "".join(f"; {line}" for line in failed)
        raise ValueError(f"no configuration finished its rungs in: {', '.join(missing)}{lines}")
    return best, failed


# The command line ---------------------------------------------------------------------------------


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
    add("--width", type=int, default=2, help="configurations of each arm at once (default: 2)")
    add("--plan", action="store_true", help="print the budget; run nothing")
    add_results(parser)
    add_executor(parser)
    try:
        given = parser.parse_args(argv)
        find_own_code()
        options, budget = read_options(given), search.budget[given.scale]
        if given.configurations is not None:
            budget = replace(budget, configurations=given.configurations)
        arms = prepare_arms(search, options.scale, budget)
        print(format_budget(search, options.scale, budget, arms), flush=True)
        return 0 if given.plan else _run(search, options, budget, given.width)
    except EXPECTED as error:
        return exit_code(search.name, error)


def _run(search: Search, options: LaunchOptions, budget: Budget, width: int) -> int:
    """Run a search and keep its winners; its exit code."""
    from sweeps.engine.launch.scheduler import execute_configs  # torch: not for --help

    store = Store(options.results)
    print(f"\nresults: {store.root}", flush=True)

    def execute(configs: Mapping[str, TrialConfig]) -> None:
        execute_configs(f"{search.name} [{options.scale}]", configs, options, store)

    with options.make_executor().session(store):  # one for all rounds
        best, failed = run_search(
            search,
            options.scale,
            store.root,
            execute,
            budget=budget,
            width=width,
            say=lambda line: print(line, flush=True),
        )
    file = write_best(store.root, search.name, options.scale, best)
    print(f"\n{format_best(best)}\n")
    print("near score: (1 - exact match) + (1 - token accuracy), the mean over near lengths")
    print("chosen on the near range; the test range was neither evaluated nor read")
    print(f"written: {store.root}/{file}")
    show = f"python -m analysis search {search.name} --scale {options.scale}"
    print(f"every configuration, and a figure: {show} --results {store.root}")
    for line in failed:
        print(f"failed: {line}")
    if failed:
        print("arms with failures were tuned less; the same command retries them")
    return FAILED if failed else 0
