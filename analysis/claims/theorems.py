"""Rules about proven results: constructed models, which need one run, counted upper bounds, and
whether trained heads attend as in the proof."""

from dataclasses import dataclass, replace
from math import sqrt

from analysis.claims.evidence import (
    LEAST_EXAMPLES,
    LEAST_RUNS,
    Decision,
    Evidence,
    OfCells,
    Outcome,
    each_cell,
    too_few,
)
from analysis.claims.rules import decided
from analysis.load import Results
from analysis.statistics.mechanism import pattern_masses
from analysis.tables.sweep_tables import percent
from pcore.theory.ceilings import count_ceiling

SIGMAS = 3  # how far chance may lift a run above a ceiling


@dataclass(frozen=True, kw_only=True, slots=True)
class ExactToBound(OfCells):
    """A constructed model with P bits is right on every example up to 2^P - `less` digits.

    near: of at least one matching cell this part of the bound must have been tested. beyond: ask
    the other side instead, that no example beyond the bound is right.
    """

    less: int
    near: float = 0.95
    beyond: bool = False

    @property
    def text(self) -> str:
        bound = f"2^P - {self.less} digits"
        if self.beyond:
            return f"no example longer than {bound} is right for '{self.cells}'"
        return (
            f"every example of up to {bound} is right for '{self.cells}', and one of them was "
            f"tested to {100 * self.near:g} % of its bound"
        )

    def decide(self, results: Results) -> Decision:
        shares = list[float]()  # of its bound to which each cell was tested

        def check(evidence: Evidence) -> Decision:
            rows = evidence.rows
            bits = results.trials.loc[results.trials["cell"] == evidence.cell, "model.num_bits"]
            bound = 2 ** int(bits.dropna().iloc[0]) - self.less if bits.notna().any() else 0
            rows = rows[(rows["length"] > bound) == self.beyond]
            n = int(rows["trial_id"].nunique())
            if rows.empty or not bound:
                side = "beyond" if self.beyond else "up to"
                return Decision(outcome=None, ours=f"nothing was tested {side} {bound}", n=n)
            right, total = int(rows["num_correct"].sum()), int(rows["num_examples"].sum())
            lengths = f"{rows['length'].min()}-{rows['length'].max()}"
            ours = f"{right:,} of {total:,} right at {lengths} digits, bound {bound}"
            if right != (0 if self.beyond else total):
                return Decision(outcome="fails", ours=ours, n=n)
            enough = rows.loc[rows["num_examples"] >= LEAST_EXAMPLES, "length"]
            if enough.empty:
                ours += f", nowhere on {LEAST_EXAMPLES} examples"
                return Decision(outcome=None, ours=ours, n=n)
            shares.append(float(enough.max()) / bound)
            return Decision(outcome="holds", ours=ours, n=n)

        decision = each_cell(results, self.cells, check)
        if decision.holds and not self.beyond and max(shares) < self.near:
            words = f"{decision.ours}; nothing from {100 * self.near:g} % of a bound on was tested"
            return replace(decision, outcome=None, ours=words)
        return decision


@dataclass(frozen=True, kw_only=True, slots=True)
class CountedCeiling:
    """The ceiling of proposition 5.2, counted here, is the published bound rounded up; no rows.

    shares: published bounds by number of digits, as fractions.
    """

    shares: tuple[tuple[int, float], ...]

    @property
    def text(self) -> str:
        named = ", ".join(f"{100 * share:g} % at {digits}" for digits, share in self.shares)
        return f"counted ceilings lie at most a tenth below {named} digits, and not above"

    @property
    def patterns(self) -> tuple[str, ...]:
        return ()

    def decide(self, results: Results | None = None) -> Decision:
        counted = [(count_ceiling(digits).share, share) for digits, share in self.shares]
        is_close = all(0.9 * share <= ours <= share for ours, share in counted)
        ours = " / ".join(f"{100 * ours:.3g}" for ours, _ in counted) + " %"
        return Decision(outcome="holds" if is_close else "fails", ours=ours, n=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class BelowCeiling(OfCells):
    """No run of the matching cells is above the ceiling of proposition 5.2, chance allowed for.

    learned: least median exact match at one digit, where the ceiling is 100 %; a model that learned
    nothing stays below any ceiling and decides nothing.
    """

    digits: tuple[int, ...]
    learned: float = 0.05

    @property
    def text(self) -> str:
        lengths = ", ".join(map(str, self.digits))
        return (
            f"no run of '{self.cells}' is more than {SIGMAS} standard errors above the ceiling at "
            f"{lengths} digits"
        )

    def check(self, evidence: Evidence) -> Decision:
        rows = evidence.rows[evidence.rows["length"].isin(self.digits)]
        n = int(rows["trial_id"].nunique())
        if set(rows["length"]) != set(self.digits):
            return Decision(outcome=None, ours="these lengths were not all tested", n=n)
        learned = float(evidence.at(1).median())
        if not learned >= self.learned:
            ours = f"nothing was learned: {percent(learned)} % at 1 digit"
            return Decision(outcome=None, ours=ours, n=n)
        limits = rows["length"].map({m: count_ceiling(m).share for m in self.digits})
        spread = (limits * (1 - limits) / rows["num_examples"]).map(sqrt)
        best = rows.groupby("length")["exact_match"].max()
        ours = "best runs " + ", ".join(f"{percent(v)} % at {m}" for m, v in best.items())
        is_below = bool((rows["exact_match"] <= limits + SIGMAS * spread).all())
        return Decision(outcome="holds" if is_below else "fails", ours=ours, n=n)


@dataclass(frozen=True, kw_only=True, slots=True)
class AttendsAsProven(OfCells):
    """In the median over analysed runs of every matching cell the heads show both patterns of the
    theorem (`analysis.statistics.mechanism.pattern_masses`) to at least this fraction."""

    least: float

    @property
    def text(self) -> str:
        return (
            f"median over runs of '{self.cells}': for each pattern of the theorem one head puts at "
            f"least {100 * self.least:g} % of the attention that it could on its keys, BOS aside"
        )

    def decide(self, results: Results) -> Decision:
        masses = pattern_masses(results)

        def check(evidence: Evidence) -> Decision:
            runs = masses.loc[masses["cell"] == evidence.cell, "pattern"].astype(float)
            if len(runs) < LEAST_RUNS:
                return too_few(len(runs))
            shown = f"{percent(runs.median())} % (runs {percent(runs.min())} to "
            shown += f"{percent(runs.max())} %)"
            outcome: Outcome = "holds" if runs.median() >= self.least else "fails"
            return decided(outcome, shown, len(runs))

        return each_cell(results, self.cells, check)
