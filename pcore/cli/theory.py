"""`pcore construct` and `pcore ceiling`: the papers' theorems, checked."""

import argparse
import math
import time

import torch

from pcore.cli.models import choose_device
from pcore.cli.parser import add_device, command_parser
from pcore.cli.text import format_seconds
from pcore.encodings.embeddings import check_moduli
from pcore.registry import nearest
from pcore.theory import ceilings
from pcore.theory.addition import max_digits_with_rings
from pcore.theory.exactness import (
    CONSTRUCTIONS,
    Construction,
    Score,
    addition_with_rings,
    addition_with_scratchpad,
    check_hard,
    check_random,
    exact_lengths,
)

MAX_DIGITS = 4000  # Python prints no larger number unless it is told to
MAX_OPERANDS = 1000
MAX_BITS = 12
MAX_IDS = 100_000
DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}
CONSTRUCT_HELP = """\
The weights of the papers' theorems, written by hand, run as an ordinary Transformer over the
hardest cases and over random ones. The exit code is 0 only if every token is right."""


def construct(words: list[str]) -> int:
    """Print whether a construction is exact, or its limits."""
    parser = command_parser("construct", CONSTRUCT_HELP)
    parser.add_argument("name", metavar="NAME", help="addition, multiplication or scratchpad")
    parser.add_argument("--digits", type=int, help="length to check (default 100)")
    parser.add_argument("--operands", type=int, help="of the scratchpad (default 3)")
    parser.add_argument("--moduli", help="of residue rings instead of signs, as 5,7,9 (addition)")
    parser.add_argument("--examples", type=int, help="random ones (default 100, --limits: 10)")
    parser.add_argument("--dtype", help="float32 (default), float64, float16 or bfloat16")
    add_device(parser)
    parser.add_argument("--limits", action="store_true", help="table of limits by P and dtype")
    parser.add_argument("--max-bits", type=int, help="largest P of the table (default 10)")
    args = parser.parse_args(words)
    for option in ("digits", "dtype", "moduli") if args.limits else ("max_bits",):
        if getattr(args, option) is not None:
            flag = f"--{option.replace('_', '-')}"
            raise ValueError(f"{flag} {'does not go with' if args.limits else 'needs'} --limits")
    construction = _find_construction(args.name, args.operands)
    if args.moduli is not None:
        construction = _find_rings(args)
    if args.examples is None:
        args.examples = 10 if args.limits else 100
    _check_range("--examples", args.examples, 0, None)
    run = _run_limits if args.limits else _run_check
    return run(construction, args)


def ceiling(words: list[str]) -> int:
    """Print the upper bounds of Proposition 5.2: one layer without positions."""
    parser = command_parser("ceiling", "5 digits take about ten seconds, fewer are instant.")
    parser.add_argument(
        "--digits", type=int, default=5, help="largest number of digits (default: 5)"
    )
    max_digits = parser.parse_args(words).digits
    _check_range("--digits", max_digits, 1, ceilings.MAX_DIGITS)
    print(
        "Proposition 5.2 of arXiv 2405.20671: exact match of any 1-layer decoder without positions"
    )
    print("digits   max. right  of all pairs")
    for num_digits in range(1, max_digits + 1):
        bound = ceilings.count_ceiling(num_digits)
        counts = f"{bound.num_right:,} of {bound.num_pairs:,}"
        print(f"{num_digits:>6}  {100 * bound.share:>9.3f} %  {counts}", flush=True)
    return 0


def _find_construction(name: str, num_operands: int | None) -> Construction:
    """Only the construction with a scratchpad has numbers of operands."""
    if name not in CONSTRUCTIONS:
        raise ValueError(f"no construction for {name!r}.{nearest(name, CONSTRUCTIONS)}")
    if num_operands is None:
        return CONSTRUCTIONS[name]
    if name != "scratchpad":
        raise ValueError(f"--operands {num_operands} works only with scratchpad, not with {name}")
    _check_range("--operands", num_operands, 2, MAX_OPERANDS)
    return addition_with_scratchpad(num_operands)


def _find_rings(args: argparse.Namespace) -> Construction:
    """Of --moduli, which a length needs to be large enough."""
    if args.name != "addition":
        raise ValueError(f"--moduli {args.moduli} works only with addition, not with {args.name}")
    moduli = parse_moduli(args.moduli)
    most, wanted = max_digits_with_rings(moduli), 100 if args.digits is None else args.digits
    if wanted > most:
        raise ValueError(f"--moduli {args.moduli} adds up to {most:,} digits, not {wanted:,}")
    return addition_with_rings(moduli)


def parse_moduli(text: str) -> tuple[int, ...]:
    """Pairwise coprime numbers above 1. Raises ValueError."""
    try:
        moduli = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--moduli {text!r} is not numbers like 5,7,9") from None
    check_moduli(moduli, "--moduli")
    if math.prod(moduli) > MAX_IDS:
        raise ValueError(f"--moduli {text} distinguishes more than {MAX_IDS:,} IDs")
    return moduli


def _run_check(construction: Construction, args: argparse.Namespace) -> int:
    """Build the model for a length and check it; exit code 0 if it is exact."""
    dtype = args.dtype or "float32"
    if dtype not in DTYPES:
        raise ValueError(f"unknown dtype {dtype!r}.{nearest(dtype, DTYPES)}")
    num_digits = 100 if args.digits is None else args.digits
    _check_range("--digits", num_digits, 1, MAX_DIGITS)
    bits = construction.least_bits(num_digits)
    device, begin = choose_device(args.device), time.monotonic()
    positions = f"P = {bits}" if args.moduli is None else f"moduli {args.moduli}"
    model = construction.make(bits).to(device=device, dtype=DTYPES[dtype])
    print(f"{construction.claim}; hand-written weights, no training")
    print(
        f"{positions}, d = {model.embedding.shape[1]}, {model.num_parameters:,} parameters, "
        f"built for up to {construction.max_digits(bits):,} digits; {dtype} on {device}"
    )
    hard = check_hard(model, construction, num_digits)
    print(_format_score(hard, f"hardest cases of {num_digits:,} digits"), flush=True)
    random = check_random(model, construction.task, num_digits, args.examples)
    print(_format_score(random, f"random examples of {num_digits:,} digits"))
    print(
        f"smallest lead of a right token over the others: {(hard + random).margin:.3g}; "
        f"{format_seconds(time.monotonic() - begin)}"
    )
    return 0 if hard.exact and random.exact else 1


def _run_limits(construction: Construction, args: argparse.Namespace) -> int:
    """For every P and dtype the largest exact length; exit code 0 if float32 keeps the bound."""
    max_bits = 10 if args.max_bits is None else args.max_bits
    _check_range("--max-bits", max_bits, first := construction.least_bits(1), MAX_BITS)
    print(f"{construction.claim}: largest exact length")
    print(" P    d  parameters  bound" + "".join(f"  {dtype:>8}" for dtype in DTYPES))
    keeps = True
    for bits in range(first, max_bits + 1):
        model, bound = construction.make(bits), construction.max_digits(bits)
        line = f"{bits:>2}  {model.embedding.shape[1]:>3}  {model.num_parameters:>10,}  {bound:>5}"
        print(line, end="", flush=True)
        for name, dtype in DTYPES.items():
            scores = exact_lengths(construction, bits, dtype, args.examples)
            reached = max((length for length, score in scores if score.exact), default=0)
            print(f"  {reached:>8}", end="", flush=True)
            keeps = keeps and (name not in ("float32", "float64") or reached >= bound)
        print()
    cases = f"the hardest cases and {args.examples} random ones per length"
    print(f"({cases}; lengths 1-8, then growing by a quarter, the bound and one beyond)")
    return 0 if keeps else 1


def _format_score(score: Score, what: str) -> str:
    verdict = "all right" if score.exact else "WRONG"
    return f"{score.num_right:,} of {score.num_examples:,} {what}: {verdict}"


def _check_range(flag: str, value: int, low: int, high: int | None) -> None:
    if value < low:
        raise ValueError(f"{flag} {value} is below {low}")
    if high is not None and value > high:
        raise ValueError(f"{flag} {value:,} is above {high:,}, the most that can be checked here")
