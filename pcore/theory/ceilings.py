"""Upper bounds for one layer without positions on addition: Proposition 5.2, by counting.

Source: Cho et al., Position Coupling (arXiv 2405.20671), Proposition 5.2. A decoder of depth 1
without positional signal predicts the same next token for two inputs that are permutations of each
other and end in the same token. So greedy decoding has one answer for all pairs of operands with
the same multiset of digits: at best the commonest sum among them. For two operands of exactly m
digits, leading digits 1-9 (of one digit too: 81 pairs at m = 1, as published), the ceiling is the
number of pairs that this answer fits.
"""

from fractions import Fraction
from functools import cache

import numpy as np

MAX_DIGITS = 4  # already 81 million pairs


@cache
def count_ceiling(num_digits: int) -> Fraction:
    """The share of the pairs of operands of `num_digits` digits each that can be added rightly."""
    if not 1 <= num_digits <= MAX_DIGITS:
        raise ValueError(f"num_digits={num_digits} is not between 1 and {MAX_DIGITS}")
    operands = np.arange(10 ** (num_digits - 1), 10**num_digits)
    digits = operands[:, None] // 10 ** np.arange(num_digits) % 10
    num_sums = 2 * 10**num_digits
    # Multiset and sum of a pair as one number, of which those of its operands add up.
    code = (2 * num_digits + 1) ** digits.clip(1) * (digits > 0)
    keys = code.sum(axis=1) * num_sums + operands
    unordered = np.concatenate([key + keys[i:] for i, key in enumerate(keys)])
    pairs, counts = np.unique(unordered, return_counts=True)
    same = np.searchsorted(pairs, 2 * keys)
    counts = 2 * counts
    np.subtract.at(counts, same, 1)  # a pair of equal operands has no mirror image
    starts = np.flatnonzero(np.diff(pairs // num_sums, prepend=-1))
    return Fraction(int(np.maximum.reduceat(counts, starts).sum()), len(operands) ** 2)
