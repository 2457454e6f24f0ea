"""Intervals of medians over few runs, and a permutation test.

The interval of a median over n runs lies between two of the runs: the k-th smallest and the k-th
largest. Whatever their distribution, it covers the true median with probability 1 - 2 P(X < k) for
X ~ Binomial(n, 1/2) (Conover, Practical Nonparametric Statistics, 3.2); k is the largest for
which this is 95 % or more. With n < 6 not even the full range (k = 1) is: 50 % for 2 runs, 75 % for
3, 87.5 % for 4, 93.75 % for 5. The percentile bootstrap, which these intervals replaced, covers
less (88 % for 7 runs).

Runs that share a seed or a data seed, as those of a cross do, are not independent. There k is the
largest with 95 % if seed, data seed and the rest contribute equal variance to any increasing
function of exact match (simulated; normal effects). No method makes up for too few seeds: if data
seeds alone decide, 4x2 is two runs, and its full range covers 50 %. The full range of a cross of I
by J always covers 1 - 2 * 0.5^min(I, J) or more, because the runs on a diagonal share no seed.
Where all runs have the same seed, or the same data seed, the median meant is that with this seed,
and they count as independent.

`interval_kind`: "order statistics" or "crossed order statistics"; "range" below 5 runs, too few for
a band in a figure; "none" for a single run.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, combinations
from math import comb
from typing import NamedTuple

import numpy as np

LEVEL = 0.95
LEAST_BAND = 5  # runs from which an interval is drawn as a band
NUM_DRAWS = 100_000  # of a simulated cross: coverages are known to 0.2 points
NUM_RESAMPLES = 10_000  # of a permutation test that is not exact
MOST_EXACT = 20_000  # ways to divide runs into two groups, up to which all of them are tried

Values = Sequence[float] | np.ndarray
Seeds = Sequence[tuple[int, int]] | np.ndarray  # (seed, data_seed) of each run
Design = tuple[tuple[int, ...], ...]  # which seeds the runs of each data seed have


class Interval(NamedTuple):
    """Both ends included."""

    low: float
    high: float


class Cover(NamedTuple):
    """An interval of n runs: from the k-th smallest to the k-th largest, and how often it holds
    the true median.

    if_data_seeds: the same if data seeds alone decide; of independent runs that is no question.
    """

    rank: int
    coverage: float
    if_data_seeds: float | None = None


def median_interval(values: Values, seeds: Seeds | None = None) -> Interval:
    """The interval of the median over runs, as the module says; (nan, nan) without runs."""
    low, high = median_bounds(np.asarray(values, dtype=float), seeds)
    return Interval(float(low), float(high))


def median_bounds(values: np.ndarray, seeds: Seeds | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Both ends of the interval of each column's median, over runs in rows."""
    if not len(values):
        nothing = np.full(values.shape[1:], np.nan)
        return nothing, nothing
    rank = cover(len(values), seeds).rank
    ordered = np.sort(values, axis=0)
    return ordered[rank - 1], ordered[-rank]


def interval_kind(num_runs: int, seeds: Seeds | None = None) -> str:
    """The kind of interval that `median_interval` returns for runs with these seeds."""
    if num_runs < 2:
        return "none"
    if num_runs < LEAST_BAND:
        return "range"
    return "crossed order statistics" if shared_seeds(seeds) else "order statistics"


def difference_interval(values: Values, others: Values, seeds: tuple[Seeds, Seeds]) -> Interval:
    """An interval of median(values) - median(others), for two independent groups of runs.

    From the intervals of both medians: the difference lies between their outer ends wherever both
    hold their median, so it covers at least the product of their coverages, of which each is
    sqrt(95 %) or the most that so few runs can have.
    """
    values, others = np.asarray(values, dtype=float), np.asarray(others, dtype=float)
    if min(len(values), len(others)) == 0:
        return Interval(np.nan, np.nan)
    ends = []
    for group, pairs in ((values, seeds[0]), (others, seeds[1])):
        rank = cover(len(group), pairs, LEVEL**0.5).rank
        ends.append((np.sort(group)[rank - 1], np.sort(group)[-rank]))
    (low, high), (other_low, other_high) = ends
    return Interval(float(low - other_high), float(high - other_low))


def difference_kind(seeds: tuple[Seeds, Seeds]) -> str:
    """The kind of interval that `difference_interval` returns for runs with these seeds."""
    sizes = [len(group) for group in seeds]
    if min(sizes) < LEAST_BAND:
        return "none" if max(sizes) < 2 else "range"
    crossed = any(map(shared_seeds, seeds))
    return "crossed order statistics" if crossed else "order statistics"


def cover(num_runs: int, seeds: Seeds | None = None, level: float = LEVEL) -> Cover:
    """The rank that `median_interval` takes for runs with these seeds, and what it covers."""
    design = shared_seeds(seeds)
    coverages = _design_coverages(design) if design else _coverages(num_runs)
    rank = max(1, sum(coverage >= level for coverage in coverages))  # they fall with the rank
    if not design:
        return Cover(rank, coverages[rank - 1])
    below = np.ones(1)  # probabilities of 0, 1, ... runs below the median, a data seed's alike
    for block in design:
        below = np.convolve(below, [0.5, *[0] * (len(block) - 1), 0.5])
    return Cover(rank, coverages[rank - 1], float(below[rank : num_runs - rank + 1].sum()))


@lru_cache
def _coverages(num_runs: int) -> tuple[float, ...]:
    """Of independent runs, for rank 1, 2, ... up to the middle."""
    counts = (comb(num_runs, i) for i in range((num_runs + 1) // 2))
    return tuple(1 - 2 * below / 2**num_runs for below in accumulate(counts))


@lru_cache
def _design_coverages(design: Design) -> tuple[float, ...]:
    """The same for runs that share seeds, with equal variances; simulated."""
    rng = np.random.default_rng(0)
    num_runs = sum(map(len, design))
    below = np.zeros(NUM_DRAWS, dtype=int)  # runs below the true median, 0, in each draw
    rows = rng.standard_normal((NUM_DRAWS, 1 + max(map(max, design))))
    for block in design:
        column = rng.standard_normal((NUM_DRAWS, 1))
        rest = rng.standard_normal((NUM_DRAWS, len(block)))
        below += (rows[:, block] + column + rest < 0).sum(axis=1)
    ranks = range(1, (num_runs + 1) // 2 + 1)
    return tuple(float(((below >= rank) & (below <= num_runs - rank)).mean()) for rank in ranks)


def shared_seeds(seeds: Seeds | None) -> Design | None:
    """The design of runs of which some, but not all, share a seed or a data seed; None if they
    count as independent. Seeds are numbered in their order.
    """
    if seeds is None or not len(seeds):
        return None
    pairs = np.asarray(seeds, dtype=int)
    models, data = (np.unique(column, return_inverse=True)[1] for column in pairs.T)
    fewest = 1 + min(models.max(), data.max())
    if fewest in (1, len(pairs)):
        return None
    blocks = (models[data == data_seed] for data_seed in range(1 + data.max()))
    return tuple(sorted(tuple(sorted(block.tolist())) for block in blocks))


def permutation_test(values: Values, others: Values) -> float:
    """p of a two-sided permutation test of equal means, for two independent groups of runs.

    Exact (all ways to divide the runs, twice the smaller tail) up to 20,000 ways; beyond, 10,000
    random ones and the observed one (Phipson & Smyth 2010). nan without runs on both sides.
    `scipy.stats.permutation_test` refuses a group of one run, which arms of a sweep may have.
    """
    pooled, size = np.concatenate([values, others]).astype(float), len(values)
    if min(size, len(others)) == 0:
        return np.nan
    if comb(len(pooled), size) <= MOST_EXACT:
        groups = _divide(len(pooled), size)
    else:
        rng = np.random.default_rng(0)
        random = rng.random((NUM_RESAMPLES, len(pooled))).argpartition(size - 1, axis=1)
        groups = np.vstack([np.arange(size), random[:, :size]])
    sums, observed = pooled[groups].sum(axis=1), pooled[:size].sum()
    slack = 1e-12 * np.abs(pooled).sum()  # sums of the same runs in another order are equal
    tail = min((sums >= observed - slack).sum(), (sums <= observed + slack).sum())
    return min(1.0, float(2 * tail / len(groups)))


@lru_cache(maxsize=8)
def _divide(num_runs: int, size: int) -> np.ndarray:
    """All groups of `size` runs out of `num_runs`."""
    return np.array(list(combinations(range(num_runs), size)))


def median_floor(n: int) -> float:
    """Smallest two-sided p of a sign test about the median of n runs."""
    return min(1.0, 2 * 0.5**n)


def separation_floor(n: int, other: int) -> float:
    """Smallest two-sided p of a permutation test between n and other runs."""
    return min(1.0, 2 / comb(n + other, n))
