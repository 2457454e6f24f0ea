"""The console command `pcore`: look at an example, train, ask and explain a model, check own code
and theorems.

    pcore show addition 653+49                     pcore train --preset smoke
    pcore show addition 653+49 --no-zero-pad       pcore train --model.num_layers 2 --out m.pt
    pcore show addition 653+49 --picture a.png     pcore solve m.pt 12+34 5+678
    pcore attention m.pt                           pcore explain m.pt --length 20

Options of tasks and trials are made from the fields of their configuration (`pcore.flags`).
Whatever needs torch is imported late, so that `pcore --help` answers at once.
"""

import argparse
import inspect
import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pcore.registry import nearest

if TYPE_CHECKING:
    import torch

    from pcore.config import TrialConfig
    from pcore.tasks import Task

WRONG_USE = 2  # exit code of everything that a person can put right
FAILED = 1  # a line of standard input, a check or the training failed
STDIN = "-"

SHOW_HELP = """\
QUERY is what a person would type, e.g. 653+49. A query of - reads queries from standard input, one
per line (empty lines are skipped), and prints one JSON object for each; a line that the task cannot
pose gives {"error": ..., "query": ...} in its place, and the exit code is 1 at the end.

Options of the task are flags named as its fields: `pcore show addition --help` lists them.
Booleans: --zero-pad, --no-zero-pad, --zero-pad false, --zero-pad=false. What is not given follows
from the query where it can (the number of operands, for instance)."""

TRAIN_HELP = """\
Any field of the configuration is a flag by its dotted name (--model.num_layers 2,
--position.encoding none, --task.name addition --task.zero_pad false), or by the last part of it
where only one field ends so (--num-layers 2). Lengths: 12, 1-10, 5-200:5 or a list with commas.
Ctrl-C saves the state; the same command goes on from it."""

INSPECTION_HELP = {
    "attention": """\
Two numbers for every head: attention on the keys that Theorem 5.1 of arXiv 2405.20671 predicts.
`python -m analysis attention CHECKPOINT` draws the matrices.""",
    "ablate": "The output of a part is set to zero; counts are those of evaluation.",
    "explain": """\
Failures by kind, place, carry, position ID, training of the ID and lengths of the operands; then
attention as sequences grow, the position table, and bf16 against fp32.""",
}
REACH_HELP = """\
Bisection over the lengths: takes for granted that exact match does not rise with length, and tests
the visited lengths only. With --stop-error 0.05 each of them is left as soon as it is known on
which side of 95 % exact match lies, which is wrong with at most this probability."""
CONSTRUCT_HELP = """\
The weights of the papers' theorems, written by hand, run as an ordinary Transformer over the
hardest cases and over random ones. The exit code is 0 only if every token is right."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(words)
    except BrokenPipeError:  # `pcore show ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        return 130
    except (ValueError, OSError) as error:
        sentence = (str(error).strip().splitlines() or [type(error).__name__])[0]
        print(f"pcore: {sentence}", file=sys.stderr)
        return WRONG_USE


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message} ({self.prog} --help tells more)")


def _run(words: list[str]) -> int:
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        raise ValueError(f"unknown command {words[0]!r}.{nearest(words[0], COMMANDS)}")
    if not words or words[0].startswith("-"):
        _make_parser().parse_args(words or ["--help"])
        return 0
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # own code, package.module:Class, beside the person
    return COMMANDS[words[0]](words[1:])


def _make_parser() -> _Parser:
    parser = _Parser(
        prog="pcore",
        description="Length generalization of small Transformers on arithmetic.",
        epilog="`pcore COMMAND --help` tells more.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, text in SUMMARIES.items():
        commands.add_parser(name, help=text)
    return parser


def _command_parser(name: str, text: str = "") -> _Parser:
    return _Parser(
        prog=f"pcore {name}",
        description=SUMMARIES[name],
        epilog=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


# show -----------------------------------------------------------------------------------------


def _show(words: list[str]) -> int:
    parser = _command_parser("show", SHOW_HELP)
    parser.add_argument("task", metavar="TASK")
    parser.add_argument("query", metavar="QUERY")
    parser.add_argument("--start", type=int, default=1, help="where counting starts (default 1)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--picture", metavar="FILE", help="draw tokens coloured by their ID")
    if not words or words in (["-h"], ["--help"]):
        parser.parse_args(words or ["--help"])

    from pcore.flags import take_flags

    cls = _find_task(words)
    fields = _task_fields(cls)
    parser.epilog = f"{_list_fields(cls)}\n\n{SHOW_HELP}"
    options, rest = take_flags(words, fields, _fixed_flags(parser))
    args = parser.parse_args(rest)
    if args.start < 1:
        raise ValueError(f"--start {args.start} is below 1")
    if args.query == STDIN:
        if args.picture:
            raise ValueError("--picture draws one query, not those of standard input")
        return _show_lines(cls, options, sys.stdin, args.start)
    return _show_one(cls, options, args)


def _show_one(cls: "type[Task]", options: dict[str, Any], args: argparse.Namespace) -> int:
    from pcore.show import choose_task, format_example, make_example

    example = make_example(choose_task(cls, options, args.query), args.query, args.start)
    if args.json:
        print(json.dumps(example.to_json(), ensure_ascii=False))
    elif not args.picture:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print(format_example(example, width))
    if args.picture:
        from pcore.picture import draw_example

        draw_example(example, Path(args.picture), title=f"{args.task} {args.query}")
        if not args.json:
            print(args.picture)
    return 0


def _show_lines(
    cls: "type[Task]", options: dict[str, Any], lines: Iterable[str], start: int
) -> int:
    from pcore.show import choose_task, make_example

    cls(**options)  # an impossible format is wrong use, not a bad line
    code = 0
    for line in lines:
        if not (query := line.strip()):
            continue
        try:
            answer = make_example(choose_task(cls, options, query), query, start).to_json()
        except ValueError as error:
            answer, code = {"error": str(error), "query": query}, FAILED
        print(json.dumps(answer, ensure_ascii=False), flush=True)
    return code


def _find_task(words: list[str]) -> "type[Task]":
    """The task among the words, wherever it stands: options of a task are known only with it."""
    from pcore.registry import resolve
    from pcore.tasks import TASKS

    candidates = [w for w in words if not w.startswith("-")]
    for word in candidates:
        if word in TASKS or ":" in word:
            return resolve(word, TASKS, "task")
    if not candidates:
        raise ValueError(f"TASK is missing.{nearest('', TASKS)}")
    return resolve(candidates[0], TASKS, "task")


def _task_fields(cls: "type[Task]") -> dict[str, Any]:
    from pcore.config import known_fields

    names = {n.removeprefix("task."): a for n, a in known_fields(cls).items() if "task." in n}
    del names["name"]
    return names


def _list_fields(cls: "type[Task]") -> str:
    """The options of a task with their defaults, and what its docstring says of them."""
    import dataclasses

    defaults = [f"  --{f.name.replace('_', '-')} {f.default}" for f in dataclasses.fields(cls)]
    text = inspect.getdoc(cls) or ""
    return "\n".join(["options of the task, with defaults:", *defaults, "", text])


def _fixed_flags(parser: argparse.ArgumentParser) -> dict[str, bool]:
    """The flags of a parser, and whether each takes a value."""
    return {flag: a.nargs != 0 for a in parser._actions for flag in a.option_strings}  # pyright: ignore[reportPrivateUsage]


# train ----------------------------------------------------------------------------------------


def _train(words: list[str]) -> int:
    parser = _command_parser("train", TRAIN_HELP)
    parser.add_argument("--preset", default="published", help="published (default) or smoke")
    parser.add_argument("--device", help="cpu, cuda ... (default: a GPU if there is one)")
    parser.add_argument("--threads", type=int, help="on a CPU (default: 1 for small models)")
    parser.add_argument("--out", type=Path, help="model file (default checkpoints/TRIAL.pt)")
    parser.add_argument("--checkpoint", type=Path, help="state file (default OUT with .state.pt)")
    parser.add_argument("--save-every", type=float, default=60.0, help="seconds (default 60)")

    from pcore.config import override, trial_id
    from pcore.console import PRESETS, choose_device, preset, run_training, set_threads
    from pcore.flags import take_flags
    from pcore.train import Diverged

    fields = _trial_fields(words)
    parser.epilog = f"{TRAIN_HELP}\n\n{_list_trial(preset('published'))}"
    changes, rest = take_flags(words, fields, _fixed_flags(parser))
    args = parser.parse_args(rest)
    if args.preset not in PRESETS:
        raise ValueError(f"unknown preset {args.preset!r}.{nearest(args.preset, PRESETS)}")
    if "task" in changes:
        changes["task.name"] = changes.pop("task")
    config = override(preset(args.preset), changes)
    out: Path = args.out or Path("checkpoints") / f"{trial_id(config)}.pt"
    state_file: Path = args.checkpoint or out.with_name(f"{out.stem}.state.pt")
    for file in (out, state_file):
        if file.is_dir():
            raise ValueError(f"{file} is a folder, not a file")
    if out == state_file:
        raise ValueError(f"--out and --checkpoint are the same file {out}")
    device = choose_device(args.device)
    set_threads(args.threads, config)
    try:
        return run_training(config, device, out, state_file, args.save_every)
    except Diverged as error:
        print(f"pcore: {error}", file=sys.stderr)
        return FAILED


def _trial_fields(words: list[str]) -> dict[str, Any]:
    """Every field that a trial of the task in `words` has; `--task NAME` is short for the name."""
    from pcore.config import TrialConfig, known_fields
    from pcore.registry import resolve
    from pcore.tasks import TASKS

    cls = type(TrialConfig().task)
    for word, after in zip(words, [*words[1:], ""], strict=True):
        flag, has_value, text = word.partition("=")
        if flag in ("--task", "--task.name", "--name"):
            cls = resolve(text if has_value else after, TASKS, "task")
    return {"task": str, **known_fields(cls)}


def _list_trial(config: "TrialConfig") -> str:
    from pcore.config import flatten

    fields = [f"  --{name} {value}" for name, value in flatten(config).items()]
    return "\n".join(["fields, with the published defaults:", *fields])


# solve ----------------------------------------------------------------------------------------


def _solve(words: list[str]) -> int:
    parser = _command_parser("solve", "A query of - reads queries from standard input.")
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=Path)
    parser.add_argument("queries", metavar="QUERY", nargs="+")
    parser.add_argument("--device", help="cpu, cuda ... (default cpu)", default="cpu")
    args = parser.parse_args(words)

    from pcore.console import choose_device, run_solving

    queries: Iterable[str] = args.queries
    if args.queries == [STDIN]:
        queries = (line.strip() for line in sys.stdin if line.strip())
    return run_solving(args.checkpoint, queries, choose_device(args.device))


# attention, ablate, explain, reach -------------------------------------------------------------


def _attention(words: list[str]) -> int:
    parser = _inspection_parser("attention", "the longest trained one", "1000")
    parser.add_argument("--out", type=Path, help="write the averaged matrices there, as JSON")
    args, device = _parse_inspection(parser, words)
    if args.out and not args.out.parent.is_dir():
        raise ValueError(f"there is no folder {args.out.parent} for {args.out.name}")

    from pcore.inspection import run_attention

    return run_attention(args.checkpoint, args.length, args.examples, args.out, device)


def _ablate(words: list[str]) -> int:
    parser = _inspection_parser("ablate", "the longest trained one", "as many as were evaluated")
    args, device = _parse_inspection(parser, words)

    from pcore.inspection import run_ablation

    return run_ablation(args.checkpoint, args.length, args.examples, device)


def _explain(words: list[str]) -> int:
    parser = _inspection_parser("explain", "the longest tested one", "as many as were evaluated")
    args, device = _parse_inspection(parser, words)

    from pcore.inspection import run_explaining

    return run_explaining(args.checkpoint, args.length, args.examples, device)


def _reach(words: list[str]) -> int:
    parser = _command_parser("reach", REACH_HELP)
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=Path)
    parser.add_argument("--lengths", help="e.g. 5-200:5 (default: all that it was evaluated at)")
    parser.add_argument("--examples", type=int, help="per length (default: as were evaluated)")
    parser.add_argument("--stop-error", type=float, default=0.0, help="default 0: all examples")
    parser.add_argument("--device", help="cpu, cuda ... (default cpu)", default="cpu")
    args = parser.parse_args(words)

    from pcore.console import choose_device
    from pcore.inspection import run_reaching

    device = choose_device(args.device)
    return run_reaching(args.checkpoint, args.lengths, args.examples, args.stop_error, device)


def _inspection_parser(name: str, length: str, examples: str) -> _Parser:
    parser = _command_parser(name, INSPECTION_HELP[name])
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=Path)
    parser.add_argument("--length", type=int, help=f"default: {length}")
    parser.add_argument("--examples", type=int, help=f"test examples (default: {examples})")
    parser.add_argument("--device", help="cpu, cuda ... (default cpu)", default="cpu")
    return parser


def _parse_inspection(
    parser: _Parser, words: list[str]
) -> "tuple[argparse.Namespace, torch.device]":
    args = parser.parse_args(words)
    for flag in ("length", "examples"):
        if (value := getattr(args, flag)) is not None and value < 1:
            raise ValueError(f"--{flag} {value} is below 1")

    from pcore.console import choose_device

    return args, choose_device(args.device)


# check-encoding, check-task ---------------------------------------------------------------------


def _check_encoding(words: list[str]) -> int:
    return _check("encoding", words)


def _check_task(words: list[str]) -> int:
    return _check("task", words)


def _check(kind: str, words: list[str]) -> int:
    parser = _command_parser(f"check-{kind}")
    parser.add_argument("name", metavar="NAME", help=f"a known {kind} or package.module:Class")
    args = parser.parse_args(words)
    from pcore.conformance import check_encoding, check_task, format_checks

    checks = (check_encoding if kind == "encoding" else check_task)(args.name)
    print(format_checks(args.name, checks))
    return 0 if all(check.passed for check in checks) else FAILED


# construct, ceiling ---------------------------------------------------------------------------


def _construct(words: list[str]) -> int:
    parser = _command_parser("construct", CONSTRUCT_HELP)
    parser.add_argument("name", metavar="NAME", help="addition, multiplication or scratchpad")
    parser.add_argument("--digits", type=int, help="length to check (default 100)")
    parser.add_argument("--operands", type=int, help="of the scratchpad (default 3)")
    parser.add_argument("--examples", type=int, help="random examples (default 100)")
    parser.add_argument("--bits", type=int, help="P, bits of a position vector (default: least)")
    parser.add_argument("--dtype", help="float32 (default), float64, float16 or bfloat16")
    parser.add_argument("--device", help="cpu, cuda ... (default cpu)", default="cpu")
    parser.add_argument("--limits", action="store_true", help="table of limits by P and dtype")
    parser.add_argument("--max-bits", type=int, help="largest P of the table (default 10)")
    args = parser.parse_args(words)
    limits, check = ("max_bits",), ("digits", "bits", "dtype")
    for option in check if args.limits else limits:
        if getattr(args, option) is not None:
            flag = f"--{option.replace('_', '-')}"
            raise ValueError(f"{flag} {'does not go with' if args.limits else 'needs'} --limits")

    from pcore.console import choose_device
    from pcore.theory.console import find_construction, run_construct, run_limits

    construction = find_construction(args.name, args.operands)
    if args.limits:
        num_examples = 10 if args.examples is None else args.examples
        max_bits = 10 if args.max_bits is None else args.max_bits
        return run_limits(construction, max_bits, num_examples)
    return run_construct(
        construction,
        100 if args.digits is None else args.digits,
        100 if args.examples is None else args.examples,
        num_bits=args.bits,
        dtype=args.dtype or "float32",
        device=choose_device(args.device),
    )


def _ceiling(words: list[str]) -> int:
    parser = _command_parser("ceiling", "5 digits take some ten seconds, fewer none.")
    parser.add_argument("--digits", type=int, default=5, help="up to how many (default 5)")
    args = parser.parse_args(words)

    from pcore.theory.console import run_ceilings

    return run_ceilings(args.digits)


SUMMARIES = {
    "show": "Print tokens, relative IDs and position IDs of an example.",
    "train": "Train one configuration.",
    "solve": "Let a trained model answer queries, next to the truth.",
    "attention": "Print what the heads of a trained model look at, next to the construction.",
    "ablate": "Print exact match of a trained model without each of its heads and layers.",
    "explain": "Print why a trained model fails at a length.",
    "reach": "Find the longest length that a trained model solves, by bisection.",
    "check-encoding": "Check an encoding of your own against the rules.",
    "check-task": "Check a task of your own against the rules.",
    "construct": "Build the model of a theorem by hand and check that it is exact.",
    "ceiling": "Print what one layer without positions cannot exceed on addition.",
}
COMMANDS = {
    "show": _show,
    "train": _train,
    "solve": _solve,
    "attention": _attention,
    "ablate": _ablate,
    "explain": _explain,
    "reach": _reach,
    "check-encoding": _check_encoding,
    "check-task": _check_task,
    "construct": _construct,
    "ceiling": _ceiling,
}

if __name__ == "__main__":
    sys.exit(main())
