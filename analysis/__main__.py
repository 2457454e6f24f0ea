"""Tables, figures and reports from stored results: `python -m analysis COMMAND`."""

import argparse
import sys
from pathlib import Path

from analysis.commands import COMMANDS, RANGES, SCALES, sweep_name
from analysis.statistics.cells import Place, read_place
from pcore.cli.parser import EXPECTED, Parser, end_command
from pcore.cli.text import plain_output
from sweeps.engine.store.location import find_existing


@plain_output()
def main(arguments: list[str] | None = None) -> int:
    """Run one command; 0, or the exit code of `end_command`."""
    try:
        options = _parse(arguments)
        if "results" in options:
            options.results = find_existing(options.results)
        return COMMANDS[options.command](options)
    except EXPECTED as error:
        return end_command("analysis", error)


def _places(text: str) -> list[Place]:
    try:
        return [read_place(part) for part in text.split(",")]
    except ValueError:
        message = f"{text!r} is not a list like 18,96,200 or 8x8,12x12"
        raise argparse.ArgumentTypeError(message) from None


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    given = sys.argv[1:] if arguments is None else arguments
    parser = Parser(
        prog="python -m analysis",
        description="Tables, figures and reports from stored results.",
    )
    commands = parser.add_subparsers(
        dest="command", required=True, metavar=f"{{{','.join(COMMANDS)}}}"
    )
    add = {
        name: commands.add_parser(name, help=(function.__doc__ or "").rstrip(".")).add_argument
        for name, function in COMMANDS.items()
    }
    folder = "results folder or s3://bucket/prefix"
    for name in ("table", "report", "compare", "search"):
        default = "(default: $PCORE_RESULTS, else ./results)"
        add[name]("--results", help=f"{folder} {default}")
    add["compare"]("a", help="SWEEP, SWEEP/CELL or SWEEP [SCALE]/CELL; before SWEEP, a folder")
    add["compare"]("b", help="the other one")
    add["compare"]("sweep", nargs="?", metavar="SWEEP", help="then A and B are results folders")
    add["compare"]("--by-length", action="store_true", help="each length, with intervals")
    add["report"]("sweeps", nargs="*", metavar="SWEEP", help="default: all")
    for name in ("table", "search"):
        add[name]("sweep", metavar="SWEEP", help="name or script of the sweep")
    for name in ("table", "report", "compare"):
        add[name]("--checkpoint", default="last", help="last, best or oracle")
    for name in ("table", "report", "compare", "search"):
        default = "all" if name == "report" else "the only one in the store, else laptop"
        add[name]("--scale", choices=SCALES, help=f"default: {default}")
    for name in ("table", "report", "compare", "search", "attention"):
        add[name]("--out", type=Path, metavar="FOLDER", help="where to write; made if missing")
    add["table"](
        "--metric",
        help="instead of exact match: token_accuracy, loss or near_score",
    )
    add["table"]("--over", choices=RANGES, default="", help="of a metric: its mean over a range")
    add["table"](
        "--only",
        action="append",
        default=[],
        metavar="LABEL",
        help="only cells of this label, in which * stands for anything; may be repeated",
    )
    add["table"](
        "--lengths",
        type=_places,
        default=[],
        metavar="N,N,...",
        help="tested lengths to show, e.g. 18,96,200, or pairs, e.g. 8x8,12x12, instead of those "
        "near 1.5x, 2x and the last",
    )
    add["fill"]("files", nargs="+", type=Path, metavar="FILE.md")
    add["attention"]("model", metavar="CHECKPOINT", type=Path, help="a .pt file")
    add["attention"]("--length", type=int, help="default: the longest trained length")
    add["attention"]("--examples", type=int, default=1000, help="default: 1000")
    add["attention"]("--trust-code", action="store_true", help="import user code that it names")
    options = parser.parse_args(given)
    if "sweeps" in options:
        options.sweeps = [sweep_name(name) for name in options.sweeps]
    return options


if __name__ == "__main__":
    sys.exit(main())
