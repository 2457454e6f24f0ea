"""The command line of every sweep script: plan, run what is missing, redraw table and figure."""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pcore.cli.parser import (
    EXPECTED,
    FAILED,
    Parser,
    end_command,
    find_own_code,
    first_line,
)
from pcore.cli.text import plain_output
from sweeps.engine.changes import change_sweeps, given_changes
from sweeps.engine.options import (
    add_results,
    add_run,
    add_size,
    read_options,
)
from sweeps.engine.spec import Sweep
from sweeps.engine.store.folder import StorageFailed

if TYPE_CHECKING:  # torch comes with it
    from sweeps.engine.plan import Plan

# As `pcore train` has it for every field.
OPTION_OF_PCORE = re.compile(
    r"(?:unrecognized arguments: .*?|unknown option )--([a-z]+\.[a-z_0-9]+)"
)


@plain_output()
def main(sweep: Sweep, argv: Sequence[str] | None = None) -> int:
    """Run a sweep from the command line. Exit codes: 0 all trials finished, 1 some did not, 2
    refused, 130 interrupted.
    """
    parser = Parser(
        prog=f"{sweep.name}.py",
        description=sweep.claim,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_size(parser)
    parser.add_argument(
        "--plan",
        action="store_true",
        help="show the trials, their predicted duration and cost; run nothing",
    )
    add_results(parser)
    add_run(parser)
    try:
        given = parser.parse_args(argv)
        find_own_code()
        return plan_or_run([sweep], given)
    except EXPECTED as error:
        return exit_code(" ".join(str(sweep.name).split()), error)


def plan_or_run(sweeps: Sequence[Sweep], given: argparse.Namespace) -> int:
    """Change these sweeps as a command line says, then run them, or print their plans (--plan) and
    write and run nothing.
    """
    options, changes = read_options(given), given_changes(given)
    sweeps = change_sweeps(sweeps, changes, to_run=not given.plan)
    from sweeps.engine.launch.launch import plan_sweeps, run_sweeps  # torch comes with it

    if not given.plan:
        return run_sweeps(sweeps, options)
    from sweeps.engine.plan import format_plan
    from sweeps.engine.store.store import Store

    plans, where = plan_sweeps(sweeps, options, Store(options.results)), options.executor
    shown = (format_plan(plan, where.num_slots, where.start_seconds) for plan in plans)
    print("\n\n".join(shown))
    if hint := _find_published(plans, options.results):
        print(hint)
    return 0


def _find_published(plans: Sequence["Plan"], results: str) -> str:
    """How many of the trials that have to run are among the rows that come with pcore, and the
    command that adds these; empty if none is.
    """
    from sweeps.engine.store import location
    from sweeps.engine.store.store import Store

    missing = {planned.trial.id for plan in plans for planned in plan.to_run}
    if not missing:
        return ""
    best, most = location.PUBLISHED, 0
    for folder in sorted(location.PUBLISHED.glob("*/")):
        count = len(missing & Store(folder).trial_ids("ok"))
        best, most = (folder, count) if count > most else (best, most)
    if not most:
        return ""
    into = results if "://" in results else os.path.relpath(results)
    return (
        f"{most} of these come with pcore and need not run: "
        f"python -m sweeps merge {os.path.relpath(best)} {into}"
    )


def exit_code(name: str, error: BaseException) -> int:
    """Print in one sentence why a command failed with one of `EXPECTED`; return its exit code."""
    if isinstance(error, KeyboardInterrupt):
        text = "\ninterrupted; finished trials are stored, the same command resumes"
        print(text, file=sys.stderr)
    if isinstance(error, StorageFailed):
        print(
            f"{name}: {error}; stored results are kept, the same command resumes", file=sys.stderr
        )
        return FAILED
    if field := OPTION_OF_PCORE.search(text := first_line(error)):
        error = ValueError(f"{text}; a field is changed with --set {field[1]}=VALUE")
    return end_command(name, error)
