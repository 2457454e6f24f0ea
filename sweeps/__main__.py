"""Commands on sweeps and their results: `python -m sweeps COMMAND`.

Each command is a line of `COMMANDS` and a parser in `_parse`. Its module is imported when it is
given, so that `--help` and `list` stay fast.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import NamedTuple

from pcore.cli.parser import EXPECTED, Parser
from pcore.cli.text import plain_output
from pcore.diagnosis import NUM_EXAMPLES
from sweeps.commands.catalogue import (
    Listed,
    find_sweep,
    find_table,
    find_to_run,
    list_stored,
    list_sweep,
    sweep_names,
)
from sweeps.engine.changes import change_sweeps, given_changes
from sweeps.engine.launch.cli import exit_code, plan_or_run
from sweeps.engine.options import (
    add_results,
    add_run,
    add_size,
    open_store,
    parse_count,
    parse_duration,
)
from sweeps.engine.spec import SCALES
from sweeps.engine.store.location import find_existing
from sweeps.tables import TABLES


class Command(NamedTuple):
    """function: of `sweeps.commands`, called with the options by name, or of this file, called with
    the parsed command line. needs_store: it is refused where there is no results folder yet.
    """

    summary: str
    function: str | Callable[[argparse.Namespace], int]
    needs_store: bool = False


@plain_output()
def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. The exit codes are those of a sweep script."""
    try:
        given = _parse(argv)
        command = COMMANDS[vars(given).pop("command")]
        if command.needs_store:
            find_existing(given.results)
        if not isinstance(command.function, str):
            return command.function(given)
        module, _, name = command.function.partition(":")
        return getattr(import_module(f"sweeps.commands.{module}"), name)(**vars(given))
    except EXPECTED as error:
        return exit_code("sweeps", error)


def _list_sweeps(given: argparse.Namespace) -> int:
    del given
    names = sweep_names()
    width = max(len(name) for name in names)
    for name in names:
        print(f"{name:<{width}}  {find_sweep(name).title}")
    print("\ntables, for --for:")
    for table, members in TABLES.items():
        print(f"  {table:<{width}}{', '.join(members)}")
    return 0


def _run(given: argparse.Namespace) -> int:
    tables = [sweep for table in given.tables for sweep in find_table(table)]
    if not (given.sweeps or tables):
        raise ValueError("name a sweep, or a table with --for; `python -m sweeps list` lists both")
    store = open_store(given.results)
    return plan_or_run(
        [*(find_to_run(name, store) for name in dict.fromkeys(given.sweeps)), *tables], given
    )


def _listed(given: argparse.Namespace) -> list[Listed]:
    """The sweeps to show: a changed one as it was launched, unless other seeds or changes are
    asked for.
    """
    store, changes, listed = open_store(given.results), given_changes(given), list[Listed]()
    as_launched = changes.are_none and given.seeds is None
    for name in given.sweeps:
        if as_launched and (stored := list_stored(name, given.scale, store)):
            listed.append(stored)
        else:
            (sweep,) = change_sweeps([find_to_run(name, store)], changes)
            listed.append(list_sweep(sweep, given.scale, given.seeds))
    return listed


def _status(given: argparse.Namespace) -> int:
    from sweeps.commands.show import show_status

    return show_status(given.results, _listed(given))


def _trials(given: argparse.Namespace) -> int:
    from sweeps.commands.show import show_trials

    return show_trials(given.results, _listed(given), all_seeds=given.seeds is None)


COMMANDS = {
    "list": Command("list all sweeps and tables", _list_sweeps),
    "plan": Command("show missing trials, their predicted time and cost; run nothing", _run),
    "run": Command("run the missing trials of these sweeps, or of a table, in one launch", _run),
    "status": Command("done, missing, failed and stale trials per cell; what runs", _status, True),
    "trials": Command("id, seeds, state, result and weights of each trial", _trials, True),
    "why": Command("result, uses and attempts of one trial", "show:show_trial", True),
    "measure": Command(
        "analyse trained models: their attention, and the causes of their failures",
        "measure:measure_trials",
        True,
    ),
    "replicate": Command(
        "rerun a sample of stored trials into another folder and compare", "replicate:replicate"
    ),
    "verify": Command("read every file of the store and list damaged ones", "files:verify_store"),
    "forget": Command(
        "list the view of a sweep, and the trials that no other has; --yes removes them",
        "files:forget_sweep",
        True,
    ),
    "merge": Command(
        "add the results of one folder to another: rows, views, weights, states",
        "merge:merge_stores",
    ),
    "mirror": Command("add to MLflow what it lacks", "dashboard:complete_mirror", True),
    "dashboard": Command(
        "serve MLflow's pages, which show what is stored and what runs",
        "dashboard:show_dashboard",
        True,
    ),
    "gc": Command(
        "list old checkpoints and leftovers of dead processes; --yes removes them",
        "files:collect_garbage",
        True,
    ),
}
TRIAL = "first letters of an id, or SWEEP/CELL/seed N (SWEEP [SCALE]/CELL/seed N, data seed M)"


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(prog="python -m sweeps", description="Commands on sweeps and their results.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    parsers = {
        name: commands.add_parser(name, help=text, description=text)
        for name, (text, *_) in COMMANDS.items()
    }
    add = {name: command.add_argument for name, command in parsers.items()}
    _add_names(add)
    _add_trained(add)
    _add_replicate(add["replicate"])
    _add_storage(add)
    for name, command in parsers.items():
        if name in ("plan", "run", "status", "trials"):
            add_size(command)
        if name not in ("list", "merge"):
            add_results(command)
        if name in ("plan", "run"):
            add_run(command)
    parsers["plan"].set_defaults(plan=True)
    add["run"]("--plan", action="store_true", help="same as the command `plan`")
    return parser.parse_args(argv)


Adders = Mapping[str, Callable[..., argparse.Action]]  # of an argument, by command


def _add_names(add: Adders) -> None:
    for name in ("plan", "run"):
        add[name]("sweeps", nargs="*", metavar="SWEEP", help="name or path of a script")
        add[name](
            "--for",
            dest="tables",
            action="append",
            default=[],
            metavar="TABLE",
            help="all sweeps of a table of the report (sweeps/tables.py), e.g. core",
        )
    add["trials"]("sweeps", nargs="+", metavar="SWEEP")
    for name in ("status", "measure", "mirror"):
        add[name]("sweeps", nargs="*", metavar="SWEEP", help="default: all in the store")
    add["why"]("text", metavar="TRIAL", help=TRIAL)
    add["why"]("--json", dest="as_json", action="store_true", help="everything, for programs")


def _add_trained(add: Adders) -> None:
    add["measure"](
        "--examples",
        dest="num_examples",
        metavar="N",
        type=parse_count,
        default=NUM_EXAMPLES,
        help=f"per length (default: {NUM_EXAMPLES})",
    )
    add["measure"]("--device", default="cpu", help="cpu or cuda (default: cpu)")
    add["measure"]("--force", action="store_true", help="also trials that are done")
    add["measure"]("--trust-code", action="store_true", help="run user code named in checkpoints")
    for name in ("measure", "mirror"):
        add[name]("--scale", choices=SCALES, help="default: all scales")


def _add_replicate(add: Callable[..., argparse.Action]) -> None:
    add("name", metavar="SWEEP", help="name or path of a script")
    add("--scale", choices=SCALES, default="laptop", help="default: laptop")
    add("--trust-code", action="store_true", help="import and run own code that rows name")
    add(
        "--trials", dest="num_trials", metavar="N", type=parse_count, default=2, help="(default: 2)"
    )
    add("--seed", type=int, default=0, help="of the random sample (default: 0)")
    add("--into", default="replicas", metavar="FOLDER", help="for the reruns (default: replicas)")
    add(
        "--cpus-per-trial",
        dest="num_threads",
        metavar="N",
        type=parse_count,
        help="threads of the reruns; another number rounds differently (default: as stored)",
    )


def _add_storage(add: Adders) -> None:
    for name in ("mirror", "dashboard"):
        add[name]("--tracking-uri", help="default as in `run`")
    add["dashboard"]("--port", type=parse_count, default=5000, help="default: 5000")
    add["merge"]("from_results", metavar="FROM", help="results folder, or s3://bucket/prefix")
    add["merge"]("into_results", metavar="INTO", help="may be new; nothing in it is overwritten")
    add["merge"]("--no-weights", dest="weights", action="store_false", help="only rows and views")
    add["gc"](
        "--older-than",
        metavar="TIME",
        type=parse_duration,
        default=7 * 86400.0,
        help="minimum age of states and temporary files, e.g. 48h (default: 7 days)",
    )
    add["gc"]("--weights", action="store_true", help="also weights of finished trials")
    add["forget"]("name", metavar="SWEEP", help="as `status` lists it")
    add["forget"]("--scale", choices=SCALES, help="default: all scales")
    for name in ("gc", "forget"):
        add[name]("--yes", dest="remove", action="store_true", help="remove instead of listing")


if __name__ == "__main__":
    sys.exit(main())
