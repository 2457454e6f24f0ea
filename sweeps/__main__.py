"""Commands on sweeps and their results.

python -m sweeps list                          list all sweeps and tables
python -m sweeps plan depth_ablation           show missing trials, their predicted time and cost
python -m sweeps run depth_ablation            run what is missing, of one or several sweeps
python -m sweeps run --for core                run what a table of the report needs
python -m sweeps status [SWEEP ...]            done, missing, failed and stale trials per cell
python -m sweeps trials SWEEP [...]            id, seeds, state, result and weights of each trial
python -m sweeps why TRIAL                     result and attempts of one trial; --json: everything
python -m sweeps diagnose [SWEEP ...]          analyse trained models: attention, causes of failure
python -m sweeps measure M:F [SWEEP ...]       apply a metric of your own to trained models
python -m sweeps replicate SWEEP               rerun stored trials and compare
python -m sweeps cancel TRIAL ...              end running or waiting trials, from any terminal
python -m sweeps resume TRIAL ...              let the next launch continue them
python -m sweeps verify                        read every file and list damaged ones
python -m sweeps merge FROM INTO               add the results of another folder
python -m sweeps mirror [SWEEP ...]            rebuild MLflow from Parquet
python -m sweeps dashboard                     open MLflow's charts of the results
python -m sweeps doctor                        check this machine and the cluster
python -m sweeps gc                            remove old checkpoints and leftovers

TRIAL: the first letters of an id, or an address: "depth_ablation/coupling, 2 layers/seed 1"
"""

import argparse
import sys
from collections.abc import Callable, Sequence

from pcore.cli.parser import Parser
from pcore.diagnosis import NUM_EXAMPLES
from sweeps.commands.catalogue import find_sweep, find_table, sweep_names
from sweeps.engine.changes import change_sweeps, given_changes
from sweeps.engine.launch.cli import EXPECTED, exit_code, show_plan
from sweeps.engine.options import (
    add_results,
    add_run,
    add_size,
    parse_count,
    parse_duration,
    read_options,
)
from sweeps.engine.spec import SCALES, Sweep
from sweeps.engine.store.location import find_existing, find_results
from sweeps.tables import TABLES

# Each function below turns a parsed command line into a typed call; its docstring is the help text.
# Imports inside the functions keep `python -m sweeps list` fast.


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. The exit codes are those of a sweep script."""
    try:
        given = _parse(argv)
        command: Callable[[argparse.Namespace], int] = given.function
        if command in NEEDS_STORE:
            find_existing(given.results)
        return command(given)
    except EXPECTED as error:
        return exit_code("sweeps", error)


def list_sweeps(given: argparse.Namespace) -> int:
    """List all sweeps and tables."""
    del given
    names = sweep_names()
    width = max(len(name) for name in names)
    for name in names:
        print(f"{name:<{width}}  {find_sweep(name).title}")
    print("\ntables, for --for:")
    for table, members in TABLES.items():
        print(f"  {table:<{width}}{', '.join(members)}")
    return 0


def plan(given: argparse.Namespace) -> int:
    """Show missing trials, their predicted time and cost; run nothing."""
    return show_plan(_chosen(given), read_options(given))


def run(given: argparse.Namespace) -> int:
    """Run the missing trials of these sweeps in one launch."""
    from sweeps.engine.launch.launch import run_sweeps

    if given.plan:
        return plan(given)
    return run_sweeps(_chosen(given), read_options(given))


def _chosen(given: argparse.Namespace) -> list[Sweep]:
    """The sweeps and members of tables that were named, with --set and --axis applied. Raises
    ValueError if there are none.
    """
    tables = [sweep for table in given.tables for sweep in find_table(table)]
    if not (given.sweeps or tables):
        raise ValueError("name a sweep, or a table with --for; `python -m sweeps list` lists both")
    return named_sweeps(given, tables)


def named_sweeps(given: argparse.Namespace, more: Sequence[Sweep] = ()) -> list[Sweep]:
    """The sweeps that were named, and more, as the command line changes them."""
    sweeps = [*(find_sweep(name) for name in given.sweeps), *more]
    return change_sweeps(sweeps, given_changes(given))


def status(given: argparse.Namespace) -> int:
    """Show done, missing, failed and stale trials per cell, and running launches."""
    from sweeps.commands.status import show_status

    return show_status(given.results, named_sweeps(given), given.scale, given.seeds)


def trials(given: argparse.Namespace) -> int:
    """List id, seeds, state, result and weights of every trial of these sweeps."""
    from sweeps.commands.trials import show_trials

    return show_trials(given.results, named_sweeps(given), given.scale, given.seeds)


def why(given: argparse.Namespace) -> int:
    """Show result, uses and attempts of one trial; --json: its configuration and rows too."""
    from sweeps.commands.trials import show_trial

    return show_trial(given.results, given.trial, given.json)


def diagnose(given: argparse.Namespace) -> int:
    """Analyse finished trials that have weights: attention, causes of failure."""
    from sweeps.commands.trained import diagnose_trials

    return diagnose_trials(
        given.results,
        given.sweeps,
        given.scale,
        given.examples,
        given.device,
        given.force,
        given.trust_code,
    )


def measure(given: argparse.Namespace) -> int:
    """Apply a metric of your own to what trained models write: a column of their rows."""
    from sweeps.commands.trained import measure_trials

    return measure_trials(
        given.results,
        given.sweeps,
        given.scale,
        given.metric,
        given.examples,
        given.device,
        given.force,
        given.trust_code,
    )


def cancel(given: argparse.Namespace) -> int:
    """End running or waiting trials of any launch; their state is kept for `resume`."""
    from sweeps.commands.cancel import cancel_trials

    return cancel_trials(given.results, given.trials)


def resume(given: argparse.Namespace) -> int:
    """Undo `cancel`: the next launch continues these trials."""
    from sweeps.commands.cancel import resume_trials

    return resume_trials(given.results, given.trials)


def replicate(given: argparse.Namespace) -> int:
    """Rerun a sample of stored trials into another folder and compare with the store."""
    from sweeps.commands.replicate import replicate as run_again

    return run_again(
        given.results,
        given.sweep,
        given.scale,
        given.trials,
        given.seed,
        given.into,
        given.cpus_per_trial,
    )


def mirror(given: argparse.Namespace) -> int:
    """Rebuild MLflow from Parquet, for these sweeps or all."""
    from sweeps.commands.dashboard import rebuild_mirror

    return rebuild_mirror(
        given.results, given.sweeps, given.scale, given.tracking_uri, given.missing
    )


def dashboard(given: argparse.Namespace) -> int:
    """Mirror what MLflow lacks, serve its pages and open the charts."""
    from sweeps.commands.dashboard import show_dashboard

    return show_dashboard(given.results, given.tracking_uri, given.port, not given.no_browser)


def verify(given: argparse.Namespace) -> int:
    """Read every file of the store and list the bad ones; exit code 1 if there are any."""
    from sweeps.commands.verify import verify_store

    return verify_store(given.results, given.repair)


def merge(given: argparse.Namespace) -> int:
    """Add the results of one folder to another: rows, views, files beside them, weights, states."""
    from sweeps.commands.merge import merge_stores

    source, target = find_existing(given.source), find_results(given.target)
    return merge_stores(source, target, weights=not given.no_weights)


def doctor(given: argparse.Namespace) -> int:
    """Check whether this machine (and the cluster) can run sweeps; suggest fixes."""
    from sweeps.commands.doctor import examine

    return examine(given.results, given.tracking_uri, given.ray_address)


def gc(given: argparse.Namespace) -> int:
    """List old checkpoints and leftovers of dead processes; remove them with --yes."""
    from sweeps.commands.garbage import collect_garbage

    return collect_garbage(given.results, given.older_than, given.weights, remove=given.yes)


NEEDS_STORE = (
    status,
    trials,
    why,
    cancel,
    resume,
    diagnose,
    measure,
    mirror,
    dashboard,
    gc,
)  # refused where there is no results folder yet


TRIAL = "first letters of an id, or SWEEP/CELL/seed N (SWEEP [SCALE]/CELL/seed N, data seed M)"


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(
        prog="python -m sweeps",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, function: Callable[[argparse.Namespace], int]) -> Parser:
        text = (function.__doc__ or "").rstrip(".")
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(function=function)
        return command

    add("list", list_sweeps)
    for name, function in (("plan", plan), ("run", run)):
        command = add(name, function)
        command.add_argument("sweeps", nargs="*", metavar="SWEEP", help="name or path of a script")
        command.add_argument(
            "--for",
            dest="tables",
            action="append",
            default=[],
            metavar="TABLE",
            help="all sweeps of a table of the report (sweeps/tables.py), e.g. core",
        )
        add_size(command)
        add_results(command)
        add_run(command)
        if function is run:
            command.add_argument("--plan", action="store_true", help="same as the command `plan`")
    command = add("status", status)
    command.add_argument("sweeps", nargs="*", metavar="SWEEP", help="default: all in the store")
    add_size(command)
    add_results(command)
    command = add("trials", trials)
    command.add_argument("sweeps", nargs="+", metavar="SWEEP")
    add_size(command)
    add_results(command)
    command = add("why", why)
    command.add_argument("trial", metavar="TRIAL", help=TRIAL)
    command.add_argument("--json", action="store_true", help="everything, for programs")
    add_results(command)
    for name, function in (("cancel", cancel), ("resume", resume)):
        command = add(name, function)
        command.add_argument("trials", nargs="+", metavar="TRIAL", help=TRIAL)
        add_results(command)
    for name, function in (("diagnose", diagnose), ("measure", measure)):
        command = add(name, function)
        if function is measure:
            command.add_argument("metric", metavar="MODULE:FUNCTION", help="it is imported and run")
        command.add_argument("sweeps", nargs="*", metavar="SWEEP", help="default: all in the store")
        command.add_argument("--scale", choices=SCALES, default=None, help="default: all scales")
        command.add_argument(
            "--examples",
            type=parse_count,
            default=NUM_EXAMPLES,
            help=f"per length (default: {NUM_EXAMPLES})",
        )
        command.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
        command.add_argument("--force", action="store_true", help="also trials that are done")
        command.add_argument(
            "--trust-code",
            action="store_true",
            help="import and run user code named in checkpoints",
        )
        add_results(command)
    command = add("replicate", replicate)
    command.add_argument("sweep", metavar="SWEEP", help="name or path of a script")
    command.add_argument("--scale", choices=SCALES, default="laptop", help="default: laptop")
    command.add_argument("--trials", type=parse_count, default=2, help="sample size (default: 2)")
    command.add_argument("--seed", type=int, default=0, help="of the random sample (default: 0)")
    command.add_argument(
        "--into", default="replicas", metavar="FOLDER", help="where reruns go (default: replicas)"
    )
    command.add_argument(
        "--cpus-per-trial",
        type=parse_count,
        help="threads of the reruns; another number rounds differently (default: as stored)",
    )
    add_results(command)
    command = add("mirror", mirror)
    command.add_argument("sweeps", nargs="*", metavar="SWEEP", help="default: all in the store")
    command.add_argument("--scale", default=None, help="default: all scales")
    command.add_argument("--tracking-uri", default=None, help="default as in `run`")
    command.add_argument("--missing", action="store_true", help="add only what MLflow lacks")
    add_results(command)
    command = add("dashboard", dashboard)
    command.add_argument("--port", type=parse_count, default=5000, help="default: 5000")
    command.add_argument("--no-browser", action="store_true", help="only print the addresses")
    command.add_argument("--tracking-uri", default=None, help="default as in `run`")
    add_results(command)
    command = add("verify", verify)
    command.add_argument("--repair", action="store_true", help="move bad files to quarantine/")
    add_results(command)
    command = add("merge", merge)
    command.add_argument("source", metavar="FROM", help="results folder, or s3://bucket/prefix")
    command.add_argument(
        "target", metavar="INTO", help="results folder to add to; nothing in it is overwritten"
    )
    command.add_argument("--no-weights", action="store_true", help="skip weights and states")
    command = add("doctor", doctor)
    command.add_argument("--ray-address", default=None, help="also check this cluster")
    command.add_argument("--tracking-uri", default=None, help="default as in `run`")
    add_results(command)
    command = add("gc", gc)
    command.add_argument(
        "--older-than",
        type=parse_duration,
        default=7 * 86400.0,
        help="minimum age of states and temporary files, e.g. 48h (default: 7 days)",
    )
    command.add_argument("--weights", action="store_true", help="also weights of finished trials")
    command.add_argument("--yes", action="store_true", help="remove instead of listing")
    add_results(command)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
