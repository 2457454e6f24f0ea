"""The commands of `pcore` that take a trained model: solve and explain.

$ pcore solve m.pt 653+49 12+34
653+49 = 0702
12+34 = 036: wrong at digit 2 of 3, as the model writes them (ones digit first)
  truth 046
         ^
1 of 2 right
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from pcore.cli.models import choose_device, open_model
from pcore.cli.parser import STDIN, Parser, add_device, command_parser, strip_equals
from pcore.config import TrialConfig, check_bounds
from pcore.decoding import Solution
from pcore.decoding import solve as solve_query
from pcore.diagnosis.causes import KINDS, LEAST, name_causes, percent
from pcore.diagnosis.failures import Diagnosis, analyse_failures
from pcore.encodings import Mixture
from pcore.encodings.position_ids import level_names
from pcore.evaluation import with_examples
from pcore.model import Transformer
from pcore.tasks import Task
from pcore.tasks.addition import Addition
from pcore.tasks.multiplication import Multiplication
from pcore.validation import task_name

WINDOW = 60  # characters of a wrong answer's truth that are shown
LEAST_FAILURES = 20  # fewer say nothing about their causes
EXPLAIN_HELP = """\
Failures by kind, and what explains them: position in the response, position ID, operand
lengths; then weights of the levels of IDs."""


def solve(words: list[str]) -> int:
    """Print answers to queries next to the truth."""
    parser = _model_parser("solve", "A query of - reads queries from standard input.")
    parser.add_argument("queries", metavar="QUERY", nargs="+")
    args = parser.parse_args(words)
    queries: Iterable[str] = args.queries
    if args.queries == [STDIN]:
        queries = filter(None, map(str.strip, sys.stdin))
    model, config = _open(args)
    right: list[bool] = []
    for query in map(strip_equals, queries):
        _check_trained(config, query)
        solution = solve_query(model, config, query)
        print(format_solution(solution, config.task), flush=True)
        right.append(solution.is_correct)
    if len(right) > 1:
        print(f"{sum(right)} of {len(right)} right")
    return 0


def explain(words: list[str]) -> int:
    """Print why the model fails at a length."""
    parser = _model_parser("explain", EXPLAIN_HELP)
    parser.add_argument("--length", type=int, help="default: the longest tested length")
    parser.add_argument("--second", type=int, help="second length (operands ...), if there is one")
    parser.add_argument("--examples", type=int, help="test examples (default: as in evaluation)")
    args = parser.parse_args(words)
    model, config = _open(args)
    config = with_examples(config, args.examples)
    check_bounds(config)
    length = args.length
    if length is None:
        length = max((*config.eval.test_lengths, config.data.max_length))
    diagnosis = analyse_failures(model, config, length, args.second)
    where = f"length {length}"
    if args.second is not None:
        where += f" and {config.task.size_names[1]} {args.second}"
    print(f"{args.checkpoint.name}: {task_name(config.task)} at {where}")
    print("\n".join([*format_diagnosis(diagnosis), *describe_levels(model, config)]))
    return 0


def format_solution(solution: Solution, task: Task) -> str:
    """The answer as people read it: numbers with the ones digit last. Of a wrong one the first
    wrong symbol in the order in which the model writes, marked under the truth.
    """
    kind, backwards = _form(task)
    join = task.separator.join
    answer, truth = (
        join(reversed(symbols) if backwards else symbols)
        for symbols in (solution.response, solution.truth)
    )
    said = f"{solution.query} = {answer}"
    if solution.is_correct:
        return said
    pairs = zip(solution.response, solution.truth, strict=False)
    same = next((i for i, (a, b) in enumerate(pairs) if a != b), len(solution.response))
    if same == len(solution.truth):
        return f"{said}: wrong, all digits are right but it does not stop after the last one"
    order = ", as the model writes them (ones digit first)" if backwards else ""
    stops = ", where it stops too early" if same == len(solution.response) else ""
    ahead = len(task.separator) * same + sum(map(len, solution.truth[:same]))
    mark = len(truth) - 1 - ahead if backwards else ahead
    first = max(0, mark - WINDOW // 2) if len(truth) > WINDOW else 0
    cut = "..." if first else "", "..." if first + WINDOW < len(truth) else ""
    shown = f"{cut[0]}{truth[first : first + WINDOW]}{cut[1]}"
    return (
        f"{said}: wrong at {kind} {same + 1} of {len(solution.truth)}{stops}{order}\n"
        f"  truth {shown}\n        {' ' * (len(cut[0]) + mark - first)}^"
    )


def _form(task: Task) -> tuple[str, bool]:
    """What a response consists of, and whether it is a number whose ones digit comes first."""
    if not isinstance(task, (Addition, Multiplication)) or task.scratchpad:
        return "symbol", False
    backwards = isinstance(task, Multiplication) or (task.reverse_response and not task.index_hints)
    return "digit", backwards


def _check_trained(config: TrialConfig, query: str) -> None:
    """Raise ValueError for a number of operands, say, that the model was neither trained nor tested
    with.
    """
    data, task = config.data, config.task
    asked, trained = (
        set(t.trained_seconds(data.min_length, data.max_length) or ())
        for t in (task.for_query(query), task)
    )
    if other := asked - trained - set(config.eval.second_lengths):
        numbers = ", ".join(map(str, sorted(trained)))
        raise ValueError(
            f"{query!r} has {task.size_names[1]} = {max(other)}, "
            f"the model was trained with {numbers}"
        )


def format_diagnosis(diagnosis: Diagnosis) -> Iterator[str]:
    """Lines: the kinds of failure, then their causes in words."""
    d = diagnosis
    num_right = d.num_examples - d.num_failed
    yield (
        f"exact match {percent(num_right / d.num_examples)} ({num_right} of {d.num_examples}); "
        f"{d.num_missed_stop} do not stop, {d.num_early_stop} stop too early, "
        f"{d.num_wrong_symbol} write a wrong symbol"
    )
    if d.num_failed_elsewhere is not None:
        share = percent(1 - d.num_failed_elsewhere / d.num_examples)
        yield f"exact match {share} on the same examples at starts drawn as in training"
    causes, failed = name_causes(diagnosis), max(d.num_failed, d.num_failed_elsewhere or 0)
    yield ""
    if not failed:
        yield "nothing failed"
    elif failed < LEAST_FAILURES:
        yield f"why: too few to tell, {failed} of {d.num_examples} failed"
    else:
        yield "why:"
        yield from (f"- {cause.sentence}" for cause in causes)
        if all(cause.name in KINDS for cause in causes):
            yield (
                "- No cause was found: place, position ID and operand lengths each explain "
                f"less than {percent(LEAST)} of the variance."
            )


def describe_levels(model: Transformer, config: TrialConfig) -> Iterator[str]:
    """The learned weights of the levels of IDs, where there are any."""
    if isinstance(model.encoding, Mixture):
        names = level_names(config.task, config.position)
        weights = model.encoding.weights().detach().tolist()
        text = ", ".join(f"{name} {w:.2f}" for name, w in zip(names, weights, strict=True))
        yield f"\nweights of the levels of IDs: {text}"


def _model_parser(name: str, text: str) -> Parser:
    parser = command_parser(name, text)
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=Path)
    add_device(parser)
    parser.add_argument(
        "--trust-code", action="store_true", help="import and run user code that it names"
    )
    return parser


def _open(args: argparse.Namespace) -> tuple[Transformer, TrialConfig]:
    return open_model(args.checkpoint, choose_device(args.device), trust_code=args.trust_code)
