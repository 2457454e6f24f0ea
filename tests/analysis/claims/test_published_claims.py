"""Every claim has its line; broken and perfect models do not reproduce it, published results do."""

from fnmatch import fnmatchcase

import pytest

from analysis.claims.combined import Every, Given
from analysis.claims.evidence import match_all
from analysis.claims.judge import judge, verdict_table
from analysis.claims.orderings import Longer
from analysis.claims.published import CLAIMS
from analysis.claims.theorems import CountedCeiling
from sweeps.commands.catalogue import find_sweep, sweep_names
from tests.support.rows.claim_worlds import only, rule_at, world

NEEDS_NO_ROWS = [c for c in CLAIMS if isinstance(c.proven, CountedCeiling)]
WITH_ROWS = [c for c in CLAIMS if c not in NEEDS_NO_ROWS]
PAPER_CLAIMS = [c for c in WITH_ROWS if c.certainty != "ours" and c.sweep != "attention_probe"]


def test_the_table_has_a_line_for_every_claim():
    table = verdict_table(judge(CLAIMS, []))
    assert len(table.rows) == len(CLAIMS)
    words = [row[6].text for row in table.rows]
    assert words.count("reproduced") == len(NEEDS_NO_ROWS) == 1
    assert set(words) == {"reproduced", "not run", "not run at paper scale"}
    only = [c.only_at_paper_scale for c in CLAIMS]
    assert [word == "not run at paper scale" for word in words] == only


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.text)
def test_every_claim_names_a_sweep_and_its_cells(claim):
    """Each pattern of a rule matches a cell of the sweep at the scale where the rule applies."""
    assert claim.sweep in sweep_names()
    assert len(claim.text) < 100
    for scale in ("paper", "laptop"):
        rule = rule_at(claim, scale)
        if rule and not (claim.certainty == "ours" and scale == "paper" and not claim.proven):
            labels = [cell.label for cell in find_sweep(claim.sweep).cells(scale)]
            for pattern in patterns(rule):
                assert any(fnmatchcase(label, pattern) for label in labels), (pattern, labels)


def patterns(rule) -> list[str]:
    """Every pattern that a rule names."""
    if isinstance(rule, Every):
        return [name for part in rule.rules for name in patterns(part)]
    if isinstance(rule, Given):
        return patterns(rule.given) + patterns(rule.rule)
    if isinstance(rule, CountedCeiling):
        return []
    if isinstance(rule, Longer):
        return list(rule.cells)
    names = ("better", "worse") if hasattr(rule, "worse") else ("cells",)
    return [getattr(rule, name) for name in names]


@pytest.mark.parametrize("claim", PAPER_CLAIMS, ids=lambda claim: claim.text)
def test_broken_models_reproduce_nothing(claim):
    results, rule = world(claim.sweep, "broken"), rule_at(claim, "paper")
    decision = rule.decide(only(results, match_all(results, rule.patterns)))
    beyond = getattr(claim.proven, "beyond", False)  # nothing right beyond the bound: so it is
    assert not decision.holds or beyond, decision


CANNOT = ("collapse", "end near", "nothing is left", "not reached", "fails outside", "not even fit",
          "do not generalize", "fail at once", "separate tables", "does not fit", "stays below",
          "better", "beats", "further", "worse", "extends every", "Abacus", "FIRE")  # fmt: skip


@pytest.mark.parametrize("claim", PAPER_CLAIMS, ids=lambda claim: claim.text)
def test_perfect_models_show_no_failure_and_no_difference(claim):
    results, rule = world(claim.sweep, "perfect"), rule_at(claim, "paper")
    decision = rule.decide(only(results, match_all(results, rule.patterns)))
    says_cannot = any(words in claim.text for words in CANNOT)
    beyond = getattr(claim.proven, "beyond", False)
    assert bool(decision.holds) is not (says_cannot or beyond), decision


@pytest.mark.parametrize("claim", PAPER_CLAIMS, ids=lambda claim: claim.text)
def test_published_results_reproduce_every_claim(claim):
    decision = rule_at(claim, "paper").decide(world(claim.sweep, "published"))
    assert decision.outcome == "holds", decision
