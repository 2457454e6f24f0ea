"""Whole sweeps with made-up results, and small cells, for the tests of the claims."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from analysis.claims.claim import Claim
from analysis.claims.evidence import Rule
from analysis.load import Results
from tests.support.rows.claim_rows import make_results, paper_world, reach

GOOD = [reach(20)] * 4
SHORT = [reach(8)] * 4
BROKEN = [reach(0)] * 4
ALMOST = [reach(8) | {8: 0.5}] * 4  # perfect to 7 of 8 trained lengths


def outcome(rule: Rule, cells: Mapping[str, list], **changes: Any) -> str | None:
    return rule.decide(make_results(cells, **changes)).outcome


def rule_at(claim: Claim, scale: str) -> Any:
    return claim.proven or (scale == "paper" and claim.number) or claim.ordering


@lru_cache
def world(sweep: str, kind: str) -> Results:
    """A sweep at paper scale: broken, perfect or as published."""
    shares = {
        "broken": lambda *_: 0.0,
        "perfect": lambda *_: 1.0,
        "published": lambda *args: published_share(sweep, *args),
    }
    return paper_world(sweep, shares[kind])


REACH = {  # longest length that the published models solve; cells not named: only what is trained
    "train_length_ablation": {"*1-10": 70, "*1-20": 135, "*": 200},
    "encoding_ablation": {"coupling*": 200, "index hints": 50},
    "depth_ablation": {"coupling, *": 200},
    "format_ablation": {"padded, *": 200},
    "five_hundred_digits": {"*1-160": 500, "*": 300},
    "rope_ablation": {"coupled*times*": 100},
    "multiplication_depth": {"coupling, 1*": 10, "coupling*": 90, "theory*": 200},
    "operands_ablation": {"coupling, 1*": 100, "coupling*": 90},
    "copy_reverse": {"*coupling*": 300, "*, 1 layer": 10},
    "minesweeper": {"shared*": 13, "separate*": 10, "NoPE": 6},
    "scratchpad_addition": {"scratchpad, coupling*": 30, "scratchpad*": 16, "no*": 5},
    "scratchpad_multiplication": {"scratchpad, coupling": 20},
    "equal_compute": {"coupling*": 200, "Abacus*": 40},
    "theory_limits": {"theory, P=8*": 254, "theory, P=7*": 126, "NoPE*": 2, "*": 200},
}
SPECIAL = {  # (sweep, cell, length): exact match
    ("minesweeper", "shared table", 14): 0.9,
    ("depth_ablation", "coupling, 6 layers", 200): 0.93,
}


def published_share(sweep: str, cell: str, length: int, second: int | None, trained: bool) -> float:
    named = next((n for p, n in REACH[sweep].items() if fnmatchcase(cell, p)), None)
    if (sweep, cell, length) in SPECIAL:
        return SPECIAL[sweep, cell, length]
    if named is None:
        return 0.99 if trained else 0.0
    if cell.startswith("theory"):
        return float(length <= named)
    return 0.99 if max(length, second or 0) <= named else 0.0
