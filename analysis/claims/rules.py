"""Rules for single cells: how far they reach, where they fail, whether they fit.

Cells are named by `fnmatch` patterns; a pattern that matches several cells applies to all of them.
All rules judge medians over runs; `analysis.claims.evidence` says which runs count.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from analysis.claims.combined import Given
from analysis.claims.evidence import (
    LEAST_RUNS,
    Decision,
    Evidence,
    OfCells,
    Outcome,
    Rule,
    too_few,
)
from analysis.statistics.intervals import median_floor
from analysis.statistics.runs import L95, SOLVED, generalizable_length
from analysis.tables.sweep_tables import percent

NEAR_MOST = 1.25  # times the largest L95 allowed: there at the latest a failure must be seen


@dataclass(frozen=True, kw_only=True, slots=True)
class ExactMatchAt(OfCells):
    """Median exact match of every matching cell at one length, or at one pair of lengths, is at
    least `least`. Above `better` it exceeds what was published."""

    length: int
    second: int | None = None
    least: float
    better: float = 1.0

    @property
    def text(self) -> str:
        more = f"; above {100 * self.better:g} % exceeds it" if self.better < 1 else ""
        return f"{_at(self)} is at least {100 * self.least:g} %{more}"

    def check(self, evidence: Evidence) -> Decision:
        return _median_at(self, evidence, self._outcome)

    def _outcome(self, median: float) -> Outcome:
        if median < self.least:
            return "fails"
        return "exceeded" if median > self.better else "holds"


@dataclass(frozen=True, kw_only=True, slots=True)
class NothingLeftAt(OfCells):
    """Median exact match of every matching cell at one length is at most `most`."""

    length: int
    second: int | None = None
    most: float = 0.05

    @property
    def text(self) -> str:
        return f"{_at(self)} is at most {100 * self.most:g} %"

    def check(self, evidence: Evidence) -> Decision:
        return _median_at(self, evidence, self._outcome)

    def _outcome(self, median: float) -> Outcome:
        return "holds" if median <= self.most else "fails"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reaches(OfCells):
    """L95 of every matching cell is at least `least`. Above `better` it exceeds what was published.

    over: the L95 of the median curve, or that of the best run.
    """

    least: int
    better: int | None = None
    over: Literal["median", "best run"] = "median"

    @property
    def text(self) -> str:
        more = f"; above {self.better} exceeds it" if self.better is not None else ""
        return f"L95 of '{self.cells}' ({self.over}) is at least {self.least}{more}"

    def check(self, evidence: Evidence) -> Decision:
        curves = evidence.curves()
        if len(curves) < LEAST_RUNS:
            return too_few(len(curves))
        l95, shown = _l95(curves, self.over)
        outcome: Outcome | None = "holds" if l95.length >= self.least else "fails"
        if outcome == "fails" and l95.is_lower_bound:
            outcome, shown = None, f"{shown}, nothing longer was tested"
        elif self.better is not None and l95.length > self.better:
            outcome = "exceeded"
        return decided(outcome, shown, len(curves))


@dataclass(frozen=True, kw_only=True, slots=True)
class ReachesAtMost(OfCells):
    """L95 of every matching cell (of the median curve) is at most `most`: it fails beyond.

    The first tested length that fails must lie near enough to show that (`NEAR_MOST`).
    """

    most: int

    @property
    def text(self) -> str:
        return (
            f"L95 of '{self.cells}' (median) is at most {self.most}, and the first tested length "
            f"that fails at most {NEAR_MOST * self.most:g}"
        )

    def check(self, evidence: Evidence) -> Decision:
        curves = evidence.curves()
        if len(curves) < LEAST_RUNS:
            return too_few(len(curves))
        l95, shown = _l95(curves, "median")
        outcome: Outcome | None = "holds" if l95.length <= self.most else "fails"
        if outcome == "holds" and l95.is_lower_bound:
            outcome, shown = None, f"{shown}, nothing longer was tested"
        elif outcome == "holds":
            lengths = curves.columns.to_numpy()
            failed = int(lengths[lengths > l95.length].min())
            if failed > NEAR_MOST * self.most:
                outcome, shown = None, f"{shown}, nothing between it and {failed} was tested"
        return decided(outcome, shown, len(curves))


@dataclass(frozen=True, kw_only=True, slots=True)
class Fits(OfCells):
    """Median exact match of every matching cell is above 95 % at every trained length but rare
    ones."""

    @property
    def text(self) -> str:
        return f"'{self.cells}' fits the trained lengths (median above 95 % at each but rare ones)"

    def check(self, evidence: Evidence) -> Decision:
        curves = evidence.curves("train")
        if len(curves) < LEAST_RUNS:
            return too_few(len(curves))
        medians = curves.median()
        worst, least = medians.idxmin(), float(medians.min())
        if least > SOLVED:
            return decided("holds", "fits the trained lengths", len(curves))
        shown = f"does not fit the trained lengths ({percent(least)} % at {worst})"
        return decided("fails", shown, len(curves))


@dataclass(frozen=True, kw_only=True, slots=True)
class DoesNotFit(OfCells):
    """Median exact match over the trained lengths lies in [least, most].

    least: below it nothing was learned at all, which decides nothing: the arm may be broken.
    """

    least: float = 0.0
    most: float = 0.9

    @property
    def text(self) -> str:
        ends = [f"at most {100 * self.most:g} %"] if self.most < 1 else []
        ends += [f"at least {100 * self.least:g} %"] if self.least else []
        return (
            f"median exact match of '{self.cells}' over the trained lengths is "
            f"{' and '.join(ends)}, most runs not diverged"
        )

    def check(self, evidence: Evidence) -> Decision:
        runs = evidence.curves("train").mean(axis=1)
        if len(runs) < LEAST_RUNS:
            return too_few(len(runs))
        median = float(runs.median())
        shown = f"{percent(median)} % over the trained lengths"
        if 2 * evidence.num_diverged > len(runs):
            return decided(None, f"{evidence.num_diverged} runs diverged", len(runs))
        if median < self.least:
            return decided(None, f"{shown}: nothing was learned", len(runs))
        return decided("holds" if median <= self.most else "fails", shown, len(runs))


def collapses(cells: str, most: int) -> Rule:
    """The cells fit the trained lengths, and their L95 is at most `most`."""
    return Given(Fits(cells=cells), ReachesAtMost(cells=cells, most=most))


def learned(cells: str) -> Rule:
    """The cells learned something, whether they fit or not: they are not broken."""
    return DoesNotFit(cells=cells, least=0.005, most=1.0)


def _at(rule: ExactMatchAt | NothingLeftAt) -> str:
    pair = f"{rule.length}" if rule.second is None else f"{rule.length} x {rule.second}"
    return f"median exact match of '{rule.cells}' at length {pair}"


def _median_at(
    rule: ExactMatchAt | NothingLeftAt, evidence: Evidence, judge: Callable[[float], Outcome]
) -> Decision:
    runs = evidence.at(rule.length, rule.second)
    pair = f"{rule.length}" if rule.second is None else f"{rule.length} x {rule.second}"
    if not (evidence.rows["length"] == rule.length).any():
        return decided(None, f"length {rule.length} was not tested", len(runs))
    if len(runs) < LEAST_RUNS:
        return too_few(len(runs), f" at {pair}")
    median = float(runs.median())
    return decided(judge(median), f"{percent(median)} % at {pair}", len(runs))


def curve_l95(curve: pd.Series) -> L95:
    """L95 of the exact match at each length."""
    return generalizable_length([int(length) for length in curve.index.to_numpy()], curve)


def _l95(curves: pd.DataFrame, over: Literal["median", "best run"]) -> tuple[L95, str]:
    """L95 of the median curve or of the best run, and how it is shown."""
    if over == "best run":
        l95 = max(curve_l95(curve) for _, curve in curves.iterrows())
    else:
        l95 = curve_l95(curves.median())
    return l95, f"L95 {'≥' if l95.is_lower_bound else ''}{l95.length}"


def decided(outcome: Outcome | None, ours: str, n: int) -> Decision:
    return Decision(outcome=outcome, ours=ours, n=n, least_p=median_floor(n))
