"""Rules about single cells decide what they say, whatever the runs look like."""

import dataclasses

import pytest

from analysis.claims.combined import Given
from analysis.claims.evidence import match_cells
from analysis.claims.rules import (
    DoesNotFit,
    ExactMatchAt,
    Fits,
    NothingLeftAt,
    Reaches,
    ReachesAtMost,
    collapses,
    learned,
)
from tests.support.rows.claim_rows import TRAINED, make_results, reach
from tests.support.rows.claim_worlds import ALMOST, BROKEN, GOOD, SHORT, outcome


@pytest.mark.parametrize(
    ("runs", "expected"),
    [(GOOD, "exceeded"), ([reach(8, 0.92)] * 4, "holds"), ([reach(8, 0.89)] * 4, "fails"),
     (BROKEN, "fails")],
)  # fmt: skip
def test_exact_match_at_a_length(runs, expected):
    assert outcome(ExactMatchAt(cells="a", length=16, least=0.9, better=0.95), {"a": runs}) == (
        expected
    )


def test_a_length_that_was_not_tested_decides_nothing():
    decision = ExactMatchAt(cells="a", length=17, least=0.9).decide(make_results({"a": GOOD}))
    assert (decision.outcome, decision.few) == (None, False)
    assert "17 was not tested" in decision.ours


def test_a_pair_of_lengths_is_judged_alone():
    """A perfect reproduction of 20 x 15 need not reach 18 x 30."""
    curve = {(n, m): float(n * m <= 300) for n in (8, 18, 20) for m in (5, 15, 30)}
    cells = {"a": [curve] * 4}
    assert outcome(ExactMatchAt(cells="a", length=20, second=15, least=0.9), cells) == "holds"
    assert outcome(ExactMatchAt(cells="a", length=20, second=30, least=0.9), cells) == "fails"
    assert outcome(ExactMatchAt(cells="a", length=20, second=16, least=0.9), cells) is None
    assert outcome(NothingLeftAt(cells="a", length=20, second=30), cells) == "holds"
    assert outcome(NothingLeftAt(cells="a", length=20, second=15), cells) == "fails"


@pytest.mark.parametrize(
    ("runs", "expected"),
    [(GOOD, "holds"), (SHORT, "fails"), (BROKEN, "fails"), ([reach(24)] * 4, "exceeded"),
     ([reach(20)] * 2 + [reach(8)] * 3, "fails")],
)  # fmt: skip
def test_reaching_a_length(runs, expected):
    assert outcome(Reaches(cells="a", least=18, better=22), {"a": runs}) == expected


def test_tests_that_end_too_early_decide_nothing():
    assert outcome(Reaches(cells="a", least=30), {"a": [reach(24)] * 4}) is None
    assert outcome(ReachesAtMost(cells="a", most=30), {"a": [reach(24)] * 4}) is None
    assert outcome(ReachesAtMost(cells="a", most=22), {"a": [reach(24)] * 4}) == "fails"


def test_the_best_run_may_reach_further():
    mixed = [reach(20), *SHORT]
    rule = Reaches(cells="a", least=18)
    assert outcome(rule, {"a": mixed}) == "fails"
    assert outcome(dataclasses.replace(rule, over="best run"), {"a": mixed}) == "holds"
    assert outcome(dataclasses.replace(rule, over="best run"), {"a": BROKEN}) == "fails"


@pytest.mark.parametrize(
    ("runs", "expected"), [(SHORT, "holds"), (GOOD, "fails"), (BROKEN, None), (ALMOST, None)]
)
def test_a_collapse_wants_the_trained_lengths_fitted(runs, expected):
    decision = collapses("a", 12).decide(make_results({"a": runs}))
    assert decision.outcome == expected
    if expected is None:
        assert "not judged: does not fit the trained lengths" in decision.ours
        assert not decision.few
    rule = Given(Fits(cells="a"), NothingLeftAt(cells="a", length=14))
    assert outcome(rule, {"a": runs}) == expected


@pytest.mark.parametrize(
    ("runs", "expected"),
    [(ALMOST, "fails"), (SHORT, "fails"), (BROKEN, None), ([reach(4)] * 4, "holds")],
)
def test_not_fitting_is_more_than_one_bad_length(runs, expected):
    rule = DoesNotFit(cells="a", least=0.005)
    assert outcome(rule, {"a": runs}) == expected
    control = Given(Fits(cells="control"), rule)
    assert outcome(control, {"a": runs, "control": GOOD}) == expected
    assert outcome(control, {"a": runs, "control": ALMOST}) is None


def test_runs_that_diverged_do_not_show_that_an_arm_cannot_fit():
    results = make_results({"a": [reach(4)] * 4})
    rows = results.evaluation.copy()
    rows["status"] = rows["status"].where(rows["seed"] > 2, "diverged")
    decision = DoesNotFit(cells="a").decide(dataclasses.replace(results, evaluation=rows))
    assert (decision.outcome, decision.ours) == (None, "3 runs diverged")


def test_a_pattern_asks_every_cell_that_it_matches():
    results = make_results({"a, 1": GOOD, "a, 2": SHORT})
    decision = Reaches(cells="a, *", least=18).decide(results)
    assert decision.outcome == "fails"
    assert "a, 1: L95 20; a, 2: L95 8" in decision.ours
    assert Reaches(cells="a, 1", least=18).decide(results).outcome == "holds"
    with pytest.raises(ValueError, match=r"no cell of ours .* 'APE'; there: a, 1"):
        match_cells(results, "APE")


# Runs that differ ---------------------------------------------------------------------------------

MOSTLY_FIT = [reach(20)] * 3 + [reach(8) | {5: 0.5}] * 2  # the median fits, the mean does not


def test_one_length_of_few_runs_does_not_spoil_a_fit():
    assert outcome(Fits(cells="a"), {"a": MOSTLY_FIT}) == "holds"
    assert outcome(Fits(cells="a"), {"a": MOSTLY_FIT[1:] + MOSTLY_FIT[-1:]}) == "fails"


@pytest.mark.parametrize(("share", "expected"), [(0.95, "fails"), (0.951, "holds")])
def test_fitting_is_more_than_95_percent(share, expected):
    assert outcome(Fits(cells="a"), {"a": [reach(8) | {5: share}] * 4}) == expected


def test_the_reached_length_is_that_of_the_median_and_not_of_the_mean():
    runs = [reach(20)] * 3 + [reach(8)] * 2
    assert outcome(Reaches(cells="a", least=18), {"a": runs}) == "holds"
    assert outcome(ReachesAtMost(cells="a", most=12), {"a": runs}) == "fails"


def test_the_best_run_is_one_run_and_not_the_best_at_each_length():
    runs = [reach(20) | {10: 0.0}, reach(20) | {12: 0.0}, reach(8), reach(8)]
    rule = Reaches(cells="a", least=12, over="best run")
    decision = rule.decide(make_results({"a": runs}))
    assert (decision.outcome, decision.ours) == ("fails", "L95 10")


@pytest.mark.parametrize(("num_diverged", "expected"), [(2, "holds"), (3, None)])
def test_not_fitting_needs_half_of_the_runs_not_diverged(num_diverged, expected):
    results = make_results({"a": [reach(4)] * 4})
    rows = results.evaluation.copy()
    rows["status"] = rows["status"].where(rows["seed"] >= num_diverged, "diverged")
    changed = dataclasses.replace(results, evaluation=rows)
    assert DoesNotFit(cells="a").decide(changed).outcome == expected


def test_of_several_second_lengths_the_worst_counts():
    pairs = {(8, 2): 1.0, (8, 3): 0.8}
    results = make_results({"a": [pairs] * 4})
    decision = ExactMatchAt(cells="a", length=8, least=0.9).decide(results)
    assert (decision.outcome, decision.ours) == ("fails", "80.0 % at 8")
    assert Fits(cells="a").decide(results).outcome == "fails"


def test_a_failure_that_was_only_seen_far_above_the_limit_decides_nothing():
    curve = {n: float(n <= 8) for n in (*TRAINED, 24)}
    decision = collapses("a", 12).decide(make_results({"a": [curve] * 4}))
    assert (decision.outcome, decision.few) == (None, False)
    assert "nothing between it and 24 was tested" in decision.ours
    assert outcome(collapses("a", 12), {"a": [curve | {15: 0.0}] * 4}) == "holds"
    assert outcome(collapses("a", 12), {"a": [curve | {16: 0.0}] * 4}) is None


@pytest.mark.parametrize(
    ("runs", "expected"), [(BROKEN, None), (GOOD, "holds"), ([reach(1)] * 4, "holds")]
)
def test_an_arm_that_is_right_on_no_trained_length_learned_nothing(runs, expected):
    assert outcome(learned("a"), {"a": runs}) == expected
