"""Whole sweeps with made-up results, and small cells, for the tests of the claims."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

import pandas as pd

from analysis.claims.claim import Claim
from analysis.claims.evidence import Rule
from analysis.load import Results
from tests.support.rows.claim_rows import make_results, make_world, reach

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
    return make_world(sweep, shares[kind])


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
    "thousand_digits": {"*": 1000},
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


def change(results: Results, cell: str, at: int | tuple[int, int] | str, value: float) -> Results:
    """The results with another exact match of one cell in all its runs.

    at: a length, a pair of lengths, "train" (all trained lengths), "all", or "reach": right up to
    `value` and nowhere beyond.
    """
    rows = results.evaluation.copy()
    share = pd.Series(value, index=rows.index)
    chosen = rows["cell"] == cell
    if at == "reach":
        share = (rows["length"] <= value).astype(float)
    elif at == "train":
        chosen &= rows["range"] == "train"
    elif isinstance(at, tuple):
        chosen &= (rows["length"] == at[0]) & (rows["second_length"] == at[1])
    elif at != "all":
        chosen &= rows["length"] == at
    assert chosen.any(), f"{cell!r} has no rows at {at}"
    right = (share * rows["num_examples"]).round().astype(int)
    rows["num_correct"] = right.where(chosen, rows["num_correct"])
    rows["exact_match"] = rows["num_correct"] / rows["num_examples"]
    return replace(results, evaluation=rows)


def only(results: Results, cells: Iterable[str]) -> Results:
    """The results of these cells alone, as of laptop scale: other rows, and the comparison with the
    published settings, take time."""
    kept = set(cells)
    frames = {name: getattr(results, name) for name in ("view", "trials", "evaluation")}
    frames = {name: frame[frame["cell"].isin(kept)] for name, frame in frames.items()}
    return replace(results, scale="laptop", **frames)


def match(results: Results, pattern: str) -> list[str]:
    """Labels of the cells that a pattern matches; at least one."""
    cells = [cell for cell in results.cells if fnmatchcase(cell, pattern)]
    assert cells, f"no cell of {results.sweep} is called {pattern!r}"
    return cells
