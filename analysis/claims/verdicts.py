"""A verdict on each published claim, from the rows of a store: `judge(CLAIMS, results)`.

At paper scale the rule for the published number decides: reproduced or not reproduced. At smaller
scales only an ordering can be supported: it holds or does not. Too few runs decide nothing.
"""

from collections.abc import Iterable
from dataclasses import asdict

import pandas as pd

from analysis.claims.published import CLAIMS, Claim
from analysis.claims.rules import CHECKPOINT, LEAST_RUNS, Rule
from analysis.claims.verdict import Verdict, VerdictRow
from analysis.load import Results
from analysis.tables.sweep_tables import DASH, Table, TableCell

SCALES = ("paper", "laptop")  # smoke supports nothing


def is_judged(sweep: str, scale: str) -> bool:
    """Whether a verdict on any published claim can rest on this sweep at this scale."""
    return scale in SCALES and any(claim.sweep == sweep for claim in CLAIMS)


def judge(claims: Iterable[Claim], results: Iterable[Results]) -> list[VerdictRow]:
    """A verdict for every claim: at paper scale if it was run there, else on the ordering at laptop
    scale, else "not run at paper scale". Undecided where a rule names a cell that the sweep does
    not have.
    """
    by_view = {(sweep.sweep, sweep.scale): sweep for sweep in results}
    return [_judge(claim, by_view) for claim in claims]


def _judge(claim: Claim, by_view: dict[tuple[str, str], Results]) -> VerdictRow:
    rules = {"paper": claim.number or claim.ordering, "laptop": claim.ordering}
    undecided: VerdictRow | None = None
    for scale, rule in rules.items():
        results = by_view.get((claim.sweep, scale))
        if rule is None or results is None or results.all_evaluation.empty:
            continue
        row = _apply(claim, rule, results)
        if row.verdict not in ("not enough seeds", "undecided"):
            return row
        undecided = undecided or row
    return undecided or _row(claim, claim.number or claim.ordering, "not run at paper scale")


def _apply(claim: Claim, rule: Rule, results: Results) -> VerdictRow:
    try:
        decision = rule.decide(results.at(CHECKPOINT))
    except ValueError as error:  # rows of another version of the sweep, or of another checkpoint
        return _row(claim, rule, "undecided", results.scale, str(error))
    verdict: Verdict
    if decision.holds is None:
        verdict = "not enough seeds" if decision.n < LEAST_RUNS else "undecided"
    elif rule is claim.number:
        verdict = "reproduced" if decision.holds else "not reproduced"
    else:
        verdict = "ordering holds" if decision.holds else "ordering does not hold"
    return _row(claim, rule, verdict, results.scale, decision.ours, decision.n)


def _row(
    claim: Claim, rule: Rule | None, verdict: Verdict, scale: str = "", ours: str = "", n: int = 0
) -> VerdictRow:
    return VerdictRow(
        claim=claim.text,
        published=claim.published,
        ours=ours,
        scale=scale,
        verdict=verdict,
        certainty=claim.certainty,
        rule=rule.text if rule else "",
        source=claim.source,
        sweep=claim.sweep,
        n=n,
        remark=claim.remark,
    )


def verdict_table(verdicts: Iterable[VerdictRow]) -> Table:
    """The verdicts as a table for `analysis.tables.render`."""
    header = ("claim", "published", "ours", "scale", "n", "verdict")
    numbers = pd.DataFrame([asdict(row) for row in verdicts])
    rows = numbers[[*header]].astype(str).replace({"": DASH, "0": DASH})
    return Table(
        title="Published claims and our verdicts",
        header=tuple(TableCell(name) for name in header),
        rows=tuple(tuple(TableCell(text) for text in row) for row in rows.to_numpy()),
        notes=(
            "Checkpoint: last. The rules are in analysis/claims/published.py.",
            f"Nothing is decided with fewer than {LEAST_RUNS} runs of a cell; diverged runs count "
            "as 0. n: runs of the cell that has fewest.",
            "Paper scale judges the published number; laptop scale can support an ordering only.",
        ),
        numbers=numbers,
    )
