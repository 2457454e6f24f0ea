"""The commands of `pcore` that take a trained model: solve, attention, explain."""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from pcore.cli.inspection import describe_levels, format_attention, format_diagnosis
from pcore.cli.models import check_trial, choose_device, open_model
from pcore.cli.parser import STDIN, Parser, add_device, command_parser
from pcore.cli.screen import format_solution
from pcore.config import TrialConfig
from pcore.diagnosis.attention import average_attention
from pcore.diagnosis.failures import analyse_failures
from pcore.diagnosis.probes import count_verdict_changes
from pcore.evaluation.generate import solve as solve_query
from pcore.evaluation.predict import with_examples
from pcore.model.transformer import Transformer
from pcore.training.validate import task_name

AS_EVALUATED = "as in evaluation"
ATTENTION_HELP = """\
Two numbers for every head: attention on the keys that Theorem 5.1 of arXiv 2405.20671 predicts.
`python -m analysis attention CHECKPOINT` draws the matrices."""
EXPLAIN_HELP = """\
Failures by kind, and what explains them: position in the response, carry, position ID, training
of the ID, operand lengths; then weights of the levels of IDs, and bf16 against fp32."""


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


def explain(words: list[str]) -> int:
    """Print why the model fails at a length."""
    parser = _model_parser("explain", EXPLAIN_HELP, "the longest tested length", AS_EVALUATED)
    args = parser.parse_args(words)
    model, config = _open(args)
    length = args.length or max((*config.eval.test_lengths, config.data.max_length))
    diagnosis = analyse_failures(model, config, length)
    print(f"{args.checkpoint.name}: {task_name(config.task)} at length {length}")
    print("\n".join([*format_diagnosis(diagnosis), "", *describe_levels(model, config)]))
    lost, won = count_verdict_changes(model, config, length)
    print(
        f"precision: bf16 autocast changes the verdict of {lost + won} of {diagnosis.num_examples} "
        f"examples at length {length} ({lost} right in fp32 only, {won} in bf16 only)"
    )
    return 0


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
