"""Findings are judged as their rules say, and nothing is decided by rows that cannot."""

from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache

import pandas as pd
import pytest

from analysis.findings import (
    Decision,
    Finding,
    decide,
    join,
    judge,
    load_findings,
    patterns_of,
    read_rule,
)
from analysis.load import Results
from sweeps.commands.catalogue import find_sweep, sweep_names
from tests.analysis.statistics.test_mechanism import head, with_rows
from tests.support.rows.finding_rows import make_results, reach, world

GOOD, SHORT, BROKEN = ([reach(n)] * 4 for n in (20, 8, 0))
ALMOST = [reach(8) | {8: 0.5}] * 4  # most of what training draws is wrong
FINDINGS = load_findings()
ORDER = {"better": "a", "worse": "b"}
REACHED = {"metric": "L95", "cells": "a", "low": 18}
COLLAPSED = {"metric": "L95", "cells": "a", "high": 12, "fits": True}
AT_16 = {"metric": "EM@16", "cells": "a", "low": 0.9, "exceeds": 0.95}
UNFITTED = {"metric": "train", "cells": "a", "high": 0.9, "learned": True}
SPREAD = {"metric": "spread@16", "cells": "a*", "high": 0.1}
RANKS = {"better": "a", "worse": "b", "length": 16, "test": "ranks", "fits": []}
CEILING = {"metric": "above ceiling@3", "cells": "a", "high": 3}
LONGER = {"better": "a", "worse": "b", "metric": "L95"}


CASES = [  # rule, cells, outcome
    (AT_16, {"a": GOOD}, "exceeded"),
    (AT_16, {"a": [reach(8, 0.9)] * 4}, "holds"),  # the range has its ends
    (AT_16, {"a": [reach(8, 0.89)] * 4}, "fails"),
    (AT_16, {"a": GOOD[:3]}, None),
    (AT_16 | {"metric": "EM@17"}, {"a": GOOD}, None),  # not tested
    (AT_16 | {"metric": "EM@20x15"}, {"a": [{(20, 15): 1.0, (20, 30): 0.0}] * 4}, "exceeded"),
    (AT_16 | {"metric": "EM@20"}, {"a": [{(20, 15): 1.0, (20, 30): 0.0}] * 4}, "fails"),
    (REACHED | {"exceeds": 22}, {"a": [reach(24)] * 4}, "exceeded"),
    (REACHED, {"a": [reach(20)] * 3 + [reach(8)] * 2}, "holds"),  # the median, not the mean
    (REACHED | {"low": 30}, {"a": [reach(24)] * 4}, None),  # nothing longer was tested
    (REACHED, {"a": [reach(20), *SHORT]}, "fails"),
    (REACHED | {"metric": "best L95"}, {"a": [reach(20), *SHORT]}, "holds"),
    (REACHED | {"metric": "best L95", "low": 12},  # the first failure counts, and no mean
     {"a": [reach(20) | {10: 0.0}, reach(20) | {12: 0.0}, *SHORT[:2]]}, "fails"),
    (COLLAPSED, {"a": GOOD}, "fails"),
    (COLLAPSED, {"a": ALMOST}, None),
    (COLLAPSED | {"high": 30}, {"a": [reach(24)] * 4}, None),
    (COLLAPSED, {"a": [{n: float(n <= 8) for n in (*range(1, 9), 16)}] * 4}, None),  # far
    (COLLAPSED, {"a": [{n: float(n <= 8) for n in (*range(1, 9), 15)}] * 4}, "holds"),
    (UNFITTED, {"a": [reach(4)] * 4}, "holds"),
    (UNFITTED, {"a": SHORT}, "fails"),
    (UNFITTED, {"a": BROKEN}, None),
    (UNFITTED | {"fits": "b"}, {"a": [reach(4)] * 4, "b": ALMOST}, None),
    (SPREAD, {"a, 1": [reach(8, 0.97)] * 4, "a, 2": [reach(8, 0.9)] * 4}, "holds"),
    (SPREAD, {"a, 1": [reach(8, 0.97)] * 4, "a, 2": [reach(8, 0.8)] * 4}, "fails"),
    (ORDER, {"a": GOOD, "b": SHORT}, "holds"),
    (ORDER, {"a": SHORT, "b": GOOD}, "reversed"),
    (ORDER, {"a": [*GOOD[1:], reach(8)], "b": [*SHORT[1:], reach(12)]}, "not separated"),
    (ORDER, {"a": GOOD, "b": SHORT[:3]}, None),
    (ORDER, {"a": GOOD, "b": [reach(0) | dict.fromkeys(range(1, 9), 0.95)] * 4}, None),
    (ORDER, {"a": GOOD, "b": [reach(0) | dict.fromkeys(range(1, 9), 0.951)] * 4}, "holds"),
    (ORDER | {"fits": "a"}, {"a": GOOD, "b": BROKEN}, "holds"),
    (ORDER | {"learned": "b", "fits": "a"}, {"a": GOOD, "b": BROKEN}, None),
    (ORDER, {"a": [reach(24)] * 4, "b": [reach(24)] * 4}, "saturated"),  # all solved
    (ORDER, {"a": SHORT, "b": SHORT}, "saturated"),  # nothing left anywhere
    (ORDER, {"a": [reach(20)] * 4, "b": [reach(16)] * 4}, "holds"),  # both solve 12: at 18
    (LONGER, {"a": GOOD, "b": SHORT}, "holds"),
    (LONGER, {"a": SHORT, "b": GOOD}, "reversed"),
    (LONGER, {"a": GOOD, "b": GOOD}, "not separated"),
    (LONGER, {"a": GOOD, "b": [reach(24)] * 4}, "reversed"),
    (LONGER, {"a": [reach(24)] * 4, "b": [reach(24)] * 4}, None),
    (RANKS, {"a": [reach(8, 0.9)] * 8, "b": [reach(8, 0.8)] * 8}, "holds"),
    (RANKS, {"a": [reach(8, 0.8)] * 8, "b": [reach(8, 0.9)] * 8}, "reversed"),
    (RANKS, {"a": [reach(8, 0.8 + i / 50) for i in range(8)],
             "b": [reach(8, 0.79 + i / 50) for i in range(8)]}, "not separated"),
    (RANKS, {"a": [*[reach(8, 0.9)] * 7, reach(8)], "b": [reach(8, 0.5)] * 8}, "holds"),
    (CEILING, {"a": [{1: 0.9, 3: 0.05}] * 3 + [{1: 0.9, 3: 0.0839}]}, "holds"),  # by chance
    (CEILING, {"a": [{1: 0.9, 3: 0.05}] * 3 + [{1: 0.9, 3: 0.092}]}, "fails"),
    (CEILING, {"a": [{1: 0.0, 3: 0.0}] * 4}, None),  # nothing was learned
]  # fmt: skip


@cache
def all_cases() -> Results:
    """Every case in one sweep, whose statistics are computed once."""
    named = enumerate(cells for _, cells, _ in CASES)
    return make_results({f"{i} {name}": runs for i, cells in named for name, runs in cells.items()})


@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_rule_decides_what_it_says(number):
    rule, _, expected = CASES[number]
    names = {"cells", "better", "worse", "fits", "learned"}
    of_cells = {k: f"{number} {v}" for k, v in rule.items() if k in names and isinstance(v, str)}
    decision = decide(read_rule(rule | of_cells), all_cases())
    assert decision.outcome == expected, decision


def altered(results: Results, **columns: pd.Series) -> Results:
    rows = results.evaluation.assign(**columns)
    return replace(results, evaluation=rows, all_evaluation=rows)


RULES = [read_rule(rule) for rule in (ORDER, AT_16 | {"metric": "EM@12"}, REACHED | {"low": 9})]


@pytest.mark.parametrize("rule", RULES, ids=["order", "at", "reach"])
def test_runs_of_few_examples_and_rows_that_do_not_fit_together_decide_nothing(rule):
    results = make_results({"a": GOOD, "b": SHORT})
    rows, trials = results.evaluation, results.trials
    assert decide(rule, results).holds
    at = (rows["cell"] == "a") & (rows["length"] == 12)
    few = altered(results, num_examples=rows["num_examples"].where(~at, 199))
    assert decide(rule, few).outcome is None
    enough = altered(results, num_examples=rows["num_examples"].where(~at, 200))
    assert decide(rule, enough).holds
    other = altered(results, test_set=rows["test_set"].where(rows["seed"] > 0, "other"))
    assert "different test sets" in decide(rule, other).ours
    first = trials["seed"] == 0
    for column, words in (("code_hash", "2 versions of the code"), ("cell_id", "mixes 2 conf")):
        mixed = replace(
            results, trials=trials.assign(**{column: trials[column].where(~first, "x")})
        )
        assert decide(rule, mixed).outcome is None
        assert words in decide(rule, mixed).ours


@pytest.mark.parametrize("rule", [ORDER, RANKS, LONGER, SPREAD | {"cells": "*", "high": 1.0}])
def test_cells_that_answered_other_questions_are_not_compared(rule):
    """One test set in several formats asks the same; a diverged run is wrong on any."""
    results = make_results({"a": [reach(8, 0.9)] * 4, "b": SHORT})
    rows = results.evaluation
    other = (rows["cell"] == "b") & (rows["length"] == 12)
    sets = rows["test_set"].where(~other, "other")
    apart = altered(results, test_set=sets)
    assert "different test sets, so they are not compared" in decide(read_rule(rule), apart).ours
    asked = altered(results, test_set=sets, asked="additions")
    diverged = altered(results, test_set=sets, status=rows["status"].where(~other, "diverged"))
    for same in (asked, diverged):
        assert "test sets" not in decide(read_rule(rule), same).ours


def test_runs_that_diverged_do_not_show_that_an_arm_cannot_fit():
    results = make_results({"a": [reach(4)] * 4})
    for num_diverged, expected in ((2, "holds"), (3, None)):
        lost = results.evaluation["seed"] < num_diverged
        status = results.evaluation["status"].where(~lost, "diverged")
        assert decide(read_rule(UNFITTED), altered(results, status=status)).outcome == expected


def test_a_pattern_asks_every_cell_and_must_match_one():
    cells = {"a, 1": GOOD, "a, 2": SHORT}
    results = make_results(cells)
    decision = decide(read_rule(REACHED | {"cells": "a, *"}), results)
    assert (decision.outcome, decision.ours) == ("fails", "a, 1: L95 20; a, 2: L95 8")
    assert "no cell 'APE' in" in decide(read_rule(AT_16 | {"cells": "APE"}), results).ours
    both = decide(read_rule({"better": "a, 1", "worse": "a, *"}), results)
    assert both.ours == "every cell of 'a, 1' is one of 'a, *' too"


def test_all_of_several_is_refuted_undecided_or_true():
    def decision(word: str | None, n: int) -> Decision:
        return Decision(outcome=word, ours=f"{word} {n}", n=n, is_few=n < 4)

    yes, more, no, few = (
        decision(word, n) for word, n in (("holds", 8), ("exceeded", 5), ("fails", 6), (None, 2))
    )
    for several, outcome, n in (
        ([yes, more], "holds", 5),
        ([more, more], "exceeded", 5),
        ([yes, few], None, 2),
        ([yes, few, no], "fails", 6),
        ([no, decision("reversed", 4)], "reversed", 4),
    ):
        joined = join(several)
        assert (joined.outcome, joined.n, joined.is_few) == (outcome, n, outcome is None)


def test_the_smallest_p_is_that_of_the_seeds_as_they_are_shared():
    crossed = make_results({"a": GOOD, "b": SHORT})
    seeds = {"seed": crossed.evaluation["seed"] // 2, "data_seed": crossed.evaluation["seed"] % 2}
    order = read_rule(ORDER)
    assert decide(order, crossed).least_p == pytest.approx(2 / 70)
    assert decide(order, altered(crossed, **seeds)).least_p == pytest.approx(0.098, abs=0.004)
    assert decide(read_rule(REACHED), crossed).least_p == pytest.approx(1 / 8)


# Proven -------------------------------------------------------------------------------------------

EXACT = {"metric": "right to 2^P - 2", "cells": "theory*", "low": 1, "near": 0.95}


def test_a_constructed_model_is_right_to_its_bound_and_nowhere_beyond():
    results = make_results({"theory": [reach(14)]})
    results = replace(results, trials=results.trials.assign(**{"model.num_bits": 4.0}))
    assert decide(read_rule(EXACT), results).outcome == "holds"
    beyond = {"metric": "right beyond 2^P - 2", "cells": "theory", "high": 0}
    assert decide(read_rule(beyond), results).outcome == "holds"
    rows = results.evaluation
    wrong = altered(results, num_correct=rows["num_correct"].where(rows["length"] != 5, 999))
    assert decide(read_rule(EXACT), wrong).outcome == "fails"
    far = altered(results).evaluation.query("length != 14")
    far = replace(results, evaluation=far, all_evaluation=far)
    assert "nothing from 95 % of a bound on was tested" in decide(read_rule(EXACT), far).ours
    few = altered(results, num_examples=10, num_correct=10 * (rows["length"] <= 14))
    assert decide(read_rule(EXACT), few).ours.endswith("nowhere on 200 examples")


@pytest.mark.parametrize(
    ("masses", "expected"), [((1.0, 1.0), "holds"), ((1.0, 0.1), "fails"), ((0.5, 0.5), "holds")]
)
def test_heads_show_both_patterns_of_the_theorem(masses, expected):
    results = make_results({"a": SHORT})
    heads = [head(name, m, most=1.0) for name, m in zip(("next", "same"), masses, strict=True)]
    results = with_rows(results, [("a", run, row) for run in range(4) for row in heads])
    rule = read_rule({"metric": "pattern", "cells": "a", "low": 0.5})
    assert decide(rule, results).outcome == expected


# Verdicts -----------------------------------------------------------------------------------------


def finding(**changes) -> Finding:
    usual = {"sweep": "ours", "text": "t", "published": "p", "certainty": "paper"}
    rules = {k: read_rule(v) if isinstance(v, dict) else v for k, v in changes.items()}
    return Finding(**(usual | rules))


def test_each_scale_decides_by_its_own_rule():
    """Only a published number at paper scale is reproduced; what is proven needs no rows."""
    laptop, paper = (
        make_results({"a": GOOD, "b": SHORT}),
        make_results({"a": SHORT, "b": SHORT}, "paper"),
    )
    both = finding(paper=REACHED, laptop=ORDER, laptop_text="weaker")
    (row,) = judge([both], [laptop])
    assert (row.verdict, row.scale, row.text) == ("holds", "laptop", "weaker")
    assert row.beside.startswith("not the published value (see the rule)")
    (row,) = judge([both], [laptop, paper])
    assert (row.verdict, row.scale, row.text) == ("not reproduced", "paper", "t")
    few = paper.evaluation[paper.evaluation["seed"] < 3]
    (row,) = judge([both], [laptop, replace(paper, evaluation=few, all_evaluation=few)])
    assert (row.verdict, row.scale) == ("holds", "laptop")
    words = [row.verdict for row in judge([finding(paper=REACHED), finding(laptop=ORDER)], [])]
    assert words == ["not run at paper scale", "not run"]
    long = make_results({"a": GOOD}, "paper")
    same = [finding(paper=REACHED, certainty=word) for word in ("paper", "ours")]
    assert [row.verdict for row in judge(same, [long])] == ["reproduced", "holds"]
    proven = [row for row in judge(FINDINGS, []) if row.scale == "any"]
    assert [row.verdict for row in proven] == ["holds"]


def test_planned_runs_without_a_result_are_named():
    results = make_results({"a": GOOD * 2, "b": SHORT, "c": SHORT})
    trials = results.trials.copy()
    trials.loc[1:3, "status"], trials.loc[4, "status"] = "missing", "oom"
    trials.loc[trials["cell"] == "c", "status"] = "error"  # no rule names it
    lost = trials.loc[trials["status"] != "ok", "trial_id"]
    rows = results.evaluation[~results.evaluation["trial_id"].isin(lost)]
    results = replace(results, trials=trials, evaluation=rows, all_evaluation=rows)
    (row,) = judge([finding(laptop=ORDER)], [results])
    assert row.verdict == "holds"
    assert row.decision.ours.endswith("; 4 of 12 planned runs do not count: 3 missing, 1 oom")


# The file -----------------------------------------------------------------------------------------


def test_every_finding_names_a_sweep_and_its_cells():
    """Each pattern of a rule matches a cell of the sweep at the scale where the rule applies."""
    names = sweep_names()
    labels = cache(lambda *view: [cell.label for cell in find_sweep(view[0]).cells(view[1])])
    for finding in FINDINGS:
        assert finding.sweep in names
        assert len(finding.text) < 100
        scales = [("paper", finding.paper), ("laptop", finding.laptop), ("laptop", finding.proven)]
        for scale, rule in scales:
            for pattern in patterns_of(rule or ()):
                there = labels(finding.sweep, scale)
                assert any(fnmatchcase(label, pattern) for label in there), (pattern, there)


NUMBERS = [f for f in FINDINGS if not f.is_ours and patterns_of(f.proven or f.paper or ())]


@pytest.mark.parametrize("finding", NUMBERS, ids=lambda finding: finding.text)
def test_a_number_holds_of_published_results_and_not_of_broken_models(finding):
    rule = finding.proven or finding.paper
    assert decide(rule, world(finding.sweep, "published")).outcome == "holds"
    assert not decide(rule, world(finding.sweep, "broken")).holds
