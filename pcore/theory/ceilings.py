"""Upper bounds for one layer without positions on addition: Proposition 5.2, by counting.

Source: Cho et al., Position Coupling (arXiv 2405.20671), Proposition 5.2. A decoder of depth 1
without positional signal predicts the same next token for two inputs that are permutations of each
other and end in the same token. So greedy decoding has one answer for all pairs of operands with
the same multiset of digits: at best the commonest sum among them. For two operands of exactly m
digits, leading digits 1-9 (of one digit too: 81 pairs at m = 1, as published), the ceiling is the
number of pairs that this answer fits.

`count_by_enumeration` says that in plain words and is slow from m = 4 on. `count_by_columns` knows
that a pair of operands is m columns of two digits, that multiset and sum are both sums over
columns, and that a column and its mirror image contribute the same; it merges equal (multiset, sum)
column by column.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

import numpy as np
from jaxtyping import Int64

MAX_DIGITS = 5  # beyond, the last step of the count has tens of billions of entries
COUNT_BITS = 17  # of pairs with one multiset and one sum before the last merge: at most 2 * 8!
SUM_BITS = 18  # sums of up to five digits, twice

Entries: TypeAlias = Int64[np.ndarray, "_"]


@dataclass(frozen=True, slots=True)
class Ceiling:
    """At most `num_right` of the `num_pairs` pairs of m-digit operands are added rightly."""

    num_right: int
    num_pairs: int

    @property
    def share(self) -> float:
        return self.num_right / self.num_pairs


def count_ceiling(num_digits: int) -> Ceiling:
    """The ceiling for operands of `num_digits` digits each."""
    if not 1 <= num_digits <= MAX_DIGITS:
        raise ValueError(f"num_digits={num_digits} is not between 1 and {MAX_DIGITS}")
    return Ceiling(count_by_columns(num_digits), (9 * 10 ** (num_digits - 1)) ** 2)


def count_by_enumeration(num_digits: int) -> int:
    """The proposition word for word: group all pairs by multiset, take each one's commonest sum."""
    operands = range(10 ** (num_digits - 1), 10**num_digits)
    sums: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for a, b in product(operands, repeat=2):
        sums["".join(sorted(f"{a}{b}"))][a + b] += 1
    return sum(max(counts.values()) for counts in sums.values())


def count_by_columns(num_digits: int) -> int:
    """The same number, from the columns of the sum."""
    by_total: dict[int, Entries] = {0: np.array([1])}  # nothing yet, in one way
    for k in range(num_digits - 1):
        columns = _columns(k, lowest=0)
        by_total = {t: _merge(_added(by_total, columns, t)) for t in range(18 * (k + 1) + 1)}
    columns = _columns(num_digits - 1, lowest=1)
    totals = range(18 * num_digits + 1)
    return sum(_commonest(_merge(_added(by_total, columns, t))) for t in totals)


# An entry is one integer: multiset of digits, sum, number of pairs, from the highest bits to the
# lowest. So entries add up column by column, and sorting brings equal (multiset, sum) together.
# They are kept by the total of their digits: within one total, the numbers of the digits 2 ... 9
# determine the number of ones, and the length that of zeros, so eight numbers below 11 do.


def _columns(k: int, lowest: int) -> list[tuple[int, int, int]]:
    """(total of the digits, what the column adds to an entry, pairs) of every unordered column
    of significance k.
    """
    return [
        (
            a + b,
            ((_code(a) + _code(b)) << (SUM_BITS + COUNT_BITS)) + ((a + b) * 10**k << COUNT_BITS),
            1 if a == b else 2,
        )
        for a in range(lowest, 10)
        for b in range(a, 10)
    ]


def _code(digit: int) -> int:
    return 11 ** (digit - 2) if digit >= 2 else 0


def _added(
    by_total: dict[int, Entries], columns: list[tuple[int, int, int]], total: int
) -> Entries:
    """Every entry with every column added that together have this total of digits."""
    parts = [np.empty(0, dtype=np.int64)]
    for column_total, key, num_pairs in columns:
        entries = by_total.get(total - column_total)
        if entries is not None and len(entries):
            counts = entries & ((1 << COUNT_BITS) - 1)
            parts.append(entries + key + (num_pairs - 1) * counts)
    return np.concatenate(parts)


def _merge(entries: Entries) -> Entries:
    """Equal multisets and sums as one entry with the number of all their pairs."""
    if not len(entries):
        return entries
    entries.sort(kind="stable")  # which finds the sorted runs that `_added` laid end to end
    keys = entries >> COUNT_BITS
    starts = _starts(keys)
    counts = np.add.reduceat(entries & ((1 << COUNT_BITS) - 1), starts)
    assert counts.max() < 1 << COUNT_BITS, "a count runs into the sum"
    return (keys[starts] << COUNT_BITS) + counts


def _commonest(entries: Entries) -> int:
    """Pairs with the commonest sum of their multiset, over all multisets."""
    if not len(entries):
        return 0
    starts = _starts(entries >> (SUM_BITS + COUNT_BITS))
    return int(np.maximum.reduceat(entries & ((1 << COUNT_BITS) - 1), starts).sum())


def _starts(keys: Entries) -> Entries:
    """Where runs of equal keys begin."""
    return np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
