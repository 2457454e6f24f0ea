"""Rules that decide whether a result agrees with a claim: plain conditions on medians and runs.

A rule takes the runs of one sweep at one scale and the checkpoint policy `CHECKPOINT` (never the
oracle, which leaks) to a `Decision`: it holds or not, with the numbers; or too few runs count.
Cells are named by patterns of `fnmatch`; a pattern that matches several cells is about all of them.
Diverged runs count as 0.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Protocol

import pandas as pd

from analysis.load import Results, trained_ranges
from analysis.statistics import runs as statistics
from analysis.statistics.mechanism import pattern_masses
from analysis.tables.sweep_tables import percent

LEAST_RUNS = 3  # counted runs of a cell below which nothing is decided
CHECKPOINT = "last"
Check = Callable[[pd.DataFrame], tuple[bool | None, str]]  # a median curve -> (holds, our number)


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What a rule says about our runs."""

    holds: bool | None  # None: undecided, and `ours` says why
    ours: str  # our numbers, in words
    n: int  # runs of the cell that has fewest


class Rule(Protocol):
    """A condition on the results of a sweep."""

    @property
    def text(self) -> str:
        """The rule in words, for readers of the report."""
        ...

    def decide(self, results: Results) -> Decision:
        """Apply it. Raises ValueError if a pattern matches no cell of the sweep."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ExactMatchAt:
    """Median exact match of every matching cell at one tested length lies in [least, most]."""

    cells: str
    length: int
    least: float = 0.0
    most: float = 1.0

    @property
    def text(self) -> str:
        bounds = []
        if self.least > 0:
            bounds.append(f"at least {100 * self.least:g} %")
        if self.most < 1:
            bounds.append(f"at most {100 * self.most:g} %")
        where = f"of '{self.cells}' at length {self.length}"
        return f"median exact match {where} is {' and '.join(bounds)}"

    def decide(self, results: Results) -> Decision:
        return _each_cell(results, self.cells, self._check)

    def _check(self, curve: pd.DataFrame) -> tuple[bool | None, str]:
        at = curve[curve["length"] == self.length]
        if at.empty:
            return None, f"length {self.length} was not tested"
        median = float(at["median"].iloc[0])
        return self.least <= median <= self.most, f"{percent(median)} % at {self.length}"


@dataclass(frozen=True, kw_only=True, slots=True)
class GeneralizableLength:
    """L95 of every matching cell lies in [least, most]."""

    cells: str
    least: int = 0
    most: int | None = None

    @property
    def text(self) -> str:
        bounds = [f"at least {self.least}"] if self.least else []
        bounds += [f"at most {self.most}"] if self.most is not None else []
        return f"L95 of '{self.cells}' (from the median over runs) is {' and '.join(bounds)}"

    def decide(self, results: Results) -> Decision:
        return _each_cell(results, self.cells, self._check)

    def _check(self, curve: pd.DataFrame) -> tuple[bool | None, str]:
        l95 = statistics.generalizable_length(curve["length"], curve["median"])
        bound = "≥" if l95.is_lower_bound else ""
        shown = f"L95 {bound}{l95.length}"
        if self.most is not None and l95.is_lower_bound and l95.length <= self.most:
            return None, f"{shown}, nothing longer was tested"
        inside = self.least <= l95.length and (self.most is None or l95.length <= self.most)
        return inside, shown


@dataclass(frozen=True, kw_only=True, slots=True)
class Separated:
    """Every run of the better cells beats every run of the worse ones at one length.

    The length is the tested one (shared by all cells) that is nearest to `times` the largest
    trained length, the shorter of two.
    """

    better: str
    worse: str
    times: float = 2.0

    @property
    def text(self) -> str:
        return (
            f"near {self.times:g} times the trained length every run of '{self.better}' has a "
            f"higher exact match than every run of '{self.worse}'"
        )

    def decide(self, results: Results) -> Decision:
        evaluation = results.evaluation
        better, worse = (match_cells(results, pattern) for pattern in (self.better, self.worse))
        better = [cell for cell in better if cell not in worse]
        runs = statistics.run_curves(evaluation[evaluation["range"] == "test"])
        runs = runs[runs["cell"].isin([*better, *worse])]
        n = min((_count(runs, cell) for cell in [*better, *worse]), default=0)
        if n < LEAST_RUNS:
            return Decision(holds=None, ours=_too_few(n), n=n)
        length = self._length(results, runs, [*better, *worse])
        if length is None:
            return Decision(holds=None, ours="no length was tested for all of these cells", n=n)
        at = runs[runs["length"] == length]
        low = float(at.loc[at["cell"].isin(better), "exact_match"].min())
        high = float(at.loc[at["cell"].isin(worse), "exact_match"].max())
        ours = f"worst {percent(low)} % against best {percent(high)} % at {length}"
        return Decision(holds=low > high, ours=ours, n=n)

    def _length(self, results: Results, runs: pd.DataFrame, cells: Sequence[str]) -> int | None:
        tested = runs.groupby("length")["cell"].nunique()
        common = sorted(int(length) for length in tested[tested == len(cells)].index)
        spans = trained_ranges(results)
        target = self.times * max(spans[cell][1] for cell in cells)
        return min(common, key=lambda n: (abs(n - target), n)) if common else None


@dataclass(frozen=True, kw_only=True, slots=True)
class AttendsAsProven:
    """In the median over analysed runs of every matching cell the heads show both patterns of the
    theorem (`analysis.statistics.mechanism.pattern_masses`) to at least this fraction.
    """

    cells: str
    least: float

    @property
    def text(self) -> str:
        return (
            f"median over runs of '{self.cells}': for each pattern of the theorem one head puts at "
            f"least {100 * self.least:g} % of the attention that it could on its keys, BOS aside"
        )

    def decide(self, results: Results) -> Decision:
        masses, decisions = pattern_masses(results), list[Decision]()
        for cell in match_cells(results, self.cells):
            runs = masses.loc[masses["cell"] == cell, "pattern"].astype(float)
            if len(runs) < LEAST_RUNS:
                decisions.append(Decision(holds=None, ours=_too_few(len(runs)), n=len(runs)))
                continue
            median = float(runs.median())
            shown = f"{percent(median)} % (runs {percent(runs.min())} to {percent(runs.max())} %)"
            decisions.append(Decision(holds=median >= self.least, ours=shown, n=len(runs)))
        return _join(decisions)


@dataclass(frozen=True, slots=True)
class Every:
    """All of several rules."""

    rules: tuple[Rule, ...]

    @property
    def text(self) -> str:
        return "; and ".join(rule.text for rule in self.rules)

    def decide(self, results: Results) -> Decision:
        return _join([rule.decide(results) for rule in self.rules])


def match_cells(results: Results, pattern: str) -> list[str]:
    """Labels that a pattern matches, in order. Raises ValueError if there are none."""
    cells = [cell for cell in results.cells if fnmatchcase(cell, pattern)]
    if not cells:
        raise ValueError(
            f"no cell of {results.sweep} ({results.scale}) is called {pattern!r}; there: "
            f"{', '.join(results.cells)}"
        )
    return cells


def _each_cell(results: Results, pattern: str, check: Check) -> Decision:
    """`check` on the median curve of every matching cell."""
    evaluation = results.evaluation
    curves, decisions = statistics.cell_curves(evaluation), list[Decision]()
    cells = match_cells(results, pattern)
    for cell in cells:
        n = _count(evaluation, cell)
        holds, ours = (None, _too_few(n))
        if n >= LEAST_RUNS:
            holds, ours = check(curves[curves["cell"] == cell])
        label = f"{cell}: {ours}" if len(cells) > 1 else ours
        decisions.append(Decision(holds=holds, ours=label, n=n))
    return _join(decisions)


def _join(decisions: Sequence[Decision]) -> Decision:
    """False if one is false, else undecided if one is, else true."""
    answers = [decision.holds for decision in decisions]
    holds = False if False in answers else None if None in answers else True
    texts = dict.fromkeys(decision.ours for decision in decisions)
    return Decision(holds=holds, ours="; ".join(texts), n=min(d.n for d in decisions))


def _count(rows: pd.DataFrame, cell: str) -> int:
    return int(rows.loc[rows["cell"] == cell, "trial_id"].nunique())


def _too_few(n: int) -> str:
    return f"{n} of at least {LEAST_RUNS} runs"
