"""Only rows that fit together, of enough runs and examples, decide anything."""

import dataclasses

import pytest

from analysis.claims.combined import Every, Given
from analysis.claims.evidence import LEAST_EXAMPLES, LEAST_RUNS, Decision, join
from analysis.claims.orderings import Alike, HigherMedian, Longer, Separated, beats
from analysis.claims.rules import ExactMatchAt, Fits, Reaches, ReachesAtMost
from tests.support.rows.claim_rows import make_results
from tests.support.rows.claim_worlds import GOOD, SHORT, outcome

ORDER = Separated(better="better", worse="worse", times=1.5)
RULES = [
    ORDER,
    ExactMatchAt(cells="better", length=12, least=0.9),
    Reaches(cells="better", least=9),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_runs_that_lack_the_length_do_not_count(rule):
    results = make_results({"better": GOOD, "worse": SHORT})
    rows = results.evaluation
    lost = (rows["cell"] == "better") & (rows["seed"] > 1) & (rows["length"] == 12)
    decision = rule.decide(dataclasses.replace(results, evaluation=rows[~lost]))
    assert (decision.outcome, decision.n, decision.few) == (None, 2, True)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_too_few_examples_do_not_count(rule):
    results = make_results({"better": GOOD, "worse": SHORT})
    assert rule.decide(results).outcome == "holds"
    rows = results.evaluation.copy()
    at = (rows["cell"] == "better") & (rows["length"] == 12)
    rows.loc[at, ["num_examples", "num_correct"]] = 5
    assert rule.decide(dataclasses.replace(results, evaluation=rows)).few
    rows.loc[at, ["num_examples", "num_correct"]] = LEAST_EXAMPLES
    assert rule.decide(dataclasses.replace(results, evaluation=rows)).outcome == "holds"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_rows_that_do_not_fit_together_are_refused(rule):
    results = make_results({"better": GOOD, "worse": SHORT})
    first = results.trials["seed"] == 0
    for column, message in (("code_hash", "2 versions of the code"), ("cell_id", "mixes 2 conf")):
        trials = results.trials.copy()
        trials[column] = trials[column].where(~first, "other")
        with pytest.raises(ValueError, match=message):
            rule.decide(dataclasses.replace(results, trials=trials))
    rows = results.evaluation.copy()
    rows["test_set"] = rows["test_set"].where(rows["seed"] > 0, "other")
    with pytest.raises(ValueError, match="different test sets"):
        rule.decide(dataclasses.replace(results, evaluation=rows))


def test_all_of_several_is_refuted_undecided_or_true():
    def decision(word: str | None, n: int) -> Decision:
        return Decision(outcome=word, ours=f"{word} {n}", n=n, few=n < LEAST_RUNS)

    yes, more, no, few = (
        decision(word, n) for word, n in (("holds", 8), ("exceeded", 5), ("fails", 6), (None, 2))
    )
    assert (join([yes, more]).outcome, join([yes, more]).n) == ("holds", 5)
    assert join([more, more]).outcome == "exceeded"
    assert (join([yes, few]).outcome, join([yes, few]).n, join([yes, few]).few) == (None, 2, True)
    refuted = join([yes, few, no])
    assert (refuted.outcome, refuted.n, refuted.few) == ("fails", 6, False)  # not at n = 2
    assert join([no, decision("reversed", 4)]).outcome == "reversed"
    rule = Every((Reaches(cells="a", least=18), ReachesAtMost(cells="b", most=8)))
    assert outcome(rule, {"a": GOOD, "b": SHORT}) == "holds"
    assert outcome(rule, {"a": GOOD, "b": GOOD}) == "fails"
    assert " and " in rule.text


def test_the_smallest_p_that_runs_can_reach():
    results = make_results({"better": GOOD, "worse": SHORT})
    assert ORDER.decide(results).least_p == pytest.approx(2 / 70)
    assert Reaches(cells="better", least=18).decide(results).least_p == pytest.approx(1 / 8)


COMPARISONS = {
    "separated": ORDER,
    "beats": beats("better", "worse"),
    "higher median": HigherMedian(better="better", worse="worse", length=12),
    "alike": Alike(cells="*", length=12, within=0.1),
    "longer": Longer(cells=("worse", "better")),
    "every": Every((Reaches(cells="better", least=9), ReachesAtMost(cells="worse", most=9))),
    "given": Given(Fits(cells="worse"), Reaches(cells="better", least=9)),
}
ALL_COMPARISONS = pytest.mark.parametrize("rule", COMPARISONS.values(), ids=COMPARISONS)


@ALL_COMPARISONS
def test_sides_of_two_versions_of_the_code_are_not_compared(rule):
    results = make_results({"better": GOOD, "worse": SHORT})
    assert rule.decide(results).outcome is not None
    trials = results.trials.copy()
    trials.loc[trials["cell"] == "worse", "code_hash"] = "other"
    with pytest.raises(ValueError, match="2 versions of the code"):
        rule.decide(dataclasses.replace(results, trials=trials))


def test_the_code_of_a_diverged_run_counts():
    results = make_results({"better": GOOD, "worse": SHORT})
    first = results.trials["seed"] == 0
    trials = results.trials.copy()
    trials["status"] = trials["status"].where(~first, "diverged")
    trials["code_hash"] = trials["code_hash"].where(~first, "other")
    with pytest.raises(ValueError, match="2 versions of the code"):
        ORDER.decide(dataclasses.replace(results, trials=trials))
    trials["status"] = trials["status"].where(~first, "error")  # has no rows
    assert ORDER.decide(dataclasses.replace(results, trials=trials)).outcome == "holds"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_another_test_set_at_one_length_is_enough(rule):
    results = make_results({"better": GOOD, "worse": SHORT})
    rows = results.evaluation.copy()
    other = (rows["seed"] == 0) & (rows["length"] == 20)
    rows["test_set"] = rows["test_set"].where(~other, "other")
    with pytest.raises(ValueError, match="different test sets"):
        rule.decide(dataclasses.replace(results, evaluation=rows))


@pytest.mark.parametrize("name", ["separated", "beats", "higher median", "alike", "longer"])
def test_sides_that_answered_other_questions_are_not_compared(name):
    """One test set in several formats asks the same."""
    rule, results = COMPARISONS[name], make_results({"better": GOOD, "worse": SHORT})
    rows = results.evaluation.copy()
    other = (rows["cell"] == "worse") & (rows["length"] == 12)
    rows["test_set"] = rows["test_set"].where(~other, "other")
    with pytest.raises(ValueError, match="different test sets, so they are not compared"):
        rule.decide(dataclasses.replace(results, evaluation=rows))
    same = dataclasses.replace(results, evaluation=rows.assign(asked="additions"))
    assert rule.decide(same).outcome is not None
    rows["status"] = rows["status"].where(~other, "diverged")  # wrong on any test set
    assert rule.decide(dataclasses.replace(results, evaluation=rows)).outcome is not None
