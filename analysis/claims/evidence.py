"""Which rows may decide a claim, and what a decision is.

A run counts at a length if it was tested there on at least `LEAST_EXAMPLES` examples; diverged runs
count as 0. Rows of one rule must come from one version of the code, those of a cell from one
configuration and at each length from one test set; at paper scale the cells must have the published
settings or a reason where they differ (`analysis.claims.hyperparameters`). Otherwise nothing is
decided, and the verdict says why. Cells that are compared must have answered the same questions.

Trained lengths that training hardly drew (`RARE`) decide neither whether a model fits nor how far
it reaches; L95 in tables has no such exception.
"""

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from math import isnan, nan
from typing import Literal, Protocol

import pandas as pd

from analysis.claims.hyperparameters import compare_settings, unexplained
from analysis.load import COUNTED, Results
from analysis.statistics.intervals import median_floor
from analysis.statistics.training import drawn_lengths
from sweeps.engine.store.sources import version_of

LEAST_RUNS = 4  # of a cell: with 3 against 3 even a clean separation has p = 0.1
LEAST_EXAMPLES = 200  # of a run at a length
COUNTED_BY_RULES = ("runs", "test_examples")  # settings of which a rule says how many it needs
RARE = 0.1  # times the average share of a trained length in the training examples, at most
CHECKPOINT = "last"  # that decides; never the oracle, which leaks

Outcome = Literal["holds", "exceeded", "not separated", "reversed", "fails"]
WORST_FIRST: tuple[Outcome, ...] = ("reversed", "fails", "not separated")


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The decision of a rule about some results."""

    outcome: Outcome | None  # None: undecided, `ours` says why
    ours: str  # our numbers, in words
    n: int  # runs of the cell that has fewest, at the lengths that were used
    few: bool = False  # undecided for want of runs
    least_p: float = nan  # smallest two-sided p that so many runs can reach

    @property
    def holds(self) -> bool | None:
        """True also if exceeded; None if undecided."""
        return None if self.outcome is None else self.outcome in ("holds", "exceeded")


class Rule(Protocol):
    """A condition on the results of a sweep."""

    @property
    def text(self) -> str:
        """The rule in words, for readers of the report."""
        ...

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns of cells that it names."""
        ...

    def decide(self, results: Results) -> Decision:
        """Apply it. Raises ValueError if a pattern matches no cell, or if rows do not fit
        together."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class OfCells:
    """What all rules share that name one pattern of cells; most `check` each cell by itself."""

    cells: str

    @property
    def patterns(self) -> tuple[str, ...]:
        return (self.cells,)

    def decide(self, results: Results) -> "Decision":
        return each_cell(results, self.cells, self.check)

    def check(self, evidence: "Evidence") -> "Decision":
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """The evaluation rows of one cell at the checkpoint policy of its results."""

    cell: str
    rows: pd.DataFrame
    rare: Set[int] = frozenset()  # trained lengths that decide nothing: training hardly drew them

    def at(self, length: int, second: int | None = None) -> pd.Series:
        """Exact match by run at a length; at a pair of lengths, or the least over second lengths.

        Empty if the length was not tested.
        """
        rows = self.rows[self.rows["length"] == length]
        if second is not None:
            rows = rows[rows["second_length"] == second]
        return _exact_match(rows)[length].dropna() if len(rows) else pd.Series(dtype=float)

    def curves(self, only: str | None = None) -> pd.DataFrame:
        """Exact match of every run (rows) at every length (columns), in one range or in all.

        Runs that lack a length that another run has do not count. Rare lengths are left out, if
        any other was tested.
        """
        rows = self.rows if only is None else self.rows[self.rows["range"] == only]
        frequent = rows[~rows["length"].isin(self.rare)]
        return _exact_match(frequent if len(frequent) else rows).dropna()

    @property
    def num_diverged(self) -> int:
        diverged = self.rows["status"] == "diverged"
        return int(self.rows.loc[diverged, "trial_id"].nunique())


def _exact_match(rows: pd.DataFrame) -> pd.DataFrame:
    """The least exact match of each run (rows) at each length (columns) over second lengths; nan
    where it has too few examples."""
    least = rows.groupby(["trial_id", "length"])[["exact_match", "num_examples"]].min()
    enough = least["num_examples"] >= LEAST_EXAMPLES
    return least["exact_match"].where(enough).unstack("length")


def gather(results: Results, pattern: str) -> list[Evidence]:
    """The evidence of every cell that a pattern matches. Raises ValueError as `Rule.decide`."""
    cells = match_cells(results, pattern)
    check_rows(results, cells)
    rows, rare = results.evaluation, _rare_lengths(results, cells)
    rows = rows[rows["cell"].isin(cells)]
    ok = rows.loc[rows["status"] == "ok", ["cell", "length", "second_length", "test_set"]]
    sets = ok.groupby(["cell", "length", "second_length"], dropna=False)["test_set"].nunique()
    if (sets > 1).any():
        cell = sets.index[sets > 1].get_level_values("cell")[0]
        raise ValueError(f"runs of {cell!r} answered different test sets")
    return [
        Evidence(cell=cell, rows=rows[rows["cell"] == cell], rare=rare.get(cell, frozenset()))
        for cell in cells
    ]


def _rare_lengths(results: Results, cells: Sequence[str]) -> dict[str, frozenset[int]]:
    """The trained lengths of each cell that training drew at most `RARE` times as often as the
    average one: of two operands of 1-12 digits, both have one digit in 0.7 % of the examples."""
    chosen = results.trials["cell"].isin(cells)
    trials = results.trials.loc[chosen, ["cell", "config_json"]]  # of a hundred columns
    drawn = drawn_lengths(replace(results, trials=trials))
    return {
        cell: frozenset(n for n, share in shares.items() if round(share * len(shares), 9) <= RARE)
        for cell, shares in drawn.items()
    }


def gather_sides(results: Results, *patterns: str) -> list[list[Evidence]]:
    """The evidence for each of several patterns whose cells are compared. Raises ValueError as
    `Rule.decide`."""
    sides = [gather(results, pattern) for pattern in patterns]
    cells = [evidence for side in sides for evidence in side]
    check_rows(results, [evidence.cell for evidence in cells])
    _check_questions(cells)
    return sides


def _check_questions(cells: Sequence[Evidence]) -> None:
    """Raise ValueError if cells answered different questions at a length that they share; one test
    set in several formats asks the same, as in `analysis.statistics.comparisons`."""
    rows = pd.concat([evidence.rows for evidence in cells])
    names = [name for name in ("test_set", "asked") if name in rows]
    ok = rows[rows["status"] == "ok"]
    sets = ok.groupby(["length", "second_length"], dropna=False)[names].nunique().min(axis=1)
    if (sets > 1).any():
        cell_names = ", ".join(dict.fromkeys(repr(evidence.cell) for evidence in cells))
        raise ValueError(f"{cell_names} answered different test sets, so they are not compared")


def uncounted_runs(results: Results, patterns: Iterable[str]) -> str:
    """How many planned runs of these cells have no result, and why; "" if all have one."""
    cells = match_all(results, patterns)
    trials = results.trials[results.trials["cell"].isin(cells)]
    lost = trials.loc[~trials["status"].isin(COUNTED), "status"]
    if lost.empty:
        return ""
    kinds = ", ".join(f"{count} {kind}" for kind, count in lost.value_counts().items())
    return f"{len(lost)} of {len(trials)} planned runs do not count: {kinds}"


def check_rows(results: Results, cells: Sequence[str]) -> None:
    """Raise ValueError if the trials of these cells cannot be judged together."""
    chosen = results.trials["cell"].isin(cells)
    counted = chosen & results.trials["status"].isin(COUNTED)
    ran = results.trials.loc[counted, ["cell", "cell_id", "code_hash"]]
    codes = sorted(ran["code_hash"].dropna().map(version_of).unique())
    if len(codes) > 1:
        raise ValueError(f"rows of {len(codes)} versions of the code: {', '.join(codes)}")
    for cell, count in ran.groupby("cell")["cell_id"].nunique().items():
        if count > 1:
            raise ValueError(f"{cell!r} mixes {count} configurations")
    if results.scale == "paper":
        lines = compare_settings(replace(results, trials=results.trials[chosen]))
        wrong = [line for line in unexplained(lines) if line.field not in COUNTED_BY_RULES]
        if wrong:
            line = wrong[0]
            raise ValueError(
                f"{line.cell!r} does not have the published settings: {line.field} {line.ours} "
                f"instead of {line.stated}"
            )


def match_cells(results: Results, pattern: str) -> list[str]:
    """Labels that a pattern matches, in order. Raises ValueError if there are none."""
    cells = [cell for cell in results.cells if fnmatchcase(cell, pattern)]
    if not cells:
        raise ValueError(
            f"no cell of {results.sweep} ({results.scale}) is called {pattern!r}; there: "
            f"{', '.join(results.cells)}"
        )
    return cells


def match_all(results: Results, patterns: Iterable[str]) -> list[str]:
    """Labels that any of several patterns matches. Raises ValueError as `match_cells`."""
    return list(dict.fromkeys(cell for name in patterns for cell in match_cells(results, name)))


def each_cell(results: Results, pattern: str, check: Callable[[Evidence], Decision]) -> Decision:
    """`check` on every matching cell, which is named if there are several."""
    found = gather(results, pattern)
    decisions = [check(evidence) for evidence in found]
    if len(found) == 1:
        return decisions[0]
    labels = [f"{evidence.cell}: {d.ours}" for evidence, d in zip(found, decisions, strict=True)]
    return join(decisions, labels)


def join(decisions: Sequence[Decision], texts: Iterable[str] | None = None) -> Decision:
    """All of them: the worst that is refuted, else undecided if one is, else exceeded or holds.

    n and least_p are those of the decisions that made it so.
    """
    ours = "; ".join(dict.fromkeys(texts or (decision.ours for decision in decisions)))
    outcomes = [decision.outcome for decision in decisions]
    refuted: list[Outcome] = [word for word in WORST_FIRST if word in outcomes]
    outcome: Outcome | None
    if refuted:
        outcome = refuted[0]
    elif None in outcomes:
        outcome = None
    else:
        outcome = "exceeded" if set(outcomes) == {"exceeded"} else "holds"
    made_so = [d for d in decisions if d.outcome == outcome or (d.holds and outcome == "holds")]
    return Decision(
        outcome=outcome,
        ours=ours,
        n=min(decision.n for decision in made_so),
        few=outcome is None and any(decision.few for decision in made_so),
        least_p=max((d.least_p for d in made_so if not isnan(d.least_p)), default=nan),
    )


def too_few(n: int, where: str = "", least_p: float | None = None) -> Decision:
    """Undecided: too few runs count, at a length if one is named. least_p: of a test other than
    that about a median."""
    words = f"{n} of at least {LEAST_RUNS} runs{where}"
    least_p = median_floor(n) if least_p is None else least_p
    return Decision(outcome=None, ours=words, n=n, few=True, least_p=least_p if n else nan)
