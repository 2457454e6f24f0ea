"""Stops a test set early once it is known on which side of 95 % exact match lies.

After every piece a confidence sequence is checked. It is valid at all numbers of examples at once,
so repeated checks are free (an interval for a single check, such as Wilson's, would be wrong more
and more often). It consists of all shares p with

    n-fold likelihood of the outcomes, mixed over a uniform share  <  likelihood under p / error

The ratio of the two is a martingale under p, so it ever exceeds 1 / error with probability at most
`error` (Ville's inequality). Sources: Robbins 1970 (Annals of Mathematical
Statistics 41:1397); Howard, Ramdas, McAuliffe & Sekhon 2021 (Annals of Statistics 49:1055).
It only requires that the examples of a test set are drawn independently.

Exact match at a length that was stopped early is rough, and its number of examples depends on the
outcomes: use it for tuning and searching, not for published numbers.
"""

import math
from collections.abc import Iterator

SOLVED = 0.95  # exact match above which a length counts as solved
FIRST_PIECE = 100  # examples before the first look


def is_decided(num_correct: int, num_examples: int, error: float, share: float = SOLVED) -> bool:
    """Whether `share` lies outside the confidence sequence, wrong with probability <= error."""
    num_wrong = num_examples - num_correct
    mixed = (
        math.lgamma(num_correct + 1) + math.lgamma(num_wrong + 1) - math.lgamma(num_examples + 2)
    )
    under = num_correct * math.log(share) + num_wrong * math.log1p(-share)
    return mixed - under >= -math.log(error)


def pieces(num_examples: int) -> Iterator[range]:
    """The rows of a test set in pieces, each as large as all before, so that at most half of the
    examples were more than was needed.
    """
    first, end = 0, FIRST_PIECE
    while first < num_examples:
        yield range(first, min(end, num_examples))
        first, end = end, 2 * end
