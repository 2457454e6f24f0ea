"""Intervals of medians over few runs, and the tests that agree with them.

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
MOST_EXACT = 20_000  # ways to divide runs into two groups, up to which all of them are tried

Values = Sequence[float] | np.ndarray
Seeds = Sequence[tuple[int, int]] | np.ndarray  # (seed, data_seed) of each run
Design = tuple[tuple[int, ...], ...]  # which seeds the runs of each data seed have


class Cover(NamedTuple):
    """An interval of n runs: from the k-th smallest to the k-th largest, and how often it holds
    the true median.

    if_data_seeds: the same if data seeds alone decide; of independent runs that is no question.
    """

    rank: int
    coverage: float
    if_data_seeds: float | None = None


def median_interval(
    values: Values, seeds: Seeds | None = None, level: float = LEVEL
) -> tuple[np.ndarray, np.ndarray]:
    """Both ends of the interval of the median over runs, as the module says, of each column where
    runs are rows; nan without runs."""
    values = np.asarray(values, dtype=float)
    if not len(values):
        nothing = np.full(values.shape[1:], np.nan)
        return nothing, nothing
    rank = cover(len(values), seeds, level).rank
    ordered = np.sort(values, axis=0)
    return ordered[rank - 1], ordered[-rank]


def interval_kind(num_runs: int, *seeds: Seeds | None, most_runs: int = 0) -> str:
    """The kind of interval that `median_interval` returns for runs with these seeds; of two groups,
    `difference_interval`, with the runs of the smaller and of the larger one.
    """
    if num_runs < LEAST_BAND:
        return "none" if max(num_runs, most_runs) < 2 else "range"
    return "crossed order statistics" if any(map(shared_seeds, seeds)) else "order statistics"


def difference_interval(
    values: Values, others: Values, seeds: tuple[Seeds, Seeds]
) -> tuple[float, float]:
    """An interval of median(values) - median(others), for two independent groups of runs.

    From the intervals of both medians: the difference lies between their outer ends wherever both
    hold their median, so it covers at least the product of their coverages, of which each is
    sqrt(95 %) or the most that so few runs can have.
    """
    low, high = median_interval(values, seeds[0], LEVEL**0.5)
    other_low, other_high = median_interval(others, seeds[1], LEVEL**0.5)
    return float(low - other_high), float(high - other_low)


def cover(num_runs: int, seeds: Seeds | None = None, level: float = LEVEL) -> Cover:
    """The rank that `median_interval` takes for runs with these seeds, and what it covers."""
    design, coverages = shared_seeds(seeds), _all_coverages(num_runs, seeds)
    rank = max(1, sum(coverage >= level for coverage in coverages))  # they fall with the rank
    if not design:
        return Cover(rank, coverages[rank - 1])
    below = np.ones(1)  # probabilities of 0, 1, ... runs below the median, a data seed's alike
    for block in design:
        below = np.convolve(below, [0.5, *[0] * (len(block) - 1), 0.5])
    return Cover(rank, coverages[rank - 1], float(below[rank : num_runs - rank + 1].sum()))


def _all_coverages(num_runs: int, seeds: Seeds | None) -> tuple[float, ...]:
    """What the interval from the k-th smallest to the k-th largest run covers, k = 1, 2, ..."""
    design = shared_seeds(seeds)
    return _design_coverages(design) if design else _coverages(num_runs)


@lru_cache
def _coverages(num_runs: int) -> tuple[float, ...]:
    """Of independent runs, for rank 1, 2, ... up to the middle."""
    counts = (comb(num_runs, i) for i in range((num_runs + 1) // 2))
    return tuple(1 - 2 * below / 2**num_runs for below in accumulate(counts))


@lru_cache
def _design_coverages(design: Design) -> tuple[float, ...]:
    """The same for runs that share seeds, with equal variances; simulated, the runs themselves
    counting as one more draw that is not covered, so that no p is 0 (Phipson and Smyth 2010).
    """
    num_runs = sum(map(len, design))
    below = (_draw(num_runs, design, np.random.default_rng(0)) < 0).sum(axis=1)
    ranks = range(1, (num_runs + 1) // 2 + 1)
    covered = (((below >= rank) & (below <= num_runs - rank)).sum() for rank in ranks)
    return tuple(float(count / (NUM_DRAWS + 1)) for count in covered)


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


def sign_test(differences: Values, seeds: Seeds | None = None) -> float:
    """p of a two-sided sign test that the median of paired differences is 0, ties left out.

    It is what the interval of their median leaves uncovered, from the run on the minority's side
    that is nearest to 0; of independent pairs the exact binomial one. nan without pairs, 1 without
    any that differ.
    """
    signs = np.sign(np.asarray(differences, dtype=float))
    if not len(signs):
        return np.nan
    kept = signs != 0
    few = int(min((signs > 0).sum(), (signs < 0).sum()))
    pairs = None if seeds is None else np.asarray(seeds)[kept]
    coverages = _all_coverages(int(kept.sum()), pairs)
    return 1 - coverages[few] if few < len(coverages) else 1.0


def median_floor(num_runs: int, seeds: Seeds | None = None) -> float:
    """Smallest p that `sign_test` can give for so many runs with these seeds."""
    return 1 - _all_coverages(num_runs, seeds)[0] if num_runs else 1.0


def rank_test(values: Values, others: Values, seeds: tuple[Seeds, Seeds] | None = None) -> float:
    """p of a two-sided test that runs of two independent groups rank alike (Mann and Whitney's U).

    Exact (`scipy.stats.permutation_test` of the ranks refuses a group of one run, which arms may
    have) up to `MOST_EXACT` ways to divide independent runs, else simulated; of runs that share
    seeds simulated with the variances of their intervals. nan without runs on both sides.
    """
    values, others = np.asarray(values, dtype=float), np.asarray(others, dtype=float)
    if min(len(values), len(others)) == 0:
        return np.nan
    designs = (None, None) if seeds is None else (shared_seeds(seeds[0]), shared_seeds(seeds[1]))
    observed, ways = abs(net_wins(values, others)), comb(len(values) + len(others), len(values))
    if designs != (None, None) or ways > MOST_EXACT:
        null = _null_sums((len(values), designs[0]), (len(others), designs[1]))
        return float((1 + (null >= observed - 0.5).sum()) / (1 + NUM_DRAWS))
    pooled = np.concatenate([values, others])
    below = np.sign(pooled[:, None] - pooled[None, :]).sum(axis=1)  # centred ranks, times two
    sums = below[_divide(len(pooled), len(values))].sum(axis=1)
    tail = min(
        (sums >= below[: len(values)].sum()).sum(), (sums <= below[: len(values)].sum()).sum()
    )
    return min(1.0, float(2 * tail / ways))


def net_wins(values: Values, others: Values) -> float:
    """Pairs of runs of two groups that the first wins less those that it loses."""
    return float(np.sign(np.subtract.outer(np.asarray(values), np.asarray(others))).sum())


def rank_floor(sizes: tuple[int, int], seeds: tuple[Seeds, Seeds] | None = None) -> float:
    """Smallest p that `rank_test` can give: how often chance separates all runs of both groups."""
    if min(sizes) == 0:
        return 1.0
    return rank_test(np.ones(sizes[0]) + np.arange(sizes[0]) * 1e-3, np.zeros(sizes[1]), seeds)


@lru_cache(maxsize=8)
def _divide(num_runs: int, size: int) -> np.ndarray:
    """All groups of `size` runs out of `num_runs`."""
    return np.array(list(combinations(range(num_runs), size)))


@lru_cache
def _null_sums(*groups: tuple[int, Design | None]) -> np.ndarray:
    """|wins - losses| over all pairs of runs of two groups that do not differ, in each draw."""
    rng = np.random.default_rng(0)
    ours, theirs = (_draw(num_runs, design, rng) for num_runs, design in groups)
    sums = np.zeros(NUM_DRAWS)
    for column in ours.T:
        sums += np.sign(column[:, None] - theirs).sum(axis=1)
    return np.abs(sums)


def _draw(num_runs: int, design: Design | None, rng: np.random.Generator) -> np.ndarray:
    """Runs (columns) of a cell whose median is 0, in each draw: effects of seed and data seed and a
    rest, of equal variance.
    """
    if design is None:
        return 3**0.5 * rng.standard_normal((NUM_DRAWS, num_runs))
    seeds = rng.standard_normal((NUM_DRAWS, 1 + max(map(max, design))))
    blocks = []
    for block in design:
        data = rng.standard_normal((NUM_DRAWS, 1))
        blocks.append(seeds[:, block] + data + rng.standard_normal((NUM_DRAWS, len(block))))
    return np.hstack(blocks)
