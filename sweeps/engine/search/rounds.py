"""Runs a search from command line to winners, in rounds of one rung per configuration.

A round is a list of ordinary trials. What the store lacks of them is executed, inline or on Ray;
then every study promotes or stops its configurations and starts new ones until its budget is
used.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from pcore.cli.parser import Parser, find_own_code
from pcore.cli.text import format_seconds, plain_output, plural
from pcore.config import TrialConfig, trial_id
from sweeps.engine.launch.cli import EXPECTED, exit_code
from sweeps.engine.options import (
    FAILED,
    LaunchOptions,
    add_executor,
    add_hooks,
    add_results,
    parse_count,
    read_options,
)
from sweeps.engine.plan import Plan
from sweeps.engine.search.results import format_best, read_scores, untried, write_best
from sweeps.engine.search.space import (
    HALVING,
    Budget,
    Search,
    format_budget,
    prepare_arms,
    rung_steps,
)
from sweeps.engine.spec import SCALES, Scale, Sweep
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
    note: Callable[[Mapping[str, TrialConfig]], None] = lambda jobs: None,
) -> tuple[Best, list[str]]:
    """(winner by arm, configurations that failed). Goes on where an earlier launch ended.

    budget: default that of the search. width: configurations of each arm under way at once. note:
    told of the trials of every round by label, of stored ones too. Raises ValueError for what
    cannot work, before any compute, and if an arm has no winner.
    """
    from sweeps.engine.search.study import Arm  # not needed for a plan

    budget = budget or search.budget_at(scale)
    configs = prepare_arms(search, scale, budget)
    if width < 1:
        raise ValueError(f"width {width} is below 1")
    store = Store(results)
    store.prepare()
    arms = [Arm(label, config, search.space, budget) for label, config in configs.items()]
    number = 0
    while sum(arm.start(width) for arm in arms):
        number += 1
        note({label: job for arm in arms for label, job in arm.jobs().items()})
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
    add(
        "--width",
        type=parse_count,
        default=2,
        help="configurations of each arm at once (default: 2)",
    )
    add("--plan", action="store_true", help="print budget and predicted time; run nothing")
    add_results(parser)
    add_executor(parser)
    add_hooks(parser)
    try:
        given = parser.parse_args(argv)
        find_own_code()
        options, budget = read_options(given), search.budget_at(given.scale)
        if given.configurations is not None:
            budget = replace(budget, configurations=given.configurations)
        arms = prepare_arms(search, options.scale, budget)
        print(format_budget(search, options.scale, budget, arms), flush=True)
        print(_predict(arms, budget, options), flush=True)
        return 0 if given.plan else _run(search, options, budget, given.width)
    except EXPECTED as error:
        return exit_code(search.name, error)


def _predict(arms: Mapping[str, TrialConfig], budget: Budget, options: LaunchOptions) -> str:
    """How long a search takes of which nothing is stored; how many go on is not known before."""
    from sweeps.engine.price import price_cells  # torch: not for --help

    store, halved, most = Store(options.results), 0.0, 0.0
    prices = price_cells(arms, store, options.device, options.num_threads, options.is_local)
    for label, price in prices.items():
        steps = rung_steps(arms[label], budget.rungs)
        seconds = [budget.configurations * price.seconds * s / steps[-1] for s in steps]
        halved += sum(s / HALVING**rung for rung, s in enumerate(seconds))
        most += sum(seconds)
    num_slots = options.num_slots
    return (
        f"predicted, what is stored included: about {format_seconds(halved / num_slots)} on "
        f"{plural(num_slots, 'slot')} if a third of each rung goes on, at most "
        f"{format_seconds(most / num_slots)}"
    )


def _run(search: Search, options: LaunchOptions, budget: Budget, width: int) -> int:
    """Run a search, followed by hooks and the mirror, and keep its winners; its exit code."""
    from sweeps.engine.launch.hooks import Launch, load_hook  # torch: not for --help
    from sweeps.engine.launch.launch import told, view_rows
    from sweeps.engine.launch.scheduler import execute_configs

    store, asked = Store(options.results), dict[str, TrialConfig]()
    print(f"\nresults: {store.root}", flush=True)
    plans = [_plan(search, options.scale, asked)]
    launch = Launch(plans=plans, store=store)
    hooks = [load_hook(name) for name in options.hooks]

    def note(jobs: Mapping[str, TrialConfig]) -> None:
        asked.update(jobs)
        plans[0] = _plan(search, options.scale, asked)

    with told(launch, hooks, options) as ended, options.make_executor().session(store):

        def execute(configs: Mapping[str, TrialConfig]) -> None:
            store.write_view(view_rows(plans[0]), "searches")
            execute_configs(launch.title, configs, options, store)

        best, failed = run_search(
            search,
            options.scale,
            store.root,
            execute,
            budget=budget,
            width=width,
            say=lambda line: print(line, flush=True),
            note=note,
        )
        store.write_view(view_rows(plans[0]), "searches")
        file = write_best(store.root, search.name, options.scale, best)
        _report(search, options, f"{store.root}/{file}", best, failed)
        ended.append(FAILED if failed else 0)
    return ended[0]


def _plan(search: Search, scale: Scale, asked: Mapping[str, TrialConfig]) -> Plan:
    """A search as far as it has come, as the view and hooks know a sweep."""
    from sweeps.engine.launch.scheduler import plan_configs

    sweep = Sweep(
        name=search.name, title=search.title, claim=search.claim, cells=lambda _: (), seeds={}
    )
    return Plan(sweep=sweep, scale=scale, trials=plan_configs(asked))


def _report(
    search: Search, options: LaunchOptions, file: str, best: Best, failed: Sequence[str]
) -> None:
    """Print the winners and what failed; draw all that was tried."""
    print(f"\n{format_best(best)}\n")
    print("near score: (1 - exact match) + (1 - token accuracy), the mean over near lengths")
    print("chosen on the near range; the test range was neither evaluated nor read")
    for line in untried(search.space, best):
        print(line)
    print(f"written: {file}")
    command = ["-m", "analysis", "search", search.name, "--scale", options.scale]
    command += ["--results", options.results]
    if options.report:  # table and figure for MLflow; the table is long
        subprocess.run([sys.executable, *command], stdout=subprocess.DEVNULL, check=False)
    print(f"every configuration, and a figure: python {' '.join(command)}", flush=True)
    for line in failed:
        print(f"failed: {line}")
    if failed:
        print("arms with failures were tuned less; the same command retries them")
