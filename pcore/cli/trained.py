"""The commands of `pcore` that take a trained model: solve, attention, ablate, explain, reach."""

import argparse
import dataclasses
import sys
from bisect import bisect_left
from collections.abc import Iterable
from pathlib import Path

from pcore.cli.inspection import describe_ids, format_attention, format_diagnosis
from pcore.cli.models import check_trial, choose_device, open_model
from pcore.cli.parser import STDIN, Parser, add_device, command_parser
from pcore.cli.screen import format_share, format_solution
from pcore.config import TrialConfig, coerce
from pcore.diagnosis.ablation import ablate as ablate_model
from pcore.diagnosis.attention import average_attention
from pcore.diagnosis.failures import analyse_failures
from pcore.diagnosis.probes import count_verdict_changes
from pcore.evaluation.evaluate import evaluate_length
from pcore.evaluation.generate import solve as solve_query
from pcore.evaluation.judge import Counts
from pcore.evaluation.predict import with_examples
from pcore.evaluation.stopping import SOLVED
from pcore.evaluation.test_sets import evaluation_lengths, make_test_set
from pcore.model.transformer import Transformer
from pcore.training.validate import check_test_length, task_name

AS_EVALUATED = "as in evaluation"
ATTENTION_HELP = """\
Two numbers for every head: attention on the keys that Theorem 5.1 of arXiv 2405.20671 predicts.
`python -m analysis attention CHECKPOINT` draws the matrices."""
ABLATE_HELP = "The output of each component is set to zero in turn; counts are as in evaluation."
EXPLAIN_HELP = """\
Failures by kind, position in the response, carry, position ID, training of the ID and operand
lengths; then weights of the levels of IDs, IDs that were rarely trained, and bf16 against fp32."""
REACH_HELP = """\
Bisection over the lengths: assumes that exact match does not rise with length, and tests only the
lengths visited. With --stop-error 0.05 each test ends as soon as it is clear on which side of 95 %
exact match lies; the decision is wrong with at most this probability."""


def solve(words: list[str]) -> int:
    """Print answers to queries next to the truth."""
    parser = _model_parser("solve", "A query of - reads queries from standard input.")
    parser.add_argument("queries", metavar="QUERY", nargs="+")
    args = parser.parse_args(words)
    queries: Iterable[str] = args.queries
    if args.queries == [STDIN]:
        queries = (line.strip() for line in sys.stdin if line.strip())
    model, config = _open(args)
    right: list[bool] = []
    for query in queries:
        solution = solve_query(model, config, query)
        print(format_solution(solution), flush=True)
        right.append(solution.is_correct)
    if len(right) > 1:
        print(f"{sum(right)} of {len(right)} right")
    return 0


def attention(words: list[str]) -> int:
    """Print how closely every head matches the construction."""
    parser = _model_parser("attention", ATTENTION_HELP, "the longest trained length", "1000")
    args = parser.parse_args(words)
    args.examples = 1000 if args.examples is None else args.examples
    model, config = _open(args)
    length = args.length or config.data.max_length
    averaged = average_attention(model, config, length, args.examples)
    print(format_attention(averaged, f"{args.checkpoint.name}, {task_name(config.task)}"))
    return 0


def ablate(words: list[str]) -> int:
    """Print exact match without each head, sublayer and layer."""
    parser = _model_parser("ablate", ABLATE_HELP, "the longest trained length", AS_EVALUATED)
    args = parser.parse_args(words)
    model, config = _open(args)
    length = args.length or config.data.max_length
    check_test_length(config, length)
    batch = make_test_set(config, length, config.task.default_second(length))
    print(f"{args.checkpoint.name}: exact match of {task_name(config.task)} at length {length}")
    for ablation in ablate_model(model, batch, config):
        share, _ = _format_counts(ablation.counts)
        tokens, _ = format_share(ablation.counts.num_correct_tokens, ablation.counts.num_tokens)
        print(f"  {ablation.name:<30}  {share:>7}   token accuracy {tokens:>7}", flush=True)
    return 0


def explain(words: list[str]) -> int:
    """Print why the model fails at a length."""
    parser = _model_parser("explain", EXPLAIN_HELP, "the longest tested length", AS_EVALUATED)
    args = parser.parse_args(words)
    model, config = _open(args)
    length = args.length or max((*config.eval.test_lengths, config.data.max_length))
    diagnosis = analyse_failures(model, config, length)
    print(f"{args.checkpoint.name}: {task_name(config.task)} at length {length}")
    print("\n".join([*format_diagnosis(diagnosis), "", *describe_ids(model, config)]))
    lost, won = count_verdict_changes(model, config, length)
    print(
        f"precision: bf16 autocast changes the verdict of {lost + won} of {diagnosis.num_examples} "
        f"examples at length {length} ({lost} right in fp32 only, {won} in bf16 only)"
    )
    return 0


def reach(words: list[str]) -> int:
    """Print the longest length with exact match above 95 %, found by bisection."""
    parser = _model_parser("reach", REACH_HELP)
    parser.add_argument("--lengths", help="e.g. 5-200:5 (default: all evaluated lengths)")
    parser.add_argument("--examples", type=int, help="per length (default: as in evaluation)")
    parser.add_argument("--stop-error", type=float, default=0.0, help="default: 0, all examples")
    args = parser.parse_args(words)
    if not 0 <= args.stop_error < 1:
        raise ValueError(f"--stop-error {args.stop_error} must be at least 0 and below 1")
    model, config = _open(args)
    evaluation = dataclasses.replace(config.eval, stop_error=args.stop_error)
    config = dataclasses.replace(config, eval=evaluation)
    lengths = {n for values in evaluation_lengths(config).values() for n in values}
    if args.lengths is not None:
        lengths = set(coerce(args.lengths, tuple[int, ...], "--lengths"))
    longest, visited = find_longest(model, config, sorted(lengths))
    print(f"{args.checkpoint.name}: {task_name(config.task)}")
    for length, counts in sorted(visited.items()):
        share, of = _format_counts(counts)
        print(f"  length {length:>4}  exact match {share:>7}  {of:>15}")
    bound = "at least " if longest == max(lengths) else ""
    print(
        f"L95: {bound}{longest}, from {len(visited)} of {len(lengths)} lengths, if exact match "
        "does not rise with length"
    )
    return 0


def find_longest(
    model: Transformer, config: TrialConfig, lengths: list[int]
) -> tuple[int, dict[int, Counts]]:
    """The longest of these ascending lengths that is solved (0 = none), and the visited ones'
    counts.

    Assumes that exact match does not rise with length. Raises ValueError if the model cannot be
    tested at a length.
    """
    if not lengths:
        raise ValueError("--lengths names no length")
    for length in lengths:
        check_test_length(config, length)
    visited: dict[int, Counts] = {}

    def fails(length: int) -> bool:
        second = config.task.default_second(length)
        counts = evaluate_length(model, config, "", 0, "test", length, second).counts
        visited[length] = counts
        return counts.num_correct <= SOLVED * counts.num_examples

    if not fails(lengths[-1]):
        return lengths[-1], visited
    num_solved = bisect_left(lengths[:-1], True, key=fails)
    return lengths[num_solved - 1] if num_solved else 0, visited


def _model_parser(name: str, text: str, length: str = "", examples: str = "") -> Parser:
    """length, examples: what the options of that name default to; "" = there are none."""
    parser = command_parser(name, text)
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=Path)
    add_device(parser)
    parser.add_argument(
        "--trust-code", action="store_true", help="import and run user code that it names"
    )
    if length:
        parser.add_argument("--length", type=int, help=f"default: {length}")
        parser.add_argument("--examples", type=int, help=f"test examples (default: {examples})")
    return parser


def _open(args: argparse.Namespace) -> tuple[Transformer, TrialConfig]:
    """The model that the arguments name, with as many test examples as they say."""
    length, examples = getattr(args, "length", None), getattr(args, "examples", None)
    for flag, value in {"length": length, "examples": examples}.items():
        if value is not None and value < 1:
            raise ValueError(f"--{flag} {value} is below 1")
    device = choose_device(args.device)
    model, config = open_model(args.checkpoint, device, trust_code=args.trust_code)
    config = with_examples(config, examples)
    check_trial(config, training=False)
    return model, config


def _format_counts(counts: Counts) -> list[str]:
    return format_share(counts.num_correct, counts.num_examples)
