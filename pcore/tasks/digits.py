"""Numbers as tensors of digits, ones digit first: drawn at random, added, read from text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcore import lazy_torch as torch
from pcore.vocab import DIGITS

if TYPE_CHECKING:
    from jaxtyping import Bool, Int, Integer, UInt8
    from torch import Tensor


def draw_integers(low: int, high: int, shape: tuple[int, ...], rng: torch.Generator) -> Tensor:
    """Uniform int64 in [low, high], both ends included, on the device of `rng`."""
    return torch.randint(low, high + 1, shape, generator=rng, device=rng.device)


def draw_small_integers(
    low: int, high: int, shape: tuple[int, ...], rng: torch.Generator
) -> Tensor:
    """Uniform uint8 in [low, high], both ends included, on the device of `rng`.

    torch takes at least 32 random bits modulo the range, so the probability of a value is within
    2^-32 < 1e-9 of the uniform one.
    """
    return torch.randint(low, high + 1, shape, generator=rng, device=rng.device, dtype=torch.uint8)


def draw_numbers(
    num_digits: Int[Tensor, "B M"], width: int, rng: torch.Generator
) -> UInt8[Tensor, "B M W"]:
    """Uniform numbers of exactly these digit counts, ones digit at index 0.

    The leading digit is 1-9; one-digit numbers are 0-9; zero digits give the number 0.
    """
    batch, count = num_digits.shape
    digits = draw_small_integers(0, 9, (batch, count, width), rng)
    leading = draw_small_integers(1, 9, (batch, count, 1), rng)
    last = (num_digits - 1).clamp(min=0).unsqueeze(2)
    digits.scatter_(2, last, torch.where(last > 0, leading, digits[:, :, :1]))
    return digits * index_mask(num_digits, width)


def index_mask(sizes: Int[Tensor, "*B"], width: int) -> Bool[Tensor, "*B W"]:
    """True at the indices below each size."""
    indices = torch.arange(width, dtype=torch.int16, device=sizes.device)
    return indices < sizes.to(torch.int16).unsqueeze(-1)


def carry_digits(columns: Integer[Tensor, "W *B"]) -> UInt8[Tensor, "W *B"]:
    """Decimal digits of the numbers sum_k columns[k] 10^k, ones digit first; W must hold them.

    The digits are the first axis so that every step of the loop runs over contiguous memory.
    """
    digits = torch.empty_like(columns, dtype=torch.uint8)
    carry = torch.zeros_like(columns[0])
    for column, digit in zip(columns, digits, strict=True):
        total = column + carry
        carry = total.div(10, rounding_mode="floor")
        digit.copy_(total.sub_(carry, alpha=10))
    return digits


def add_digits(digits: UInt8[Tensor, "B M W"]) -> UInt8[Tensor, "B W"]:
    """Decimal digits of the sum of M numbers, ones digit at index 0; W must hold the result."""
    columns = digits.sum(dim=1, dtype=torch.int32)
    return carry_digits(columns.t().contiguous()).t()


def parse_number(text: str, what: str) -> str:
    """`text` as decimal digits without leading zeros. Raises ValueError if it is anything else."""
    return parse_digits(text, what).lstrip("0") or "0"


def parse_digits(text: str, what: str, alphabet: str = DIGITS) -> str:
    """`text` itself, if it is a non-empty string over `alphabet`; raises ValueError if not."""
    if not text or not set(text) <= set(alphabet):
        known = "decimal digits" if alphabet == DIGITS else " and ".join(alphabet)
        raise ValueError(f"{what} must consist of {known}, got {text!r}")
    return text


def digit_row(text: str, width: int) -> list[int]:
    """Digits of a decimal number, ones digit first, filled with zeros to `width`."""
    return [int(d) for d in reversed(text)] + [0] * (width - len(text))
