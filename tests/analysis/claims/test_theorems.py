"""Rules about what is proven: exact to the bound, below the ceiling, attention as in the proof."""

import dataclasses
from collections.abc import Iterable
from fnmatch import fnmatchcase

import pandas as pd
import pytest

from analysis.claims.evidence import LEAST_EXAMPLES
from analysis.claims.published import CLAIMS
from analysis.claims.theorems import AttendsAsProven, BelowCeiling, CountedCeiling, ExactToBound
from analysis.load import RUN, Results
from pcore.evaluation import evaluation_lengths
from sweeps.commands.catalogue import find_sweep
from tests.support.rows.claim_rows import make_results, reach
from tests.support.rows.claim_worlds import outcome


def constructed(wrong_at: Iterable[int] = (), right_at: Iterable[int] = ()) -> Results:
    curve = reach(14) | dict.fromkeys(wrong_at, 0.999) | dict.fromkeys(right_at, 0.001)
    results = make_results({"theory, P=4": [curve]})
    return dataclasses.replace(results, trials=results.trials.assign(**{"model.num_bits": 4.0}))


def test_a_constructed_model_is_exact_to_its_bound():
    rule = ExactToBound(cells="theory, *", less=2)
    decision = rule.decide(constructed())
    assert (decision.outcome, decision.n) == ("holds", 1)
    assert rule.decide(constructed(wrong_at=[14])).outcome == "fails"
    assert rule.decide(constructed(right_at=[16])).outcome == "holds"
    beyond = dataclasses.replace(rule, beyond=True)
    assert beyond.decide(constructed()).outcome == "holds"
    assert beyond.decide(constructed(right_at=[16])).outcome == "fails"
    short = constructed()
    rows = short.evaluation[short.evaluation["length"] <= 14]
    assert beyond.decide(dataclasses.replace(short, evaluation=rows)).outcome is None


def test_counted_ceilings_are_the_published_ones():
    assert CountedCeiling(shares=((3, 0.062), (4, 0.01))).decide().outcome == "holds"
    assert CountedCeiling(shares=((3, 0.06),)).decide().outcome == "fails"
    assert CountedCeiling(shares=((3, 0.08),)).decide().outcome == "fails"


@pytest.mark.parametrize(
    ("curve", "expected"),
    [({1: 0.9, 3: 0.05}, "holds"), ({1: 0.9, 3: 0.2}, "fails"), ({1: 0.9, 3: 0.08}, "holds"),
     ({1: 0.0, 3: 0.0}, None), ({1: 0.9}, None)],
)  # fmt: skip
def test_a_trained_layer_stays_below_the_ceiling(curve, expected):
    assert outcome(BelowCeiling(cells="a", digits=(3,)), {"a": [curve] * 4}) == expected


def test_an_exact_model_needs_enough_examples_and_a_length_near_its_bound():
    rule, results = ExactToBound(cells="theory, *", less=2), constructed()
    rows = results.evaluation
    few = rows.assign(num_examples=1, num_correct=rows["exact_match"].astype(int))
    decision = rule.decide(dataclasses.replace(results, evaluation=few))
    assert (decision.outcome, decision.ours[-23:]) == (None, "nowhere on 200 examples")
    enough = rows.assign(num_examples=200, num_correct=200 * rows["exact_match"].astype(int))
    assert rule.decide(dataclasses.replace(results, evaluation=enough)).outcome == "holds"
    far = dataclasses.replace(results, evaluation=rows[rows["length"] != 14])
    assert rule.decide(far).outcome is None
    assert "nothing from 95 % of a bound on was tested" in rule.decide(far).ours
    assert dataclasses.replace(rule, near=0.8).decide(far).outcome == "holds"
    few.loc[few["length"] == 5, "num_correct"] = 0  # a wrong example is a wrong example
    assert rule.decide(dataclasses.replace(results, evaluation=few)).outcome == "fails"


@pytest.mark.parametrize("scale", ["laptop", "paper"])
@pytest.mark.parametrize("sweep", ["theory_limits", "multiplication_depth"])
def test_the_sweeps_test_a_length_near_enough_to_a_bound(sweep, scale):
    (rule,) = (c.proven for c in CLAIMS if c.sweep == sweep and c.proven
               and isinstance(c.proven, ExactToBound) and not c.proven.beyond)  # fmt: skip
    shares = []
    for cell in find_sweep(sweep).cells(scale):
        if fnmatchcase(cell.label, rule.cells):
            lengths = sum(evaluation_lengths(cell.config).values(), ())
            bound = 2**cell.config.model.num_bits - rule.less
            shares.append(max(n for n in lengths if n <= bound) / bound)
            assert cell.config.eval.num_examples >= LEAST_EXAMPLES
    assert max(shares) >= rule.near


@pytest.mark.parametrize(
    ("shares", "expected"),
    [([0.05] * 3 + [0.2], "fails"),  # every run counts, not most
     ([0.05] * 3 + [0.0839], "holds"),  # 2.9 standard errors of 1,000 examples above 6.19 %
     ([0.05] * 3 + [0.092], "fails")],  # 4.0
)  # fmt: skip
def test_no_run_may_be_above_the_ceiling(shares, expected):
    runs = [{1: 0.9, 3: share} for share in shares]
    assert outcome(BelowCeiling(cells="a", digits=(3,)), {"a": runs}) == expected


@pytest.mark.parametrize(
    ("next_", "same", "expected"),
    [(1.0, 1.0, "holds"), (1.0, 0.1, "fails"), (0.1, 1.0, "fails"), (0.5, 0.5, "holds"),
     (0.49, 1.0, "fails")],
)  # fmt: skip
def test_heads_show_both_patterns_of_the_theorem(next_, same, expected):
    results = make_results({"a": [reach(8)] * 4})
    row = {"kind": "head", "level": "significance", "length": 8, "most_beyond_bos": 1.0}
    rows = [
        {**run, **row, "pattern": pattern, "mass_beyond_bos": mass}
        for run in results.trials[RUN].to_dict("records")
        for pattern, mass in (("next", next_), ("same", same))
    ]
    results = dataclasses.replace(results, mechanism=pd.DataFrame(rows))
    assert AttendsAsProven(cells="a", least=0.5).decide(results).outcome == expected
