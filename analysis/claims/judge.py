"""A verdict on each published claim, from the rows of a store: `judge(CLAIMS, results)`.

At paper scale the rule for the published number decides: reproduced, exceeded or not reproduced. At
smaller scales only an ordering can be supported: it holds, is not separated, or is reversed. What
is proven holds at any scale. Too few runs decide nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from math import isnan

import pandas as pd

from analysis.claims.claim import Claim
from analysis.claims.evidence import (
    CHECKPOINT,
    LEAST_EXAMPLES,
    LEAST_RUNS,
    Decision,
    Outcome,
    Rule,
    uncounted_runs,
)
from analysis.claims.published import CLAIMS
from analysis.claims.theorems import CountedCeiling
from analysis.claims.verdict import Verdict, VerdictRow
from analysis.load import Results
from analysis.tables.sweep_tables import DASH, Table, text_table

SCALES = ("paper", "laptop")  # smoke supports nothing
ORACLE = "oracle"
NUMBER: Mapping[Outcome, Verdict] = {
    "holds": "reproduced",
    "exceeded": "exceeded",
    "not separated": "not reproduced",
    "reversed": "not reproduced",
    "fails": "not reproduced",
}
ORDERING: Mapping[Outcome, Verdict] = {
    "holds": "holds",
    "exceeded": "holds",
    "not separated": "not separated",
    "reversed": "reversed",
    "fails": "does not hold",
}


def is_judged(sweep: str, scale: str) -> bool:
    """Whether a verdict on any published claim can rest on this sweep at this scale."""
    return scale in SCALES and any(claim.sweep == sweep for claim in CLAIMS)


def judge(claims: Iterable[Claim], results: Iterable[Results]) -> list[VerdictRow]:
    """A verdict for every claim: at paper scale if it was run there, else on the ordering at laptop
    scale, else "not run". Undecided where a rule names a cell that the sweep does
    not have, or where rows do not fit together.
    """
    by_view = {(sweep.sweep, sweep.scale): sweep for sweep in results}
    return [_judge(claim, by_view) for claim in claims]


def _judge(claim: Claim, by_view: Mapping[tuple[str, str], Results]) -> VerdictRow:
    if isinstance(claim.proven, CountedCeiling):
        decision = claim.proven.decide()
        return _row(claim, claim.proven, _verdict(claim, claim.proven, decision), "any", decision)
    rules = {
        "paper": claim.proven or claim.number or claim.ordering,
        "laptop": claim.proven or claim.ordering,
    }
    undecided: VerdictRow | None = None
    for scale, rule in rules.items():
        results = by_view.get((claim.sweep, scale))
        if rule is None or results is None or results.all_evaluation.empty:
            continue
        row = _apply(claim, rule, results)
        if row.verdict not in ("not enough seeds", "undecided"):
            return row
        undecided = undecided or row
    missing: Verdict = "not run at paper scale" if claim.only_at_paper_scale else "not run"
    return undecided or _row(claim, rules["paper"], missing)


def _apply(claim: Claim, rule: Rule, results: Results) -> VerdictRow:
    row = _apply_to(claim, rule, results, CHECKPOINT)
    has_oracle = ORACLE in set(results.all_evaluation["checkpoint"])
    if rule is not claim.number or not claim.by_oracle or not has_oracle:
        return row
    other = _apply_to(claim, rule, results, ORACLE)
    return replace(row, oracle=f"{other.verdict} ({other.ours})")


def _apply_to(claim: Claim, rule: Rule, results: Results, checkpoint: str) -> VerdictRow:
    try:
        decision = rule.decide(results.at(checkpoint))
        if uncounted := uncounted_runs(results, rule.patterns):
            decision = replace(decision, ours=f"{decision.ours}; {uncounted}")
    except ValueError as error:  # rows of another version of the sweep, or that do not fit together
        words = Decision(outcome=None, ours=str(error), n=0)
        return _row(claim, rule, "undecided", results.scale, words)
    return _row(claim, rule, _verdict(claim, rule, decision), results.scale, decision)


def _verdict(claim: Claim, rule: Rule, decision: Decision) -> Verdict:
    if decision.outcome is None:
        return "not enough seeds" if decision.few else "undecided"
    ours = rule is claim.ordering or claim.certainty == "ours"  # there is nothing to reproduce
    return (ORDERING if ours else NUMBER)[decision.outcome]


def _row(
    claim: Claim,
    rule: Rule | None,
    verdict: Verdict,
    scale: str = "",
    decision: Decision | None = None,
) -> VerdictRow:
    decision = decision or Decision(outcome=None, ours="", n=0)
    return VerdictRow(
        claim=claim.text,
        published=claim.published,
        ours=decision.ours,
        scale=scale,
        verdict=verdict,
        certainty=claim.certainty,
        rule=rule.text if rule else "",
        source=claim.source,
        sweep=claim.sweep,
        n=decision.n,
        least_p=None if isnan(decision.least_p) else decision.least_p,
        remark=claim.remark,
        is_ordering=rule is not None and rule is claim.ordering and claim.number is not None,
    )


def verdict_table(verdicts: Iterable[VerdictRow]) -> Table:
    """The verdicts as a table for `analysis.tables.render`."""
    header = ("claim", "published", "ours", "scale", "n", "least p", "verdict", "oracle")
    numbers = pd.DataFrame([asdict(row) for row in verdicts])
    shown = numbers.rename(columns={"least_p": "least p"})
    shown["least p"] = [f"{p:.2g}" if pd.notna(p) else "" for p in shown["least p"]]
    rows = shown[[*header]].astype(str).replace({"": DASH, "0": DASH})
    return text_table(
        title="Published claims and our verdicts",
        header=header,
        rows=rows.to_numpy(),
        notes=(
            f"Checkpoint: {CHECKPOINT}; oracle: the same rule on checkpoints chosen by the loss at "
            "the largest test length, as the paper chose its own. The rules are in "
            "analysis/claims/published.py and ours.py.",
            f"Nothing is decided with fewer than {LEAST_RUNS} runs of a cell at the lengths that a "
            f"rule uses, each of {LEAST_EXAMPLES} examples or more; diverged runs count as 0. n: "
            "runs of the cell with the fewest; least p: the smallest two-sided p possible with n.",
            "Trained lengths that training drew at most a tenth as often as the average one decide "
            "neither L95 in a rule nor whether a model fits; L95 in tables counts them.",
            "Paper scale judges the published number; laptop scale can support an ordering only.",
        ),
        numbers=numbers,
    )
