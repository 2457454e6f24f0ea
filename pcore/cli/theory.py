"""`pcore construct`: the papers' theorems, checked."""

import argparse
import math
import time

import torch
from torch import Tensor

from pcore.cli.models import choose_device
from pcore.cli.parser import FAILED, add_device, check_range, command_parser
from pcore.cli.text import format_seconds
from pcore.config import coerce
from pcore.encodings.embeddings import check_moduli
from pcore.registry import nearest
from pcore.theory.exactness import (
    CONSTRUCTIONS,
    Construction,
    addition_with_rings,
    check_hard,
    check_random,
)

MAX_DIGITS = 4000  # Python prints no larger number unless it is told to
MAX_IDS = 100_000
CONSTRUCT_HELP = """\
The weights of the papers' theorems, written by hand, run as an ordinary Transformer over the
hardest cases and over random ones. The exit code is 0 only if every token is right."""


def construct(words: list[str]) -> int:
    """Build the model of a theorem for a length and check it; exit code 0 if it is exact."""
    parser = command_parser("construct", CONSTRUCT_HELP)
    parser.add_argument("name", metavar="NAME", help="addition or multiplication")
    parser.add_argument("--digits", type=int, default=100, help="length to check (default 100)")
    parser.add_argument("--moduli", help="of residue rings instead of signs, as 5,7,9 (addition)")
    parser.add_argument("--examples", type=int, default=100, help="random ones (default 100)")
    add_device(parser)
    args = parser.parse_args(words)
    check_range("--examples", args.examples, 0, None)
    check_range("--digits", args.digits, 1, MAX_DIGITS)
    construction, device = _find_construction(args), choose_device(args.device)
    bits, begin = construction.least_bits(args.digits), time.monotonic()
    model = construction.make(bits).float().to(device)
    positions = f"P = {bits}" if args.moduli is None else f"moduli {args.moduli}"
    print(f"{construction.claim}; hand-written weights, no training")
    print(
        f"{positions}, d = {model.embedding.shape[1]}, {model.num_parameters:,} parameters, "
        f"built for up to {construction.max_digits(bits):,} digits; float32 on {device}"
    )
    hard = check_hard(model, construction, args.digits)
    print(_format(hard, f"hardest cases of {args.digits:,} digits"), flush=True)
    random = check_random(model, construction.task, args.digits, args.examples)
    print(_format(random, f"random examples of {args.digits:,} digits"))
    least = float(torch.cat([hard, random]).min())
    print(
        f"smallest lead of a right token over the others: {least:.3g}; "
        f"{format_seconds(time.monotonic() - begin)}"
    )
    return 0 if least > 0 else FAILED


def _find_construction(args: argparse.Namespace) -> Construction:
    """Only addition has rings."""
    name = args.name
    if name not in CONSTRUCTIONS:
        raise ValueError(f"no construction for {name!r}.{nearest(name, CONSTRUCTIONS)}")
    if args.moduli is None:
        return CONSTRUCTIONS[name]
    if name != "addition":
        raise ValueError(f"--moduli {args.moduli} works only with addition, not with {name}")
    moduli = coerce(args.moduli, tuple[int, ...], "--moduli")
    if not moduli:
        raise ValueError("--moduli needs a value, such as 5,7,9")
    check_moduli(moduli, "--moduli")
    if math.prod(moduli) > MAX_IDS:
        raise ValueError(f"--moduli {args.moduli} distinguishes more than {MAX_IDS:,} IDs")
    construction = addition_with_rings(moduli)
    if args.digits > (most := construction.max_digits(0)):
        raise ValueError(f"--moduli {args.moduli} adds up to {most:,} digits, not {args.digits:,}")
    return construction


def _format(leads: Tensor, what: str) -> str:
    num_right = int((leads > 0).sum())
    verdict = "all right" if num_right == len(leads) else "WRONG"
    return f"{num_right:,} of {len(leads):,} {what}: {verdict}"
