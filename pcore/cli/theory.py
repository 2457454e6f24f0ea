"""`pcore construct` and `pcore ceiling`: the papers' theorems, checked."""

import time
from collections.abc import Iterator

import torch

from pcore.cli.models import choose_device
from pcore.cli.parser import add_device, command_parser
from pcore.cli.screen import format_time
from pcore.registry import nearest
from pcore.theory import ceilings
from pcore.theory.ceilings import count_ceiling
from pcore.theory.exactness import (
    CONSTRUCTIONS,
    MIN_BITS,
    Construction,
    Score,
    addition_with_scratchpad,
    check_hard,
    check_random,
    exact_lengths,
)

MAX_DIGITS = 4000  # Python prints no larger number unless it is told to
MAX_OPERANDS = 1000
MAX_BITS = 12
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
    parser.add_argument("--examples", type=int, help="random examples (default 100)")
    parser.add_argument("--bits", type=int, help="P, bits of a position vector (default: least)")
    parser.add_argument("--dtype", help="float32 (default), float64, float16 or bfloat16")
    add_device(parser)
    parser.add_argument("--limits", action="store_true", help="table of limits by P and dtype")
    parser.add_argument("--max-bits", type=int, help="largest P of the table (default 10)")
    args = parser.parse_args(words)
    limits, check = ("max_bits",), ("digits", "bits", "dtype")
    for option in check if args.limits else limits:
        if getattr(args, option) is not None:
            flag = f"--{option.replace('_', '-')}"
            raise ValueError(f"{flag} {'does not go with' if args.limits else 'needs'} --limits")
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


def ceiling(words: list[str]) -> int:
    """Print the ceilings of Proposition 5.2."""
    parser = command_parser("ceiling", "5 digits take some ten seconds, fewer none.")
    parser.add_argument("--digits", type=int, default=5, help="up to how many (default 5)")
    return run_ceilings(parser.parse_args(words).digits)


def find_construction(name: str, num_operands: int | None = None) -> Construction:
    """The construction of that name; only that with a scratchpad has numbers of operands.

    Raises ValueError with the nearest name.
    """
    if name not in CONSTRUCTIONS:
        raise ValueError(f"no construction for {name!r}.{nearest(name, CONSTRUCTIONS)}")
    if num_operands is None:
        return CONSTRUCTIONS[name]
    if name != "scratchpad":
        raise ValueError(f"--operands {num_operands} goes with scratchpad, not with {name}")
    _check_range("--operands", num_operands, 2, MAX_OPERANDS)
    return addition_with_scratchpad(num_operands)


def find_dtype(name: str) -> torch.dtype:
    """Raises ValueError with the nearest name."""
    if name not in DTYPES:
        raise ValueError(f"unknown dtype {name!r}.{nearest(name, DTYPES)}")
    return DTYPES[name]


def run_construct(
    construction: Construction,
    num_digits: int,
    num_examples: int,
    *,
    num_bits: int | None = None,
    dtype: str = "float32",
    device: torch.device,
) -> int:
    """Build the model for a length and check it; the exit code."""
    kind = find_dtype(dtype)
    _check_range("--digits", num_digits, 1, MAX_DIGITS)
    _check_range("--examples", num_examples, 0, None)
    least = construction.least_bits(num_digits)
    if num_bits is not None and num_bits < least:
        raise ValueError(f"--bits {num_bits} is below {least}, which {num_digits} digits need")
    bits = num_bits or least
    _check_range("--bits", bits, MIN_BITS, MAX_BITS)
    begin = time.monotonic()
    model = construction.make(bits).to(device=device, dtype=kind)
    d_model = model.embedding.shape[1]
    print(f"{construction.claim}; weights by hand, no training")
    print(
        f"P = {bits}, d = {d_model}, {model.num_parameters:,} parameters, "
        f"built for up to {construction.max_digits(bits):,} digits; {dtype} on {device}"
    )
    hard = check_hard(model, construction, num_digits)
    print(_format_score(hard, f"hardest cases of {num_digits:,} digits"), flush=True)
    random = check_random(model, construction.task, num_digits, num_examples)
    print(_format_score(random, f"random examples of {num_digits:,} digits"))
    print(
        f"smallest lead of a right token over the others: {(hard + random).margin:.3g}; "
        f"{format_time(time.monotonic() - begin)}"
    )
    return 0 if hard.exact and random.exact else 1


def run_limits(construction: Construction, max_bits: int, num_examples: int) -> int:
    """For every P and dtype the largest exact length; exit code 0 if float32 keeps the bound."""
    _check_range("--max-bits", max_bits, first := construction.least_bits(1), MAX_BITS)
    _check_range("--examples", num_examples, 0, None)
    print(f"{construction.claim}: largest exact length")
    print(" P    d  parameters  bound" + "".join(f"  {dtype:>8}" for dtype in DTYPES))
    keeps = True
    for bits in range(first, max_bits + 1):
        model, bound = construction.make(bits), construction.max_digits(bits)
        line = f"{bits:>2}  {model.embedding.shape[1]:>3}  {model.num_parameters:>10,}  {bound:>5}"
        print(line, end="", flush=True)
        for dtype in DTYPES:
            reached = largest_exact(exact_lengths(construction, bits, DTYPES[dtype], num_examples))
            print(f"  {reached:>8}", end="", flush=True)
            keeps = keeps and (dtype not in ("float32", "float64") or reached >= bound)
        print()
    cases = f"the hardest cases and {num_examples} random ones per length"
    print(f"({cases}; lengths 1-8, then by a quarter, the bound and one beyond it)")
    return 0 if keeps else 1


def largest_exact(lengths: Iterator[tuple[int, Score]]) -> int:
    """The last length before the first failure; 0 if there is none."""
    return max((length for length, score in lengths if score.exact), default=0)


def run_ceilings(max_digits: int) -> int:
    """Print the ceilings of one layer without positions."""
    _check_range("--digits", max_digits, 1, ceilings.MAX_DIGITS)
    print(
        "Proposition 5.2 of arXiv 2405.20671: exact match of any 1-layer decoder without positions"
    )
    print("digits        at most right of all pairs")
    for num_digits in range(1, max_digits + 1):
        ceiling = count_ceiling(num_digits)
        share = f"{100 * ceiling.share:.3f} %"
        counts = f"{ceiling.num_right:,} of {ceiling.num_pairs:,}"
        print(f"{num_digits:>6}  {share:>11}  {counts}", flush=True)
    return 0


def _format_score(score: Score, what: str) -> str:
    verdict = "all right" if score.exact else "WRONG"
    return f"{score.num_right:,} of {score.num_examples:,} {what}: {verdict}"


def _check_range(flag: str, value: int, low: int, high: int | None) -> None:
    if value < low:
        raise ValueError(f"{flag} {value} is below {low}")
    if high is not None and value > high:
        raise ValueError(f"{flag} {value:,} is above {high:,}, the most that can be checked here")
