"""The commands of `pcore` that take a trained model: solve, attention, ablate, explain, reach."""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

import torch

from pcore.cli.inspection import run_ablation, run_attention, run_explaining, run_reaching
from pcore.cli.parser import STDIN, Parser, add_device, command_parser
from pcore.cli.screen import choose_device, run_solving

AS_EVALUATED = "as many as were evaluated"
ATTENTION_HELP = """\
Two numbers for every head: attention on the keys that Theorem 5.1 of arXiv 2405.20671 predicts.
`python -m analysis attention CHECKPOINT` draws the matrices."""
ABLATE_HELP = "The output of a part is set to zero; counts are those of evaluation."
EXPLAIN_HELP = """\
Failures by kind, place, carry, position ID, training of the ID and lengths of the operands; then
attention as sequences grow, the position table, and bf16 against fp32."""
REACH_HELP = """\
Bisection over the lengths: takes for granted that exact match does not rise with length, and tests
the visited lengths only. With --stop-error 0.05 each of them is left as soon as it is known on
which side of 95 % exact match lies, which is wrong with at most this probability."""


def solve(words: list[str]) -> int:
    """Print answers to queries next to the truth."""
    parser = _model_parser("solve", "A query of - reads queries from standard input.")
    parser.add_argument("queries", metavar="QUERY", nargs="+")
    args = parser.parse_args(words)
    queries: Iterable[str] = args.queries
    if args.queries == [STDIN]:
        queries = (line.strip() for line in sys.stdin if line.strip())
    return run_solving(args.checkpoint, queries, choose_device(args.device))


def attention(words: list[str]) -> int:
    """Print how like the construction every head is."""
    parser = _inspection_parser("attention", ATTENTION_HELP, "the longest trained one", "1000")
    parser.add_argument("--out", type=Path, help="write the averaged matrices there, as JSON")
    args, device = _parse_inspection(parser, words)
    if args.out and not args.out.parent.is_dir():
        raise ValueError(f"there is no folder {args.out.parent} for {args.out.name}")
    return run_attention(args.checkpoint, args.length, args.examples, args.out, device)


def ablate(words: list[str]) -> int:
    """Print exact match without each head, sublayer and layer."""
    parser = _inspection_parser("ablate", ABLATE_HELP, "the longest trained one", AS_EVALUATED)
    args, device = _parse_inspection(parser, words)
    return run_ablation(args.checkpoint, args.length, args.examples, device)


def explain(words: list[str]) -> int:
    """Print why the model fails."""
    parser = _inspection_parser("explain", EXPLAIN_HELP, "the longest tested one", AS_EVALUATED)
    args, device = _parse_inspection(parser, words)
    return run_explaining(args.checkpoint, args.length, args.examples, device)


def reach(words: list[str]) -> int:
    """Print the longest solved length."""
    parser = _model_parser("reach", REACH_HELP)
    parser.add_argument("--lengths", help="e.g. 5-200:5 (default: all that it was evaluated at)")
    parser.add_argument("--examples", type=int, help="per length (default: as were evaluated)")
    parser.add_argument("--stop-error", type=float, default=0.0, help="default 0: all examples")
    args = parser.parse_args(words)
    device = choose_device(args.device)
    return run_reaching(args.checkpoint, args.lengths, args.examples, args.stop_error, device)


def _model_parser(name: str, text: str) -> Parser:
    parser = command_parser(name, text)
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=Path)
    add_device(parser)
    return parser


def _inspection_parser(name: str, text: str, length: str, examples: str) -> Parser:
    parser = _model_parser(name, text)
    parser.add_argument("--length", type=int, help=f"default: {length}")
    parser.add_argument("--examples", type=int, help=f"test examples (default: {examples})")
    return parser


def _parse_inspection(parser: Parser, words: list[str]) -> tuple[argparse.Namespace, torch.device]:
    args = parser.parse_args(words)
    for flag in ("length", "examples"):
        if (value := getattr(args, flag)) is not None and value < 1:
            raise ValueError(f"--{flag} {value} is below 1")
    return args, choose_device(args.device)
