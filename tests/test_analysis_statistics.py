"""Statistics against closed forms, scipy and plain resampling."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from analysis import statistics
from analysis.load import select_checkpoint
from analysis.statistics import L95, generalizable_length, median_interval, wilson_interval
from tests.test_analysis_load import example


@pytest.mark.parametrize(
    ("successes", "total"), [(0, 3), (1, 3), (3, 3), (5, 8), (8, 8), (37, 120)]
)
def test_wilson_agrees_with_scipy(successes: int, total: int):
    reference = binomtest(successes, total).proportion_ci(0.95, method="wilson")
    assert wilson_interval(successes, total) == pytest.approx((reference.low, reference.high))


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


def test_bootstrap_is_deterministic_and_ignores_order():
    values = [0.2, 0.9, 0.99, 1.0, 0.4, 0.97]
    state = np.random.get_state()[1].tolist()  # noqa: NPY002
    assert median_interval(values) == median_interval(values[::-1])
    assert np.random.get_state()[1].tolist() == state  # noqa: NPY002


def test_few_runs_give_their_full_range():
    assert median_interval([0.5, 0.1, 0.9]) == (0.1, 0.9)
    assert median_interval([0.5]) == (0.5, 0.5)
    assert np.isnan(median_interval([])).all()
    assert [statistics.interval_kind(n) for n in (0, 1, 2, 4, 5)] == (
        ["none", "none", "range", "range", "bootstrap"]
    )


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


def test_length_statistics_cover_all_keys_once():
    results = example()
    frame = statistics.length_statistics(results.evaluation)
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
    evaluation = select_checkpoint(example(complete=True), "last")
    frame = statistics.run_l95(evaluation)
    assert len(frame) == 18
    three = frame[frame["cell"] == "coupling, 3 layers"]
    assert three["l95"].tolist() == [20, 20, 20]
    assert three["l95_is_lower_bound"].all()


def test_train_pools_examples():
    evaluation = select_checkpoint(example(complete=True), "last")
    pooled = statistics.train_exact_match(evaluation)
    train = evaluation[evaluation["range"] == "train"]
    assert pooled["exact_match"].mean() == pytest.approx(train["exact_match"].mean())


def test_failure_shares_add_up_and_leave_diverged_runs_out():
    frame = statistics.failure_shares(select_checkpoint(example(), "last"))
    shares = frame[["share_missed_stop", "share_early_stop", "share_wrong_symbol"]].sum(axis=1)
    assert shares[frame["num_failures"] > 0].tolist() == pytest.approx(
        [1.0] * (frame["num_failures"] > 0).sum()
    )
    ape = frame[(frame["cell"] == "APE, 3 layers") & (frame["length"] == 20)].iloc[0]
    assert ape["num_examples"] == 2 * 2000
    assert ape["num_failures"] == 2 * 2000
