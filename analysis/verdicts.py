"""What we can say about each published claim, from the rows of a store: `judge(CLAIMS, results)`.

At paper scale the rule for the published number decides: reproduced or not reproduced. At smaller
scales only an ordering can be supported: it holds or does not. Too few runs decide nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd

from analysis.claims import Claim
from analysis.load import Results, load_sweep
from analysis.rules import LEAST_RUNS, Rule
from analysis.tables import Entry, Table
from sweeps.engine.store import Store

Word = Literal[
    "reproduced",
    "not reproduced",
    "ordering holds",
    "ordering does not hold",
    "not enough seeds",
    "undecided",
    "not run at paper scale",
]
SCALES = ("paper", "laptop")  # smoke supports nothing


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """One line of the summary. scale: of the rows that decided, "" if there are none. rule: the one
    applied, or the one that would be. ours: our numbers.
    """

    claim: Claim
    word: Word
    scale: str
    ours: str
    n: int
    rule: str


def judge(claims: Iterable[Claim], results: str | Path) -> list[Verdict]:
    """A verdict for every claim: at paper scale if it was run there, else on the ordering at laptop
    scale, else "not run at paper scale".

    Raises ValueError if a rule names a cell that its sweep does not have.
    """
    store, loaded = Store(results), dict[tuple[str, str], Results]()
    for sweep, scale in store.view_names():
        if scale in SCALES and any(claim.sweep == sweep for claim in claims):
            loaded[sweep, scale] = load_sweep(results, sweep, scale)
    return [_judge(claim, loaded) for claim in claims]


def _judge(claim: Claim, loaded: dict[tuple[str, str], Results]) -> Verdict:
    kinds = {"paper": claim.number or claim.ordering, "laptop": claim.ordering}
    tried: Verdict | None = None
    for scale, rule in kinds.items():
        found = loaded.get((claim.sweep, scale))
        if rule is None or found is None or found.evaluation.empty:
            continue
        verdict = _apply(claim, rule, found)
        if verdict.word not in ("not enough seeds", "undecided"):
            return verdict
        tried = tried or verdict
    if tried is not None:
        return tried
    rule = claim.number or claim.ordering
    return Verdict(
        claim=claim,
        word="not run at paper scale",
        scale="",
        ours="",
        n=0,
        rule=rule.text if rule else "",
    )


def _apply(claim: Claim, rule: Rule, results: Results) -> Verdict:
    decision = rule.decide(results)
    is_number = rule is claim.number
    if decision.holds is None:
        word: Word = "not enough seeds" if decision.n < LEAST_RUNS else "undecided"
    elif is_number:
        word = "reproduced" if decision.holds else "not reproduced"
    else:
        word = "ordering holds" if decision.holds else "ordering does not hold"
    return Verdict(
        claim=claim,
        word=word,
        scale=results.scale,
        ours=decision.ours,
        n=decision.n,
        rule=rule.text,
    )


def verdict_table(verdicts: Iterable[Verdict]) -> Table:
    """The verdicts as a table for `analysis.render`."""
    verdicts = list(verdicts)
    header = ("claim", "published", "ours", "scale", "n", "verdict")
    rows = [
        (v.claim.text, v.claim.published, v.ours, v.scale, str(v.n or ""), v.word) for v in verdicts
    ]
    numbers = [
        dict(zip(header, row, strict=True))
        | {"certainty": v.claim.certainty, "sweep": v.claim.sweep, "rule": v.rule}
        for v, row in zip(verdicts, rows, strict=True)
    ]
    return Table(
        title="Published claims and our verdicts",
        header=tuple(Entry(name) for name in header),
        rows=tuple(tuple(Entry(text or "–") for text in row) for row in rows),
        notes=(
            "Checkpoint: last. The rules stand in analysis/claims.py.",
            f"Nothing is decided with fewer than {LEAST_RUNS} runs of a cell; diverged runs count "
            "as 0. n: runs of the cell that has fewest.",
            "Paper scale judges the published number; laptop scale can support an ordering only.",
        ),
        numbers=pd.DataFrame(numbers),
    )
