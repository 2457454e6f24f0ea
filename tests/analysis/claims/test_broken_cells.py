"""A claim is not true of results in which one of its cells, any one, is broken."""

from functools import lru_cache

import pytest

from analysis.claims.evidence import match_all
from analysis.claims.published import CLAIMS
from tests.support.rows.claim_rows import make_world
from tests.support.rows.claim_worlds import change, match, only, rule_at, world

APE = "random-start APE"
# claim: its cells, and the outcome (None: undecided) when nothing is right in one of them
BROKEN: dict[str, dict[str, str | None]] = {
    "A longer trained range": {"*1-[123]0": None},
    "NoPE and random-start APE (6 layers) collapse": {"NoPE": None, APE: None},
    "Index hints (6 layers) end near 50": {"index hints": None},
    "Index hints (6 layers): nothing": {"index hints": None},
    "Coupling with 1 to 5 layers is good": {"coupling, [12345] *": "fails"},
    "Coupling with 1 to 5 layers: alike": {"coupling, [12345] *": None},
    "Coupling with 6 layers": {"coupling, 6 layers": None, "coupling, [12345] *": "not separated"},
    "Padded sums": {"padded, response reversed, 1 *": "fails"},
    **{
        f"Without zero padding nothing is left at 200 digits ({order} reversed)": {
            f"not padded, {order} reversed, [16] *": None
        }
        for order in ("response", "all", "nothing")
    },
    "500 digits are not reached": {"*1-40": None, "*1-80": None},
    "RoPE fails outside": {"RoPE, not scaled": None},
    "Coupled RoPE with random": {"coupled RoPE, IDs times 1 to 5": "fails"},
    "N x 2 multiplication: two layers": {"coupling, [234] *": "fails"},
    "N x 2 multiplication: one layer": {"coupling, [1234] *": None},
    "N x 2 multiplication: NoPE": {"NoPE, 3 layers": None, f"{APE}, 3 layers": None},
    "3-operand addition: three": {"coupling, 3 layers": "fails"},
    "3-operand addition: one": {"coupling, 1 layer": "fails"},
    "3-operand addition: NoPE": {"NoPE, 6 layers": None, f"{APE}, 6 layers": None},
    **{
        f"{task.capitalize()}: NoPE and {APE} with {layers}": {
            f"{task}, NoPE, {layers}": None,
            f"{task}, {APE}, {layers}": None,
            **({f"{task}, coupling, 1 layer": None} if layers == "1 layer" else {}),
        }
        for task in ("copy", "reverse")
        for layers in ("1 layer", "6 layers")
    },
    "Minesweeper: separate tables": {"separate tables": None},
    "Minesweeper: NoPE": {"NoPE": None, "shared table": None},
    "One trained layer": {"NoPE, 1 layer": None},
}  # fmt: skip


@pytest.mark.parametrize("text", BROKEN)
def test_no_number_is_reproduced_with_a_broken_cell(text):
    claim = next(c for c in CLAIMS if c.text.startswith(text))
    whole, rule = world(claim.sweep, "published"), rule_at(claim, "paper")
    good = only(whole, match_all(whole, rule.patterns))
    assert rule.decide(good).outcome == "holds"
    for pattern, expected in BROKEN[text].items():
        for cell in match(whole, pattern):
            decision = rule.decide(change(good, cell, "all", 0.0))
            assert decision.outcome == expected, (cell, decision)


# Orderings ----------------------------------------------------------------------------------------

# claim at laptop scale: better cells, worse cells, the length at which they are compared
BEATS: dict[str, tuple[list[str], list[str], int]] = {
    "A longer trained range": (["*1-12"], ["*1-6"], 18),
    "One head adds": (["num_heads=[248]"], ["num_heads=1"], 96),
    "The largest position table": (["max_position=202"], ["max_position=1003"], 96),
    "Coupling generalizes further": (["coupling"], ["NoPE", APE], 18),
    "Coupling with plain": (["*, plain attention"], ["NoPE", APE, "RoPE"], 18),
    "Index hints are better": (["index hints"], ["NoPE", APE], 18),
    "Coupling is better than index hints": (["coupling"], ["index hints"], 24),
    "Coupling at every depth": (
        ["coupling, [123] *"], ["NoPE, 3 layers", f"{APE}, 3 layers", "RoPE, 3 layers"], 18
    ),
    **{
        f"Without zero padding nothing is left at 200 digits ({order} reversed)": (
            ["padded, response reversed"], [f"not padded, {order} reversed"], 200
        )
        for order in ("response", "all", "nothing")
    },
    "Coupled RoPE with random": (["coupled RoPE, IDs times 1 to 5"], ["RoPE, not scaled"], 18),
    "N x 2 multiplication: two": (
        ["coupling, [23] *"], ["NoPE, 3 layers", f"{APE}, 3 layers"], 12
    ),
    "N x 2 multiplication: one": (["coupling, [23] *"], ["coupling, 1 layer"], 12),
    "3-operand addition: three": (
        ["coupling, 3 layers"], ["NoPE, 3 layers", f"{APE}, 3 layers"], 12
    ),
    **{
        f"{task.capitalize()}: coupling to 300": (
            [f"{task}, coupling, 1 layer"], [f"{task}, NoPE, 3 layers", f"{task}, {APE}, 3 *"], 18
        )
        for task in ("copy", "reverse")
    },
    "Minesweeper: separate tables": (["shared table"], ["separate tables"], 7),
    "m-operand addition with a scratchpad: coupling": (
        ["scratchpad, coupling"], ["scratchpad, NoPE", "scratchpad, FIRE"], 8
    ),
    "N x M multiplication with a scratchpad: coupling": (
        ["scratchpad, coupling"], ["scratchpad, NoPE", "scratchpad, FIRE"], 6
    ),
    "Abacus": (["coupling, 1 times the tokens"], ["Abacus, 1 times the tokens"], 18),
    "FIRE with": (["coupling, 1 times the tokens"], ["FIRE, *, 1 times the tokens"], 18),
    "Residue rings in packed rows go": (["rings, packed"], ["rings, alone"], 96),
    "Rows of a learned table": (["table, packed"], ["table, alone"], 96),
    "Copying in packed": (["copy, packed"], ["copy, alone"], 96),
    "Reversing in packed": (["reverse, packed"], ["reverse, alone"], 96),
    "Parity with a scratchpad in packed": (
        ["parity, scratchpad, packed"], ["parity, scratchpad, alone"], 96
    ),
    "Addition of three operands": (["three operands, packed"], ["three operands, alone"], 64),
    "Parity with a scratchpad: coupling": (
        ["scratchpad, coupling"], ["scratchpad, NoPE", f"scratchpad, {APE}"], 18
    ),
    **{
        f"coupling, {mixer}: goes": ([f"coupling, {mixer}"], ["coupling, softmax"], 18)
        for mixer in ("learned scale", "entmax", "sink")
    },
    **{
        f"NoPE, {mixer}: goes": ([f"NoPE, {mixer}"], ["NoPE, softmax"], 18)
        for mixer in ("contextual positions", "stick-breaking", "looped", "gated linear")
    },
    **{
        f"Coupling goes further than {mixer}": (["coupling, softmax"], [f"NoPE, {mixer}"], 18)
        for mixer in ("contextual positions", "stick-breaking", "looped", "gated linear")
    },
}  # fmt: skip
ELSEWHERE = ("m-operand addition: a scratchpad extends", "Parity: coupling goes further with")


@lru_cache
def only_trained(sweep):
    return make_world(sweep, lambda *args: float(args[-1]), scale="laptop")


def start(text):
    """The claim that starts so, and a world at laptop scale in which its better cells are right
    everywhere, all others on the trained lengths only."""
    claim = next(c for c in CLAIMS if c.text.startswith(text) and c.ordering)
    better, worse, length = BEATS[text]
    results = only_trained(claim.sweep)
    better, worse = ([c for p in side for c in match(results, p)] for side in (better, worse))
    results = only(results, match_all(results, claim.ordering.patterns))
    for cell in better:
        results = change(results, cell, "all", 1.0)
    return claim.ordering, results, better, worse, length


@pytest.mark.parametrize("text", BEATS)
def test_an_ordering_is_decided_by_each_of_its_cells_at_its_length(text):
    rule, results, better, worse, length = start(text)
    assert rule.decide(results).outcome == "holds"
    for cell in (*better, *worse):
        assert rule.decide(change(results, cell, "all", 0.0)).outcome is None, cell
    assert rule.decide(change(results, worse[0], length, 1.0)).outcome == "not separated"


def test_an_arm_that_need_not_fit_is_beaten_only_by_one_that_fits():
    extends = next(c for c in CLAIMS if c.text.startswith(ELSEWHERE[0]))
    parity = next(c for c in CLAIMS if c.text.startswith(ELSEWHERE[1]))
    for claim, names in ((extends, ("coupling", "NoPE", "FIRE")), (parity, ("coupling",))):
        results = make_world(claim.sweep, lambda *_: 0.3, scale="laptop")
        for name in names:
            results = change(results, f"scratchpad, {name}", "all", 1.0)
        assert claim.ordering.decide(results).outcome == "holds"
        for name in names:
            almost = change(results, f"scratchpad, {name}", "all", 0.9)
            assert claim.ordering.decide(almost).outcome is None
            alike = change(results, f"no scratchpad, {name}", "all", 1.0)
            assert claim.ordering.decide(alike).outcome == "not separated"


def test_every_ordering_has_its_cells_here():
    orderings = {c.text for c in CLAIMS if c.ordering and c.sweep != "attention_probe"}
    orderings.discard("Residue rings in packed rows add 1,000-digit numbers")  # at one length
    found = {t for t in orderings for start in (*BEATS, *ELSEWHERE) if t.startswith(start)}
    assert found == orderings
