"""Intervals of medians over few runs, by resampling, and a permutation test.

Interval of a median over n runs: for n >= 5 the percentile bootstrap (95 %, 10,000 resamples with a
fixed generator of its own, so the same runs always give the same interval); for n < 5 no bootstrap
is meaningful and the interval is the full range, least to largest run.

What is resampled: if the runs are a full cross of at least two seeds and at least two data seeds,
seeds and data seeds are drawn independently of each other, and the run of a drawn pair counts as
often as its seed times its data seed was drawn (the pigeonhole bootstrap: Owen 2007, Annals of
Applied Statistics 1:386): runs that share a seed are not independent. Otherwise runs are drawn.
`interval_kind` says which: "crossed bootstrap", "bootstrap", "range", or "none" for a single run.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

LEVEL = 0.95
NUM_RESAMPLES = 10_000
LEAST_BOOTSTRAP = 5  # runs below which the interval is the full range
MOST_EXACT = 20_000  # ways to divide runs into two groups, up to which all of them are tried

Values = Sequence[float] | np.ndarray
Seeds = Sequence[tuple[int, int]] | np.ndarray  # (seed, data_seed) of each run


class Interval(NamedTuple):
    """Both ends included."""

    low: float
    high: float


def median_interval(values: Values, seeds: Seeds | None = None) -> Interval:
    """The interval of the median over runs, as the module says; (nan, nan) without runs."""
    values = np.asarray(values, dtype=float)
    if len(values) == 0:
        return Interval(np.nan, np.nan)
    if len(values) < LEAST_BOOTSTRAP:
        return Interval(float(values.min()), float(values.max()))
    return percentiles(*_resample_median(values, seeds))


def interval_kind(num_runs: int, seeds: Seeds | None = None) -> str:
    """The kind of interval that `median_interval` returns for runs with these seeds."""
    if num_runs < 2:
        return "none"
    if num_runs < LEAST_BOOTSTRAP:
        return "range"
    return "crossed bootstrap" if crossed_shape(seeds) else "bootstrap"


def difference_interval(values: Values, others: Values, seeds: tuple[Seeds, Seeds]) -> Interval:
    """The interval of median(values) - median(others), for two independent groups of runs.

    All resamples of one group against all of the other; with fewer than 5 runs in a group, the
    least and the largest difference of two runs.
    """
    values, others = np.asarray(values, dtype=float), np.asarray(others, dtype=float)
    if min(len(values), len(others)) == 0:
        return Interval(np.nan, np.nan)
    if min(len(values), len(others)) < LEAST_BOOTSTRAP:
        return Interval(float(values.min() - others.max()), float(values.max() - others.min()))
    first, first_counts = _resample_median(values, seeds[0])
    second, second_counts = _resample_median(others, seeds[1])
    differences = np.subtract.outer(first, second).ravel()
    return percentiles(differences, np.multiply.outer(first_counts, second_counts).ravel())


def difference_kind(seeds: tuple[Seeds, Seeds]) -> str:
    """The kind of interval that `difference_interval` returns for runs with these seeds."""
    sizes = [len(group) for group in seeds]
    if min(sizes) < LEAST_BOOTSTRAP:
        return "none" if max(sizes) < 2 else "range"
    return "crossed bootstrap" if any(map(crossed_shape, seeds)) else "bootstrap"


def percentiles(values: np.ndarray, counts: np.ndarray) -> Interval:
    """The central 95 % of values, each of which occurred `counts` times."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(counts[order])
    tail = round((1 - LEVEL) / 2 * int(reached[-1]), 6)
    first, last = np.searchsorted(reached, [tail, reached[-1] - tail])
    return Interval(float(values[order[first]]), float(values[order[last]]))


def resample_above(
    values: np.ndarray, threshold: float, seeds: Seeds | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Whether each column's median over the runs (rows) is above a threshold in each resample.

    Returns (resamples x columns of booleans, how often each resample occurs). Whole rows are
    resampled. The count of runs above decides, unless it is exactly half of those drawn: then the
    mean of the two in the middle does.
    """
    shape = crossed_shape(seeds)
    if shape:
        values = values[_cross_order(seeds)]
    weights, counts = _draw(shape or (len(values),))
    above = values > threshold
    # float32 multiplies matrices fast and is exact for counts below 16 million
    num_above = above.T.astype(np.float32) @ weights.astype(np.float32)
    result = 2 * num_above > len(values)
    for column, is_above in enumerate(above.T):
        tied = np.flatnonzero(2 * num_above[column] == len(values))
        drawn, here = weights[:, tied] > 0, values[:, [column]]
        lower = np.where(drawn & ~is_above[:, None], here, -np.inf).max(axis=0)
        upper = np.where(drawn & is_above[:, None], here, np.inf).min(axis=0)
        result[column, tied] = (lower + upper) / 2 > threshold
    return result.T, counts


def crossed_shape(seeds: Seeds | None) -> tuple[int, int] | None:
    """(seeds, data seeds) if the runs are a full cross of at least two of each."""
    if seeds is None:
        return None
    pairs = {(int(seed), int(data_seed)) for seed, data_seed in seeds}
    shape = len({seed for seed, _ in pairs}), len({data_seed for _, data_seed in pairs})
    is_full = len(pairs) == len(seeds) == shape[0] * shape[1]
    return shape if is_full and min(shape) >= 2 else None


def _cross_order(seeds: Seeds | None) -> np.ndarray:
    """The order of runs that makes a cross a table: a row per seed, a column per data seed."""
    pairs = np.asarray(seeds)
    return np.lexsort((pairs[:, 1], pairs[:, 0]))


def _resample_median(values: np.ndarray, seeds: Seeds | None) -> tuple[np.ndarray, np.ndarray]:
    """The different medians of the resamples, and how often each occurs."""
    shape = crossed_shape(seeds)
    if shape:
        values = values[_cross_order(seeds)]
        order = np.argsort(values, kind="stable")
        weights, counts = _draw(shape)
        lower, upper = _middle_ranks(weights[order])
        values = values[order]
    else:
        lower, upper, counts = _run_ranks(len(values))
        values = np.sort(values)
    medians, index = np.unique((values[lower] + values[upper]) / 2, return_inverse=True)
    return medians, np.bincount(index, weights=counts).astype(np.int64)


@lru_cache(maxsize=8)
def _draw(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The different resamples: how often each run was drawn (runs x resamples), and how often each
    resample occurs.

    shape: (runs,), or (seeds, data seeds) with the runs in the order of `_cross_order`.
    """
    rng = np.random.default_rng(0)
    weights = np.ones((NUM_RESAMPLES, 1), dtype=np.int64)
    for size in shape:
        draws = rng.integers(0, size, size=(NUM_RESAMPLES, size))
        draws += size * np.arange(NUM_RESAMPLES)[:, None]
        drawn = np.bincount(draws.ravel(), minlength=NUM_RESAMPLES * size)
        weights = weights[:, :, None] * drawn.reshape(NUM_RESAMPLES, 1, size)
        weights = weights.reshape(NUM_RESAMPLES, -1)
    smallest = np.min_scalar_type(weights.shape[1])  # holds sums, too: a row adds up to all runs
    different, counts = np.unique(weights.astype(smallest), axis=0, return_counts=True)
    return np.ascontiguousarray(different.T), counts


@lru_cache
def _run_ranks(num_runs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The bootstrap over runs in terms of ranks: (lower, upper, how often), for any values."""
    weights, counts = _draw((num_runs,))
    pairs, index = np.unique(np.stack(_middle_ranks(weights)), axis=1, return_inverse=True)
    return pairs[0], pairs[1], np.bincount(index.ravel(), weights=counts).astype(np.int64)


def _middle_ranks(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ranks of the two middle values (one twice if odd) of each resample; runs in ascending order.

    Their mean is the median of the resample.
    """
    reached, num_runs = np.cumsum(weights, axis=0, dtype=weights.dtype), len(weights)
    lower = np.count_nonzero(reached <= (num_runs - 1) // 2, axis=0)
    if num_runs % 2:
        return lower, lower
    return lower, np.count_nonzero(reached <= num_runs // 2, axis=0)


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
