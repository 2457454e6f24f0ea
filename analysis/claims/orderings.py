"""Rules that compare cells; they need no published number, so smaller scales can support them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
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
    gather_sides,
    too_few,
)
from analysis.claims.rules import Fits, curve_l95
from analysis.load import Results, trained_ranges
from analysis.statistics.intervals import median_floor, permutation_test, separation_floor
from analysis.statistics.runs import L95
from analysis.tables.sweep_tables import percent

LEVEL = 0.05  # of the test whether runs differ where their ranges overlap


@dataclass(frozen=True, kw_only=True, slots=True)
class Separated:
    """Every run of the better cells beats every run of the worse ones at one length.

    The length is the one that the claim names (`named`), if all cells were tested there; else the
    tested one (shared by all cells) that is nearest to `times` the largest trained length, the
    shorter of two; with two lengths, the tested second length nearest to it.
    """

    better: str
    worse: str
    times: float = 1.5
    named: int | None = None

    @property
    def text(self) -> str:
        named = "" if self.named is None else f"at length {self.named} if it was tested, else "
        return (
            f"{named}near {self.times:g} times the trained length every run of '{self.better}' "
            f"has a higher exact match than every run of '{self.worse}'"
        )

    @property
    def patterns(self) -> tuple[str, ...]:
        return self.better, self.worse

    def decide(self, results: Results) -> Decision:
        better, worse = gather_sides(results, self.better, self.worse)
        names = {evidence.cell for evidence in worse}
        better = [evidence for evidence in better if evidence.cell not in names]
        length, second = self._length(results, [*better, *worse])
        if length is None:
            words = "no length was tested for all of these cells"
            return Decision(outcome=None, ours=words, n=0, few=False)
        groups = [{e.cell: e.at(length, second) for e in cells} for cells in (better, worse)]
        sizes = [[len(runs) for runs in cells.values()] for cells in groups]
        n = min(map(min, sizes))
        where = str(length) if second is None else f"{length} x {second}"
        floor = max(separation_floor(a, b) for a in sizes[0] for b in sizes[1])
        if n < LEAST_RUNS:
            return too_few(n, f" at {where}", floor)
        high, low = (pd.concat(cells) for cells in groups)
        outcome: Outcome = "not separated"
        if high.min() > low.max():
            outcome = "holds"
        elif high.max() < low.min():
            outcome = "reversed"
        worst, best = (
            f"{runs.index.get_level_values(0)[place]!r} {percent(runs.iloc[place])} %"
            for runs, place in ((high, int(high.argmin())), (low, int(low.argmax())))
        )
        ours = f"worst run of {worst}, best of {best} at {where}"
        return Decision(outcome=outcome, ours=ours, n=n, least_p=floor)

    def _length(self, results: Results, cells: Sequence[Evidence]) -> tuple[int | None, int | None]:
        spans = trained_ranges(results)
        target = self.times * max((spans[e.cell][1] for e in cells if e.cell in spans), default=0)
        tests = [evidence.rows[evidence.rows["range"] == "test"] for evidence in cells]
        lengths = [test["length"] for test in tests]
        length = _nearest(lengths, target)
        if self.named is not None and all((tested == self.named).any() for tested in lengths):
            length = self.named
        if length is None or any(test["second_length"].isna().any() for test in tests):
            return length, None
        at = [test.loc[test["length"] == length, "second_length"] for test in tests]
        return length, _nearest(at, target)


@dataclass(frozen=True, kw_only=True, slots=True)
class Longer:
    """L95 (of the median curve) grows from each of these cells to the next."""

    cells: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"L95 (median) grows: {' < '.join(self.cells)}"

    @property
    def patterns(self) -> tuple[str, ...]:
        return self.cells

    def decide(self, results: Results) -> Decision:
        curves = [side[0].curves() for side in gather_sides(results, *self.cells)]
        n = min(map(len, curves))
        if n < LEAST_RUNS:
            return too_few(n)
        reached = [curve_l95(table.median()) for table in curves]
        steps = {_compare_l95(a, b) for a, b in pairwise(reached)}
        outcome: Outcome | None = "not separated"
        if steps <= {"longer", None}:
            outcome = "holds" if None not in steps else None
        elif steps == {"shorter"}:
            outcome = "reversed"
        ours = "L95 " + ", ".join(f"{'≥' if x.is_lower_bound else ''}{x.length}" for x in reached)
        return Decision(outcome=outcome, ours=ours, n=n, least_p=median_floor(n))


@dataclass(frozen=True, kw_only=True, slots=True)
class Alike(OfCells):
    """Median exact matches of all matching cells at one length lie within `within`."""

    length: int
    within: float

    @property
    def text(self) -> str:
        return (
            f"medians of '{self.cells}' at length {self.length} lie within "
            f"{100 * self.within:g} points"
        )

    def decide(self, results: Results) -> Decision:
        (found,) = gather_sides(results, self.cells)
        runs = [evidence.at(self.length) for evidence in found]
        n = min(map(len, runs))
        if n < LEAST_RUNS:
            return too_few(n, f" at {self.length}")
        medians = [float(values.median()) for values in runs]
        ours = f"{percent(min(medians))} to {percent(max(medians))} % at {self.length}"
        outcome: Outcome = "holds" if max(medians) - min(medians) <= self.within else "fails"
        return Decision(outcome=outcome, ours=ours, n=n, least_p=median_floor(n))


@dataclass(frozen=True, kw_only=True, slots=True)
class HigherMedian:
    """At one length every better cell has a higher median than every worse one, and runs of the two
    sides differ by more than chance: a permutation test of the ranks of all runs."""

    better: str
    worse: str
    length: int

    @property
    def text(self) -> str:
        return (
            f"at length {self.length} medians of '{self.better}' are above those of "
            f"'{self.worse}', and the ranks of their runs differ (permutation test, p at most "
            f"{LEVEL})"
        )

    @property
    def patterns(self) -> tuple[str, ...]:
        return self.better, self.worse

    def decide(self, results: Results) -> Decision:
        found = gather_sides(results, self.better, self.worse)
        runs = [[evidence.at(self.length) for evidence in cells] for cells in found]
        n = min(len(values) for cells in runs for values in cells)
        ranks = pd.concat([pd.concat(cells) for cells in runs], keys=[0, 1]).rank()
        sides = [ranks[ranks.index.get_level_values(0) == side] for side in (0, 1)]
        floor = separation_floor(*map(len, sides))
        if n < LEAST_RUNS:
            return too_few(n, f" at {self.length}", floor)
        high, low = ([float(values.median()) for values in cells] for cells in runs)
        p = permutation_test(*(side.to_numpy() for side in sides))
        outcome: Outcome = "not separated"
        if p <= LEVEL and min(high) > max(low):
            outcome = "holds"
        elif p <= LEVEL and max(high) < min(low):
            outcome = "reversed"
        ours = f"{percent(min(high))} % against {percent(max(low))} % at {self.length} (p {p:.2g})"
        return Decision(outcome=outcome, ours=ours, n=n, least_p=floor)


def beats(better: str, worse: str, times: float = 1.5, named: int | None = None) -> Rule:
    """`Separated`, decided only if both sides fit what they were trained on."""
    separated = Separated(better=better, worse=worse, times=times, named=named)
    return Given(Fits(cells=worse), Given(Fits(cells=better), separated))


def _compare_l95(first: L95, second: L95) -> Literal["longer", "shorter", "same"] | None:
    """How the second is compared with the first; None if longer tests could decide it."""
    if first.length < second.length and not first.is_lower_bound:
        return "longer"
    if first.length > second.length and not second.is_lower_bound:
        return "shorter"
    return None if first.is_lower_bound or second.is_lower_bound else "same"


def _nearest(tested: Sequence[pd.Series], target: float) -> int | None:
    """The length that all of these have and that is nearest to the target."""
    common = set.intersection(*({int(n) for n in lengths.unique()} for lengths in tested))

    def distance(length: int) -> tuple[float, int]:
        return abs(length - target), length

    return min(common, key=distance, default=None)
