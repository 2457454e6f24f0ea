"""The command line of every sweep script: plan, run what is missing, redraw table and figure."""

import argparse
import sys
from collections.abc import Callable, Sequence

from sweeps.engine.launch.launch import FAILED, INTERRUPTED, REFUSED, plan_sweeps, run_sweeps
from sweeps.engine.options import (
    add_place,
    add_run,
    add_size,
    check_run,
    find_results,
    guess_slots,
    start_seconds,
)
from sweeps.engine.plan import format_plan
from sweeps.engine.spec import Sweep
from sweeps.engine.store.folder import StorageFailed
from sweeps.engine.store.store import Store


def main(sweep: Sweep, argv: Sequence[str] | None = None) -> int:
    """Run a sweep from the command line. Exit codes: 0 all trials finished, 1 some did not, 2
    refused, 130 interrupted.
    """
    parser = argparse.ArgumentParser(
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
    add_place(parser)
    add_run(parser)
    options = parser.parse_args(argv)
    return guarded(
        sweep.name,
        lambda: show_plan([sweep], options) if options.plan else run_sweeps([sweep], options),
    )


def show_plan(sweeps: Sequence[Sweep], options: argparse.Namespace) -> int:
    """Print the plans of these sweeps; nothing is written or run."""
    check_run(options)
    store, num_slots = Store(find_results(options.results)), guess_slots(options)
    start = start_seconds(options)
    plans = plan_sweeps(sweeps, options, store, num_slots)
    print("\n\n".join(format_plan(plan, num_slots, start) for plan in plans))
    return 0


def guarded(name: str, command: Callable[[], int]) -> int:
    """Run a command; what a user did wrong ends as one sentence."""
    try:
        return command()
    except ValueError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return REFUSED
    except StorageFailed as error:
        print(f"{name}: {error}; what is stored stays, the same command continues", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print(
            "\ninterrupted; finished trials are stored, the same command continues", file=sys.stderr
        )
        return INTERRUPTED
