"""Rules decide what they say, too few runs decide nothing, and every claim has its line."""

import dataclasses

import pytest

from analysis.claims.published import CLAIMS, Claim
from analysis.claims.rules import Every, ExactMatchAt, GeneralizableLength, Separated, match_cells
from analysis.claims.verdicts import judge, verdict_table
from analysis.load import load_sweep
from sweeps.commands.catalogue import find_sweep, sweep_names
from tests.support.analysis_examples import build_sweep

ARMS = {
    "coupling": ({"model.num_layers": 1}, 30.0),
    "coupling, deep": ({"model.num_layers": 3}, 17.0),
    "NoPE": ({"position.encoding": "none"}, 6.0),
}
ORDER = Separated(better="coupling*", worse="NoPE", times=1.5)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Three runs of three arms, trained on 1-8, tested to 20, at laptop scale."""
    root = tmp_path_factory.mktemp("verdicts")
    build_sweep(root, "ours", ARMS)
    build_sweep(root, "few", ARMS, num_seeds=2)
    return root


def stored(place):
    return [load_sweep(place, name, "laptop") for name in ("ours", "few")]


@pytest.fixture(scope="module")
def results(place):
    return load_sweep(place, "ours", "laptop")


def test_exact_match_at_a_length(results):
    assert ExactMatchAt(cells="coupling", length=16, least=0.9).decide(results).holds is True
    assert ExactMatchAt(cells="NoPE", length=16, least=0.9).decide(results).holds is False
    assert ExactMatchAt(cells="NoPE", length=16, most=0.05).decide(results).holds is True
    unknown = ExactMatchAt(cells="NoPE", length=17, most=0.05).decide(results)
    assert unknown.holds is None
    assert "17 was not tested" in unknown.ours


def test_generalizable_length(results):
    assert GeneralizableLength(cells="coupling", least=20).decide(results).holds is True
    assert GeneralizableLength(cells="NoPE", most=8).decide(results).holds is True
    assert GeneralizableLength(cells="NoPE", least=9).decide(results).holds is False


def test_an_upper_limit_beyond_the_longest_test_decides_nothing(results):
    """The model may well go further than was tested."""
    decision = GeneralizableLength(cells="coupling", most=25).decide(results)
    assert decision.holds is None
    assert "nothing longer was tested" in decision.ours


def test_a_pattern_asks_every_cell_that_it_matches(results):
    assert ExactMatchAt(cells="coupling*", length=20, least=0.9).decide(results).holds is False
    assert ExactMatchAt(cells="coupling", length=20, least=0.9).decide(results).holds is True
    with pytest.raises(ValueError, match=r"no cell of ours .* 'APE'; there: coupling"):
        match_cells(results, "APE")


def test_separated_needs_every_run(results):
    assert ORDER.decide(results).holds is True
    assert Separated(better="NoPE", worse="coupling*").decide(results).holds is False
    rows = results.evaluation.copy()
    lucky = (rows["cell"] == "NoPE") & (rows["seed"] == 1)
    rows.loc[lucky, ["num_correct", "exact_match"]] = [2000, 1.0]
    assert ORDER.decide(dataclasses.replace(results, evaluation=rows)).holds is False


def test_every_is_false_undecided_or_true(results):
    yes = ExactMatchAt(cells="coupling", length=16, least=0.9)
    no = ExactMatchAt(cells="NoPE", length=16, least=0.9)
    unknown = ExactMatchAt(cells="NoPE", length=17)
    assert Every((yes, yes)).decide(results).holds is True
    assert Every((yes, unknown)).decide(results).holds is None
    assert Every((yes, unknown, no)).decide(results).holds is False
    assert " and " in Every((yes, no)).text


@pytest.mark.parametrize(
    "rule", [ORDER, ExactMatchAt(cells="coupling", length=16), GeneralizableLength(cells="NoPE")]
)
def test_two_runs_decide_nothing(place, rule):
    claim = Claim(text="t", published="p", certainty="paper", sweep="few", ordering=rule)
    (verdict,) = judge([claim], stored(place))
    assert (verdict.verdict, verdict.n) == ("not enough seeds", 2)


def test_laptop_scale_supports_an_ordering_and_no_number(place):
    number = ExactMatchAt(cells="coupling", length=16, least=0.9)
    claims = [
        Claim(text="a", published="p", certainty="paper", sweep="ours", ordering=ORDER),
        Claim(text="b", published="p", certainty="paper", sweep="ours", number=number),
        Claim(text="c", published="p", certainty="paper", sweep="other", ordering=ORDER),
    ]
    words = [verdict.verdict for verdict in judge(claims, stored(place))]
    assert words == ["ordering holds", "not run at paper scale", "not run at paper scale"]
    reverse = Separated(better="NoPE", worse="coupling")
    (verdict,) = judge([dataclasses.replace(claims[0], ordering=reverse)], stored(place))
    assert verdict.verdict == "ordering does not hold"


def test_a_cell_that_the_stored_sweep_lacks_leaves_the_claim_undecided(place):
    rule = Separated(better="coupling", worse="APE")
    claim = Claim(text="t", published="p", certainty="paper", sweep="ours", ordering=rule)
    (verdict,) = judge([claim], stored(place))
    assert verdict.verdict == "undecided"
    assert "'APE'" in verdict.ours


def test_the_table_has_a_line_for_every_claim():
    table = verdict_table(judge(CLAIMS, []))
    assert len(table.rows) == len(CLAIMS)
    assert {row[-1].text for row in table.rows} == {"not run at paper scale"}


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.text)
def test_every_claim_names_a_sweep_and_its_cells(claim):
    """Each pattern of a rule matches a cell of the sweep at the scale where the rule applies."""
    assert claim.sweep in sweep_names()
    sweep = find_sweep(claim.sweep)
    for rule, scale in ((claim.number, "paper"), (claim.ordering, "laptop")):
        if rule is None:
            continue
        labels = [cell.label for cell in sweep.cells(scale)]
        for pattern in patterns(rule):
            matches_of(pattern, labels)


def patterns(rule):
    """Every pattern that a rule names."""
    if isinstance(rule, Every):
        return [name for part in rule.rules for name in patterns(part)]
    if isinstance(rule, Separated):
        return [rule.better, rule.worse]
    return [rule.cells]


def matches_of(pattern, labels):
    from fnmatch import fnmatchcase

    found = [label for label in labels if fnmatchcase(label, pattern)]
    assert found, f"{pattern!r} matches none of {labels}"
