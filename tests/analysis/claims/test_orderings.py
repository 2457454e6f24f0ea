"""Rules that compare cells hold, are reversed or tell nothing apart as they say."""

import dataclasses

import pytest

from analysis.claims.orderings import Alike, HigherMedian, Longer, Separated, beats
from tests.support.rows.claim_rows import make_results, reach
from tests.support.rows.claim_worlds import ALMOST, BROKEN, GOOD, SHORT, outcome

ORDER = Separated(better="better", worse="worse", times=1.5)


@pytest.mark.parametrize(
    ("better", "worse", "expected"),
    [
        (GOOD, SHORT, "holds"),
        (SHORT, GOOD, "reversed"),
        (GOOD, [*SHORT, reach(20)], "not separated"),
        (BROKEN, BROKEN, "not separated"),
        (GOOD[:3], SHORT, None),
    ],
)
def test_separated_needs_every_run(better, worse, expected):
    decision = ORDER.decide(make_results({"better": better, "worse": worse}))
    assert decision.outcome == expected
    assert decision.few is (expected is None)


@pytest.mark.parametrize(
    ("better", "worse", "expected"),
    [(GOOD, SHORT, "holds"), (GOOD, BROKEN, None), (GOOD, ALMOST, None), (BROKEN, SHORT, None),
     (SHORT, GOOD, "reversed")],
)  # fmt: skip
def test_a_broken_arm_is_not_beaten(better, worse, expected):
    assert outcome(beats("better", "worse"), {"better": better, "worse": worse}) == expected


def test_two_lengths_are_compared_at_the_pair_nearest_to_both():
    def curve(good: set) -> dict:
        return {(n, m): float(n <= 8 or (n, m) in good) for n in (8, 12, 20) for m in (2, 11, 20)}

    cells = {"better": [curve({(12, 11)})] * 4, "worse": [curve({(12, 2), (20, 20)})] * 4}
    decision = ORDER.decide(make_results(cells))
    assert (decision.outcome, decision.ours[-7:]) == ("holds", "12 x 11")


def test_the_length_that_a_claim_names_counts_where_all_cells_were_tested_there():
    """At 12, near 1.5 times 8, all are alike; at 20 they are not."""
    named = dataclasses.replace(ORDER, named=20)
    far = {"better, 1": [reach(20)] * 4, "worse": [reach(12)] * 4}
    rule = dataclasses.replace(named, better="better, *")
    decision = rule.decide(make_results(far))
    assert (decision.outcome, decision.ours[-5:]) == ("holds", "at 20")
    assert decision.ours == "worst run of 'better, 1' 100.0 %, best of 'worse' 0.0 % at 20"
    near = dataclasses.replace(rule, named=None).decide(make_results(far))
    assert (near.outcome, near.ours[-5:]) == ("not separated", "at 12")
    untested = dataclasses.replace(rule, named=17).decide(make_results(far))
    assert (untested.outcome, untested.ours[-5:]) == ("not separated", "at 12")


def test_growth_of_the_reached_length():
    rule = Longer(cells=("a", "b", "c"))
    growing = {"a": [reach(8)] * 4, "b": [reach(12)] * 4, "c": [reach(24)] * 4}
    assert outcome(rule, growing) == "holds"
    assert outcome(rule, dict(zip("abc", reversed(growing.values()), strict=True))) == "reversed"
    assert outcome(rule, growing | {"b": growing["a"]}) == "not separated"
    assert outcome(rule, dict.fromkeys("abc", BROKEN)) == "not separated"
    assert outcome(rule, growing | {"a": growing["a"][:3]}) is None


def test_medians_that_are_alike_or_higher():
    cells = {"a, 1": [reach(8, 0.97)] * 4, "a, 2": [reach(8, 0.9)] * 4, "b": [reach(8, 0.8)] * 4}
    assert outcome(Alike(cells="a, *", length=16, within=0.1), cells) == "holds"
    assert outcome(Alike(cells="*", length=16, within=0.1), cells) == "fails"
    assert outcome(HigherMedian(better="a, *", worse="b", length=16), cells) == "holds"
    assert outcome(HigherMedian(better="b", worse="a, *", length=16), cells) == "reversed"
    assert outcome(HigherMedian(better="a, *", worse="a, 2", length=16), cells) == "not separated"
    few = cells | {"b": cells["b"][:2]}
    assert outcome(HigherMedian(better="a, *", worse="b", length=16), few) is None
    assert outcome(Alike(cells="*", length=16, within=0.5), few) is None


def test_the_length_of_a_comparison_follows_the_longest_trained_one():
    results = make_results({"better": GOOD, "worse": [reach(12)] * 4})
    trials = results.trials.copy()
    trials.loc[trials["cell"] == "better", "data.max_length"] = 12.0
    decision = ORDER.decide(dataclasses.replace(results, trials=trials))
    assert (decision.outcome, decision.ours[-5:]) == ("holds", "at 18")


def test_growth_past_the_longest_test_decides_nothing():
    rule = Longer(cells=("a", "b"))
    short_tests = dict.fromkeys(range(1, 13), 1.0)  # solved as far as it was tested
    assert outcome(rule, {"a": [short_tests] * 4, "b": GOOD}) is None
    assert outcome(rule, {"a": [reach(24)] * 4, "b": [reach(24)] * 4}) is None
    assert outcome(rule, {"a": [reach(24)] * 4, "b": GOOD}) == "reversed"
    assert outcome(rule, {"a": GOOD, "b": [short_tests] * 4}) is None
    three = Longer(cells=("a", "b", "c"))
    ends = [reach(24)] * 4
    assert outcome(three, {"a": GOOD, "b": ends, "c": ends}) is None
    assert outcome(three, {"a": GOOD, "b": GOOD, "c": ends}) == "not separated"


def test_a_higher_median_needs_runs_that_differ():
    rule = HigherMedian(better="a", worse="b", length=16)
    spread = [0.9, 0.95, 0.98, 0.985, 0.986, 0.987, 0.99, 0.995]
    high, low = ([reach(8, x - less) for x in spread] for less in (0, 0.001))
    assert outcome(rule, {"a": high, "b": low}) == "not separated"
    assert outcome(rule, {"a": low, "b": high}) == "not separated"
    worse = [reach(8, x - 0.1) for x in spread]
    assert outcome(rule, {"a": high, "b": worse}) == "holds"
    assert outcome(rule, {"a": worse, "b": high}) == "reversed"
    one_lost = [*high[1:], reach(8)]  # ranks, not means: a lost run does not hide the others
    assert outcome(rule, {"a": one_lost, "b": [reach(8, 0.5)] * 8}) == "holds"


def test_alike_is_a_difference_of_medians_up_to_the_limit():
    runs = [reach(8, x) for x in (0.95, 0.95, 0.95, 0.0, 0.0)]
    cells = {"a, 1": runs, "a, 2": [reach(8, 0.85)] * 4}
    assert outcome(Alike(cells="a, *", length=16, within=0.11), cells) == "holds"
    assert outcome(Alike(cells="a, *", length=16, within=0.09), cells) == "fails"
