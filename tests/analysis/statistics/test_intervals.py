"""Intervals of medians against simulation, closed forms and scipy; how often they cover."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import (
    binom,
    binomtest,
    mannwhitneyu,
    permutation_test,
    quantile_test,
    rankdata,
)

from analysis.statistics.intervals import (
    cover,
    difference_interval,
    interval_kind,
    median_floor,
    median_interval,
    rank_floor,
    rank_test,
    shared_seeds,
    sign_test,
)

CROSS = list(product(range(4), range(2)))
NUM_STUDIES = 20_000


def diagonal(num_runs: int) -> list[tuple[int, int]]:
    return [(i, i) for i in range(num_runs)]


def share_covered(studies: np.ndarray, truth: float, seeds: list[tuple[int, int]]) -> float:
    """The share of studies (columns) whose interval holds the truth."""
    low, high = median_interval(studies, seeds)
    return float(((low <= truth) & (truth <= high)).mean())


@pytest.mark.parametrize("num_runs", range(2, 31))
def test_from_six_runs_on_95_percent_are_covered_and_the_next_rank_would_cover_less(num_runs: int):
    found = cover(num_runs)
    assert found[1:] == (pytest.approx(1 - 2 * binom.cdf(found.rank - 1, num_runs, 0.5)), None)
    assert found.coverage >= 0.95 or (num_runs < 6 and found.rank == 1)
    assert 1 - 2 * binom.cdf(found.rank, num_runs, 0.5) < 0.95
    values = np.random.default_rng(0).permutation(num_runs).astype(float)
    ends = (found.rank - 1, num_runs - found.rank)
    assert median_interval(values) == ends == median_interval(values, diagonal(num_runs))
    low, high = quantile_test(values, p=0.5).confidence_interval(0.95)  # wider on one side or equal
    assert num_runs < 6 or ends == (pytest.approx(low), pytest.approx(high))


def draw_crosses(shape: tuple[int, int], shares: tuple[float, float, float]) -> np.ndarray:
    """Studies in columns: an increasing function of seed + data seed + rest; its median is 1."""
    rng = np.random.default_rng(2)
    seed, data_seed, rest = np.sqrt(shares)
    rows = seed * rng.standard_normal((shape[0], 1, NUM_STUDIES))
    columns = data_seed * rng.standard_normal((1, shape[1], NUM_STUDIES))
    both = rows + columns + rest * rng.standard_normal((*shape, NUM_STUDIES))
    return np.exp(both).reshape(-1, NUM_STUDIES)


@pytest.mark.parametrize("shape", [(4, 2), (8, 2), (4, 4), (8, 4)])
@pytest.mark.parametrize("part", ["whole", "a run is missing", "two crosses"])
def test_coverage_of_shared_seeds_is_as_said(shape: tuple[int, int], part: str):
    seeds = list(product(range(shape[0]), range(shape[1])))
    if part == "a run is missing":
        del seeds[3]
    elif part == "two crosses":
        half = shape[0] // 2, shape[1] // 2
        seeds = [(i, j) for i, j in seeds if (i < half[0]) == (j < half[1])]
    rows = [i * shape[1] + j for i, j in seeds]
    chosen = cover(len(seeds), seeds)
    alike = share_covered(draw_crosses(shape, (1 / 3, 1 / 3, 1 / 3))[rows], 1, seeds)
    assert alike == pytest.approx(chosen.coverage, abs=0.01)
    data_only = share_covered(draw_crosses(shape, (0, 1, 0))[rows], 1, seeds)
    assert data_only == pytest.approx(chosen.if_data_seeds, abs=0.012)


@pytest.mark.parametrize(
    ("seeds", "design"),
    [
        (CROSS, ((0, 1, 2, 3),) * 2),
        (CROSS[:-1], ((0, 1, 2), (0, 1, 2, 3))),  # a run is missing
        (CROSS[1:4] + CROSS[5:], ((0, 1, 2, 3), (1, 3))),
        ([(7, 1), (7, 3), (9, 1), (9, 3)], ((0, 1), (0, 1))),
        ([(7, 1), (8, 1), (9, 3)], ((0, 1), (2,))),
        ([(i, i) for i in range(6)], None),
        ([(i, 0) for i in range(6)], None),  # the median with this data seed
    ],
)
def test_which_seeds_are_shared(seeds, design):
    assert shared_seeds(seeds) == design


def test_kinds_of_intervals():
    assert median_interval([0.5]) == (0.5, 0.5)
    assert np.isnan(median_interval([])).all()
    assert [interval_kind(n) for n in (0, 1, 2, 4, 5)] == (
        ["none", "none", "range", "range", "order statistics"]
    )
    assert interval_kind(4, list(product(range(2), range(2)))) == "range"
    assert interval_kind(8, CROSS) == "crossed order statistics"


@pytest.mark.parametrize(
    ("num_runs", "rank", "alone"), [(8, 1, 1), (9, 1, 2), (12, 2, 3), (20, 5, 6)]
)
def test_each_end_of_a_difference_has_the_rank_of_the_square_root_of_95_percent(
    num_runs: int, rank: int, alone: int
):
    """Further out than those of a single median, wherever so many runs leave a choice."""
    values = np.random.default_rng(8).permutation(num_runs)
    others = np.random.default_rng(9).permutation(6) * 100  # rank 1
    found = difference_interval(values, others, (diagonal(num_runs), diagonal(6)))
    assert found == (rank - 1 - 500, num_runs - rank)
    opposite = difference_interval(others, values, (diagonal(6), diagonal(num_runs)))
    assert opposite == (-found[1], -found[0])
    assert cover(num_runs).rank == alone
    assert np.isnan(difference_interval([], values, ([], diagonal(num_runs)))).all()


small = st.lists(st.integers(0, 4), min_size=2, max_size=5)


@settings(max_examples=40, deadline=None)
@given(small, small)
def test_a_test_of_ranks_is_the_permutation_test_of_them(values: list[int], others: list[int]):
    ranks = rankdata([*values, *others])
    reference = permutation_test(
        (ranks[: len(values)], ranks[len(values) :]),
        lambda a, b, axis: a.sum(axis=axis),
        n_resamples=np.inf,
        vectorized=True,
    )
    assert rank_test(values, others) == pytest.approx(reference.pvalue)


def test_a_test_of_many_ranks_is_simulated():
    values, others = np.random.default_rng(7).normal(size=(2, 10))
    reference = mannwhitneyu(values, others + 0.7, method="exact").pvalue
    assert 0.02 < reference < 0.9
    assert rank_test(values, others + 0.7) == pytest.approx(reference, abs=0.006)
    assert np.isnan(rank_test([], [0.5]))


def test_no_simulated_p_is_0():
    twenty = list(product(range(10), range(2)))
    assert rank_test(np.ones(20), np.zeros(20)) == pytest.approx(1e-5, rel=1e-3)
    assert 0 < sign_test(np.ones(20), twenty) == median_floor(20, twenty)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=1, max_size=20))
def test_a_sign_test_of_independent_pairs_is_the_binomial_one(differences: list[float]):
    wins, losses = differences.count(1.0), differences.count(-1.0)
    expected = binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    assert sign_test(differences) == pytest.approx(expected)


@pytest.mark.parametrize("seeds", [CROSS, diagonal(8), CROSS[:4]])
def test_tests_agree_with_the_intervals(seeds: list[tuple[int, int]]):
    """A sign test is small where the interval leaves 0 out; the floor of a test is its p where all
    runs agree, and equal groups of crossed seeds are below it as often as it says."""
    values = np.linspace(0.1, 0.9, len(seeds))
    assert sign_test(values, seeds) == median_floor(len(seeds), seeds)
    assert median_floor(len(seeds), seeds) == pytest.approx(1 - cover(len(seeds), seeds).coverage)
    rng, num = np.random.default_rng(3), 4000
    effects = [rng.normal(size=(num, 8, 2)) for _ in range(2)]
    groups = [
        np.stack([e[:, i, 0] + e[:, j, 1] + rng.normal(size=num) for i, j in seeds], axis=1)
        for e in effects
    ]
    apart = (groups[0].min(axis=1) > groups[1].max(axis=1)).mean()
    floor = rank_floor((len(seeds), len(seeds)), (seeds, seeds))
    assert 2 * apart == pytest.approx(floor, abs=0.02)
