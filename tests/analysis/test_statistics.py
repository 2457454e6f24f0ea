"""Statistics against closed forms, scipy, statsmodels and plain resampling."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, permutation_test
from statsmodels.stats.proportion import proportion_confint

from analysis.statistics import bootstrap
from analysis.statistics import runs as statistics
from analysis.statistics.bootstrap import (
    crossed_shape,
    interval_kind,
    median_interval,
    resample_above,
)
from analysis.statistics.runs import L95, generalizable_length, wilson_interval
from tests.support.rows.example_store import example

CROSS = list(product(range(4), range(2)))


@settings(deadline=None)
@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_agrees_with_statsmodels(counts: tuple[int, int]):
    reference = proportion_confint(*counts, alpha=0.05, method="wilson")
    assert wilson_interval(*counts) == pytest.approx(reference, abs=1e-12)


def test_wilson_solves_its_defining_equation():
    """Each end p satisfies |share - p| = z sqrt(p (1 - p) / n)."""
    for end in wilson_interval(3, 10):
        assert abs(0.3 - end) == pytest.approx(1.959964 * (end * (1 - end) / 10) ** 0.5, rel=1e-6)
    assert wilson_interval(0, 0) == (0, 1)


@pytest.mark.parametrize("num_runs", [5, 8, 9])
def test_bootstrap_is_the_percentile_bootstrap_of_the_median(num_runs: int):
    values = np.random.default_rng(1).uniform(size=num_runs)
    draws = np.random.default_rng(0).integers(0, num_runs, size=(10_000, num_runs))
    medians = np.median(np.sort(values)[draws], axis=1)
    expected = np.quantile(medians, [0.025, 0.975], method="inverted_cdf")
    assert median_interval(values) == pytest.approx(expected)


@pytest.mark.parametrize("num_runs", [5, 7, 11, 31])
def test_bootstrap_agrees_with_the_exact_distribution_of_the_median(num_runs: int):
    """For odd n: P(median of a resample <= k-th value) = P(binomial(n, k / n) >= (n + 1) / 2)."""
    ranks = np.arange(1, num_runs + 1)
    reached = binom.sf((num_runs - 1) // 2, num_runs, ranks / num_runs)
    for end, tail in zip(median_interval(ranks), (0.025, 0.975), strict=True):
        error = 4 * (0.025 * 0.975 / bootstrap.NUM_RESAMPLES) ** 0.5
        earliest, latest = (int((reached < tail + e).sum()) + 1 for e in (-error, error))
        assert earliest <= end <= latest


def draw_cross(num_seeds: int, num_data_seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """The resamples of a cross, one after the other: rows and columns drawn independently."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, num_seeds, size=(10_000, num_seeds))
    return rows, rng.integers(0, num_data_seeds, size=(10_000, num_data_seeds))


@pytest.mark.parametrize("shape", [(4, 2), (3, 3), (2, 3)])
def test_crossed_bootstrap_agrees_with_a_loop(shape: tuple[int, int]):
    table = np.random.default_rng(2).uniform(size=shape)
    medians = [np.median(table[np.ix_(r, c)]) for r, c in zip(*draw_cross(*shape), strict=True)]
    expected = np.quantile(medians, [0.025, 0.975], method="inverted_cdf")
    seeds = list(product(range(shape[0]), range(shape[1])))
    shuffled = np.random.default_rng(3).permutation(len(seeds))
    found = median_interval(table.ravel()[shuffled], [seeds[i] for i in shuffled])
    assert found == pytest.approx(expected)


def test_crossed_resamples_have_their_exact_probabilities():
    """3 x 2: all 27 x 4 equally likely draws, against the frequencies of the resamples."""
    table = np.random.default_rng(4).uniform(size=(3, 2))
    exact: dict[float, float] = {}
    for rows in product(range(3), repeat=3):
        for columns in product(range(2), repeat=2):
            median = float(np.median(table[np.ix_(rows, columns)]))
            exact[median] = exact.get(median, 0) + 1 / 108
    seeds = list(product(range(3), range(2)))
    medians, counts = bootstrap._resample_median(table.ravel(), seeds)
    assert medians.tolist() == pytest.approx(sorted(exact))
    share = np.array([exact[median] for median in sorted(exact)])
    error = np.sqrt(share * (1 - share) / 10_000)
    assert (np.abs(counts / 10_000 - share) < 4.5 * error).all()


def test_runs_that_share_a_data_seed_are_not_independent():
    """All that differs is the data seed: the cross sees two values, not eight runs."""
    values = [0.2 if data_seed else 0.9 for _, data_seed in CROSS]
    values = np.array(values) + np.linspace(0, 0.01, 8)
    low, high = median_interval(values, CROSS)
    assert low < 0.22
    assert high > 0.89
    pairs = [(i, i) for i in range(8)]
    assert median_interval(values, pairs) == median_interval(values)


@pytest.mark.parametrize(
    ("seeds", "shape"),
    [
        (CROSS, (4, 2)),
        (CROSS[::-1], (4, 2)),
        (CROSS[:-1], None),  # a run is missing
        ([*CROSS, CROSS[0]], None),
        ([(i, i) for i in range(6)], None),
        ([(i, 0) for i in range(6)], None),
        ([(7, 1), (7, 3), (9, 1), (9, 3)], (2, 2)),
        ([], None),
        (None, None),
    ],
)
def test_a_cross_is_full_and_has_two_of_each(seeds, shape):
    assert crossed_shape(seeds) == shape


def test_bootstrap_is_deterministic_and_ignores_order():
    values = [0.2, 0.9, 0.99, 1.0, 0.4, 0.97]
    state = np.random.get_state()[1].tolist()  # noqa: NPY002
    assert median_interval(values) == median_interval(values[::-1])
    assert np.random.get_state()[1].tolist() == state  # noqa: NPY002


def test_few_runs_give_their_full_range():
    assert median_interval([0.5, 0.1, 0.9]) == (0.1, 0.9)
    assert median_interval([0.5]) == (0.5, 0.5)
    assert np.isnan(median_interval([])).all()
    assert [interval_kind(n) for n in (0, 1, 2, 4, 5)] == (
        ["none", "none", "range", "range", "bootstrap"]
    )
    assert interval_kind(4, list(product(range(2), range(2)))) == "range"
    assert interval_kind(8, CROSS) == "crossed bootstrap"


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=5, max_size=12), st.floats(-1, 1))
def test_an_interval_holds_the_median_and_moves_with_the_values(values: list[float], shift: float):
    low, high = median_interval(values)
    assert min(values) <= low <= np.median(values) <= high <= max(values)
    assert median_interval(np.array(values) + shift) == pytest.approx((low + shift, high + shift))


def test_difference_of_medians_agrees_with_independent_resampling():
    values, others = np.random.default_rng(5).uniform(size=(2, 8))
    rng = np.random.default_rng(6)
    draws = rng.integers(0, 8, size=(2, 100_000, 8))
    plain = np.median(values[draws[0]], axis=1) - np.median(others[draws[1]], axis=1)
    independent = [(i, i) for i in range(8)]
    low, high = bootstrap.difference_interval(values, others, (independent, independent))
    assert np.mean(plain < low) == pytest.approx(0.025, abs=0.006)
    assert np.mean(plain > high) == pytest.approx(0.025, abs=0.006)
    few = bootstrap.difference_interval([0.5, 0.7], [0.1, 0.4], (CROSS[:2], CROSS[:2]))
    assert few == pytest.approx((0.1, 0.6))


small = st.lists(st.integers(0, 4), min_size=2, max_size=5)


@settings(max_examples=40, deadline=None)
@given(small, small)
def test_permutation_test_agrees_with_scipy(values: list[int], others: list[int]):
    """Small integers: many ties. A sum orders the ways to divide as the difference of means does,
    and without rounding."""
    reference = permutation_test(
        (values, others),
        lambda a, b, axis: a.sum(axis=axis),
        n_resamples=np.inf,
        vectorized=True,
    )
    found = bootstrap.permutation_test(np.array(values) / 7, np.array(others) / 7)
    assert found == pytest.approx(reference.pvalue)


def test_permutation_test_of_many_runs_draws_at_random():
    """10 against 10: 184,756 ways, all of them in scipy."""
    values, others = np.random.default_rng(7).normal(size=(2, 10))
    reference = permutation_test(
        (values, others + 0.7),
        lambda a, b, axis: a.mean(axis=axis) - b.mean(axis=axis),
        n_resamples=np.inf,
        vectorized=True,
    )
    found = bootstrap.permutation_test(values, others + 0.7)
    error = 2 * (reference.pvalue / 2 * (1 - reference.pvalue / 2) / 10_000) ** 0.5
    assert 0.02 < reference.pvalue < 0.9
    assert found == pytest.approx(reference.pvalue, abs=4 * error)
    assert bootstrap.permutation_test(values, others + 50) == pytest.approx(2 / 10_001)
    assert np.isnan(bootstrap.permutation_test([], [0.5]))


@pytest.mark.parametrize(
    ("curve", "expected"),
    [
        ({}, L95(0, False)),
        ({1: 0.95, 2: 1.0}, L95(0, False)),  # above 95 %, not at it
        ({1: 1.0, 2: 0.96, 4: 0.9, 8: 1.0}, L95(2, False)),  # nothing behind a failure counts
        ({4: 1.0, 1: 1.0, 2: 0.99}, L95(4, True)),  # any order; the largest tested passes
        ({1: 1.0, 2: float("nan"), 3: 1.0}, L95(1, False)),
    ],
)
def test_l95(curve: dict[int, float], expected: L95):
    assert generalizable_length(list(curve), list(curve.values())) == expected


def test_summary_by_hand():
    row = statistics.summarize([0.96, 1.0, 0.2])
    assert (row["n"], row["median"], row["worst"], row["best"]) == (3, 0.96, 0.2, 1.0)
    assert (row["num_solved"], row["share_solved"]) == (2, pytest.approx(2 / 3))
    assert (row["low"], row["high"], row["interval"]) == (0.2, 1.0, "range")


def test_summary_of_a_cross():
    values = np.linspace(0, 0.01, 8) + [0, 0.5] * 4  # the data seed decides
    row = statistics.summarize(values, CROSS)
    assert row["interval"] == "crossed bootstrap"
    assert (row["low"], row["high"]) == median_interval(values, CROSS)
    assert (row["low"], row["high"]) != median_interval(values)


def test_length_statistics_cover_all_keys_once():
    results = example()
    frame = statistics.length_statistics(results.all_evaluation)
    assert len(frame) == 6 * 2 * 14
    assert not frame.duplicated(["cell", "checkpoint", "range", "length"]).any()
    here = frame[(frame["cell"] == "APE, 3 layers") & (frame["checkpoint"] == "last")]
    assert (here["n"] == 3).all()
    assert (here["worst"] == 0).all()  # the diverged run
    assert here["length"].is_monotonic_increasing


def make_grid() -> pd.DataFrame:
    """One run on lengths 2 and 4, each with second lengths 1 and 3."""
    rows = [
        {"length": length, "second_length": second, "exact_match": value}
        for length, second, value in [(2, 1, 1.0), (2, 3, 0.99), (4, 1, 1.0), (4, 3, 0.5)]
    ]
    common = {"cell": "a", "cell_order": 0, "trial_id": "t", "seed": 0, "data_seed": 0}
    common |= {"status": "ok", "checkpoint": "last", "range": "test"}
    return pd.DataFrame([common | row for row in rows]).astype({"second_length": "Int64"})


def test_with_second_lengths_the_worst_decides():
    grid = make_grid()
    assert statistics.run_curves(grid)["exact_match"].tolist() == [0.99, 0.5]
    assert statistics.run_l95(grid)["l95"].tolist() == [2]
    assert statistics.length_statistics(grid)["second_length"].tolist() == [1, 3, 1, 3]


def test_l95_of_each_run():
    evaluation = example(complete=True).evaluation
    frame = statistics.run_l95(evaluation)
    assert len(frame) == 18
    three = frame[frame["cell"] == "coupling, 3 layers"]
    assert three["l95"].tolist() == [20, 20, 20]
    assert three["l95_is_lower_bound"].all()


@pytest.mark.parametrize("num_runs", [5, 8])
def test_resampled_medians_are_above_a_threshold_as_computed_in_full(num_runs: int):
    values = np.random.default_rng(9).uniform(0.9, 1, size=(num_runs, 6))
    draws = np.random.default_rng(0).integers(0, num_runs, size=(10_000, num_runs))
    expected = np.median(values[draws], axis=1) > 0.95
    solved, counts = resample_above(values, 0.95)
    assert counts.sum() == 10_000
    assert (counts @ solved).tolist() == expected.sum(axis=0).tolist()
    assert 0 < (counts @ solved.all(axis=1)) == expected.all(axis=1).sum() < 10_000


def test_resampled_medians_of_a_cross_do_not_depend_on_the_order_of_runs():
    values = np.random.default_rng(9).uniform(0.9, 1, size=(8, 6))
    rows, columns = draw_cross(4, 2)
    drawn = values.reshape(4, 2, 6)[rows[:, :, None], columns[:, None, :]]
    expected = np.median(drawn.reshape(-1, 8, 6), axis=1) > 0.95
    order = np.random.default_rng(1).permutation(8)
    solved, counts = resample_above(values[order], 0.95, np.array(CROSS)[order])
    assert (counts @ solved).tolist() == expected.sum(axis=0).tolist()


def make_cells(tables: dict[str, np.ndarray], seeds: list[tuple[int, int]]) -> pd.DataFrame:
    """Evaluation rows of cells: runs in rows, lengths 2, 4, 6, ... in columns."""
    rows = [
        {"cell": cell, "cell_order": order, "trial_id": f"{cell}{seed}", "exact_match": value}
        | {"seed": seed[0], "data_seed": seed[1], "length": 2 * column + 2}
        for order, (cell, table) in enumerate(tables.items())
        for seed, curve in zip(seeds, table, strict=True)
        for column, value in enumerate(curve)
    ]
    common = {"status": "ok", "checkpoint": "last", "range": "test", "second_length": None}
    return pd.DataFrame([common | row for row in rows]).astype({"second_length": "Int64"})


@pytest.mark.parametrize("seeds", [[(i, i) for i in range(8)], CROSS])
def test_interval_of_l95_resamples_whole_runs(seeds: list[tuple[int, int]]):
    """Against all medians of all resamples, each with its own L95."""
    rng = np.random.default_rng(10)
    values = 1.02 - 0.02 * np.arange(6) + rng.normal(0, 0.03, size=(8, 1))
    values += rng.normal(0, 0.02, size=(8, 6))  # a longer length may be solved after a failure
    if seeds == CROSS:
        rows, columns = draw_cross(4, 2)
        drawn = values.reshape(4, 2, 6)[rows[:, :, None], columns[:, None, :]]
        medians = np.median(drawn.reshape(-1, 8, 6), axis=1)
    else:
        draws = np.random.default_rng(0).integers(0, 8, size=(10_000, 8))
        medians = np.median(values[draws], axis=1)
    lengths = range(2, 13, 2)
    all_l95 = [generalizable_length(lengths, median).length for median in medians]
    expected = np.quantile(all_l95, [0.025, 0.975], method="inverted_cdf")
    assert (np.diff(medians > 0.95, axis=1) & (medians > 0.95)[:, 1:]).any()
    evaluation = make_cells({"a": values}, seeds).sample(frac=1, random_state=0)
    (row,) = statistics.cell_l95(evaluation).to_dict("records")
    assert [row["l95_low"], row["l95_high"]] == expected.tolist()
    assert row["l95"] == generalizable_length(lengths, np.median(values, axis=0)).length
    assert row["l95_low"] < row["l95"] < row["l95_high"]
    assert row["interval"] == ("crossed bootstrap" if seeds == CROSS else "bootstrap")


def test_l95_of_each_cell():
    evaluation = example().evaluation
    frame = statistics.cell_l95(evaluation)
    runs = statistics.run_l95(evaluation).groupby("cell_order")["l95"]
    assert frame["cell"].tolist() == example().cells
    assert frame["l95_low"].tolist() == runs.min().tolist()
    assert frame["l95_high"].tolist() == runs.max().tolist()
    assert set(frame["interval"]) == {"range"}
    three = frame[frame["cell"] == "coupling, 3 layers"].iloc[0]
    assert (three["l95"], three["l95_is_lower_bound"], three["n"]) == (20, True, 3)
    assert three["l95_high_is_lower_bound"]
    assert not frame.loc[frame["cell"] == "NoPE, 3 layers", "l95_high_is_lower_bound"].any()
    assert statistics.cell_l95(evaluation[:0]).empty


def test_l95_of_a_cell_that_always_or_never_solves_or_fails_in_between():
    curves = {"always": [1.0, 1.0, 1.0], "never": [0.5, 0.5, 0.5], "between": [1.0, 0.5, 1.0]}
    tables = {cell: np.tile(curve, (6, 1)) for cell, curve in curves.items()}
    frame = statistics.cell_l95(make_cells(tables, [(i, i) for i in range(6)]))
    ends = frame[["l95_low", "l95", "l95_high"]].to_numpy().tolist()
    assert ends == [[6, 6, 6], [0, 0, 0], [2, 2, 2]]
    assert frame["l95_is_lower_bound"].tolist() == [True, False, False]
    assert frame["l95_high_is_lower_bound"].tolist() == [True, False, False]


def test_train_pools_examples():
    evaluation = example(complete=True).evaluation
    pooled = statistics.train_exact_match(evaluation)
    train = evaluation[evaluation["range"] == "train"]
    assert pooled["exact_match"].mean() == pytest.approx(train["exact_match"].mean())


def test_failure_shares_add_up_and_leave_diverged_runs_out():
    frame = statistics.failure_shares(example().evaluation)
    shares = frame[["share_missed_stop", "share_early_stop", "share_wrong_symbol"]].sum(axis=1)
    assert shares[frame["num_failures"] > 0].tolist() == pytest.approx(
        [1.0] * (frame["num_failures"] > 0).sum()
    )
    ape = frame[(frame["cell"] == "APE, 3 layers") & (frame["length"] == 20)].iloc[0]
    assert ape["num_examples"] == 2 * 2000
    assert ape["num_failures"] == 2 * 2000
