"""`pcore construct` and `pcore ceiling`: the papers' theorems, checked."""

from pcore.cli.parser import add_device, command_parser
from pcore.console import choose_device
from pcore.theory.console import find_construction, run_ceilings, run_construct, run_limits

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
