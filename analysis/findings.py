"""Findings, published or ours, and a verdict on each from the rows of a store.

`findings.toml` holds them, by sweep, with a rule for each scale that can decide: `paper` judges the
published value and applies at paper scale alone, `laptop` is what a smaller scale can support (and
decides at paper scale where there is no `paper`), `proven` holds at any scale or nowhere. A rule is
`Within` (a number of every cell lies in a range), `Ordered` (one side is above the other), or a
list of them, all of which must hold. They read the numbers that tables print
(`analysis.statistics.cells`).

Nothing is decided

- with fewer than `LEAST_RUNS` runs of a cell, each of `LEAST_EXAMPLES` examples or more at the
  lengths that are used; diverged runs count as 0; constructed models need one run;
- where the rows of a rule come from several versions of the code, those of a cell from several
  configurations or test sets, cells that are compared answered other questions, or cells at paper
  scale lack the published settings without a reason (`analysis.settings`);
- where a cell that the rule says must fit does not: it is broken, or trained too little;
- where at every length that they share both sides of an order are saturated: all solve it, or
  none has more than `FLOOR` right.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from math import inf, isnan, nan, sqrt
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import pandas as pd

from analysis.load import COUNTED, Results, find_cells, trained_ranges
from analysis.settings import compare_settings, unexplained
from analysis.statistics import runs as statistics
from analysis.statistics.cells import Place, cells_of, read_place, show_place
from analysis.statistics.intervals import median_floor, rank_floor, rank_test
from analysis.statistics.mechanism import pattern_masses
from analysis.statistics.runs import SEEDS, SOLVED
from analysis.tables.table import percent
from pcore.theory.ceilings import count_ceiling
from sweeps.engine.store.sources import version_of

FILE = Path(__file__).with_name("findings.toml")
LEAST_RUNS = 4  # of a cell: with 3 against 3 even a clean separation has p = 0.1
LEAST_EXAMPLES = 200  # of a run at a length
LEVEL = 0.05  # of the test of ranks
FLOOR = 0.05  # medians up to which nothing is left; above SOLVED a length tells nobody apart
LEARNED = 0.005  # exact match on trained lengths below which nothing was learned at all
NEAR_MOST = 1.25  # times the largest L95 allowed: there at the latest a failure must be seen
CHECKPOINT = "last"  # the policy that decides
COUNTED_BY_RULES = ("runs", "eval.num_examples")  # settings of which a rule says how many it needs
PAPER = "arXiv 2405.20671"
RULES = ("paper", "laptop", "proven")  # fields of a finding that hold one
SHARES = ("EM", "train", "right", "pattern", "spread", "ceiling")  # metrics in [0, 1]

CellRow: TypeAlias = Mapping[Any, Any]  # of `Cells.at`: the statistics of a cell at a place
Certainty = Literal["paper", "abstract", "secondary", "ours"]
Outcome = Literal["holds", "exceeded", "saturated", "not separated", "reversed", "fails"]
WORST_FIRST: tuple[Outcome, ...] = ("reversed", "fails", "not separated", "saturated")
Verdict = Literal[
    "reproduced",  # a published number, at paper scale
    "exceeded",  # more than was published
    "not reproduced",
    "holds",  # an order, a proven result, or one of ours
    "does not hold",
    "reversed",  # an order the other way round
    "not separated",  # runs of both sides overlap
    "saturated",  # both sides are all right or all wrong: nothing can be told apart
    "not enough seeds",
    "undecided",
    "not run",
    "not run at paper scale",  # where no smaller scale can decide
]
# Verdicts that are no outcome. Of a published number "not separated" and "reversed" are failures.
AS_OURS = {"exceeded": "holds", "fails": "does not hold"}
AS_PUBLISHED = {"holds": "reproduced", **dict.fromkeys(WORST_FIRST[:3], "not reproduced")}


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What a rule says of some results."""

    outcome: Outcome | None = None  # None: undecided, `ours` says why
    ours: str = ""  # our numbers, in words
    n: int = 0  # runs of the cell that has fewest
    is_few: bool = False  # undecided for want of runs
    least_p: float = nan  # smallest two-sided p that so many runs can reach

    @property
    def holds(self) -> bool:
        """Also if exceeded."""
        return self.outcome in ("holds", "exceeded")


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """A number of a cell, as its rule reads it."""

    value: float
    shown: str
    num_runs: int
    undecided: str = ""  # why it decides nothing
    is_open: bool = False  # an L95 that longer tests could raise
    next_length: int = 0  # of an L95: the first tested length that failed
    tested: float = 0.0  # of a constructed model: up to which part of its bound
    least_p: float = nan  # smallest p about a median that runs with these seeds can reach


@dataclass(frozen=True, kw_only=True, slots=True)
class Within:
    """A number of every cell that a pattern matches lies in a range.

    metric: median over runs of exact match at a length (`EM@200`), at a pair of lengths
    (`EM@20x15`) or over the trained lengths (`train`); the L95 of the median curve (`L95`) or of
    the best run (`best L95`); the attention on the patterns of the theorem (`pattern`); of a
    constructed model the share right up to or beyond its bound (`right to 2^P - 2`,
    `right beyond 2^P - 2`); by how many standard errors the best run is above the ceiling of one
    layer without positions (`above ceiling@3,4`), or that ceiling, counted without rows
    (`ceiling@3`); of several cells the largest difference of medians (`spread@200`).
    """

    metric: str
    cells: str = ""
    low: float = -inf
    high: float = inf
    exceeds: float = inf  # above it, it is more than was published
    near: float = 0.0  # the part of a bound up to which one cell must have been tested
    fits: tuple[str, ...] = ()  # cells that must fit, or nothing is decided
    learned: tuple[str, ...] = ()  # cells that must have learned something

    @property
    def text(self) -> str:
        scale, unit = (100, " %") if self.metric.startswith(SHARES) else (1, "")
        ends = [f"at least {scale * self.low:g}{unit}"] if self.low > -inf else []
        ends += [f"at most {scale * self.high:g}{unit}"] if self.high < inf else []
        parts = [f"{self.metric} of '{self.cells}'" if self.cells else self.metric]
        parts += [f" is {' and '.join(ends)}"]
        parts += (
            [f"; above {scale * self.exceeds:g}{unit} exceeds it"] if self.exceeds < inf else []
        )
        parts += [f", tested to {100 * self.near:g} % of a bound"] if self.near else []
        return "".join(parts) + _describe_conditions(self)

    @property
    def patterns(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.cells, *self.fits, *self.learned)))

    def decide(self, numbers: "Numbers") -> Decision:
        cells = numbers.match(self.cells) if self.cells else [""]
        if unmet := numbers.check_conditions(self):
            return unmet
        if self.metric.startswith("spread"):
            return self._decide_spread(numbers, cells)
        found = [numbers.measure(cell, self.metric) for cell in cells]
        decisions = map(self._judge, found)
        if len(cells) > 1:
            each = zip(cells, decisions, strict=True)
            decisions = [replace(d, ours=f"{cell}: {d.ours}") for cell, d in each]
        decision = join(list(decisions))
        if decision.holds and max(measured.tested for measured in found) < self.near:
            words = f"{decision.ours}; nothing from {100 * self.near:g} % of a bound on was tested"
            return replace(decision, outcome=None, ours=words)
        return decision

    def _judge(self, found: Measured) -> Decision:
        one_is_enough = self.metric.startswith(("right", "ceiling"))
        if not (one_is_enough or found.undecided) and found.num_runs < LEAST_RUNS:
            return too_few(found.num_runs, found.least_p)
        outcome: Outcome | None = "holds" if self.low <= found.value <= self.high else "fails"
        missing = found.undecided
        if found.is_open and (found.value < self.low or found.value <= self.high < inf):
            missing = f"{found.shown}, nothing longer was tested"
        elif outcome == "holds" and found.next_length > NEAR_MOST * self.high:
            missing = f"{found.shown}, nothing between it and {found.next_length} was tested"
        elif outcome == "holds" and found.value > self.exceeds:
            outcome = "exceeded"
        return Decision(
            outcome=None if missing else outcome,
            ours=missing or found.shown,
            n=found.num_runs,
            least_p=nan if one_is_enough else found.least_p,
        )

    def _decide_spread(self, numbers: "Numbers", cells: Sequence[str]) -> Decision:
        numbers.check_questions(cells)
        place = self.metric.partition("@")[2]
        found = [numbers.measure(cell, f"EM@{place}") for cell in cells]
        medians, n = [measured.value for measured in found], min(m.num_runs for m in found)
        shown = f"{percent(min(medians))} to {percent(max(medians))} % at {place}"
        why = next((measured.undecided for measured in found if measured.undecided), "")
        spread = max(found, key=lambda measured: measured.least_p)  # the least sure of them
        width = max(medians) - min(medians)
        return self._judge(replace(spread, value=width, shown=shown, num_runs=n, undecided=why))


@dataclass(frozen=True, kw_only=True, slots=True)
class Ordered:
    """The better cells are above the worse ones at a length: every run above every run, or (test
    `ranks`) every median above every median and the ranks of runs apart by more than chance. Or
    (metric `L95`) the L95 of the better cell is larger.

    The length is the one that the finding names (`length`) if all cells were tested there, else the
    tested one that is nearest to `times` the largest trained length, the shorter of two; with two
    lengths, the second that is nearest to it. Where both sides are saturated there, the next
    nearest decides.
    """

    better: str
    worse: str
    metric: str = "EM"
    times: float = 1.5
    length: int | None = None
    test: str = "every run"
    fits: tuple[str, ...] = ()
    learned: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        if self.metric == "L95":
            return f"L95 of '{self.better}' is above that of '{self.worse}'"
        named = "" if self.length is None else f"at length {self.length} if it was tested, else "
        what = "every run" if self.test == "every run" else "every median"
        more = "" if self.test == "every run" else f", and a test of their ranks has p <= {LEVEL}"
        return (
            f"{named}near {self.times:g} times the trained length {what} of '{self.better}' is "
            f"above {what} of '{self.worse}'{more}{_describe_conditions(self)}"
        )

    @property
    def patterns(self) -> tuple[str, ...]:
        return self.better, self.worse, *self.fits, *self.learned

    def decide(self, numbers: "Numbers") -> Decision:
        worse = numbers.match(self.worse)
        better = [cell for cell in numbers.match(self.better) if cell not in worse]
        if not better:
            raise ValueError(f"every cell of '{self.better}' is one of '{self.worse}' too")
        numbers.check_questions([*better, *worse])
        if unmet := numbers.check_conditions(self):
            return unmet
        if self.metric == "L95":
            return _compare_l95(*(numbers.measure(c[0], "L95") for c in (better, worse)))
        nearest: Decision | None = None
        for place in numbers.shared_places([*better, *worse], self.times, self.length):
            high, low = ([numbers.cells.at(c, *place) for c in side] for side in (better, worse))
            n, fewest = (min(row[k] for row in (*high, *low)) for k in ("n", "num_examples"))
            at, floor = show_place(*place), numbers.floor(better, worse, place)
            if fewest < LEAST_EXAMPLES:
                return Decision(ours=f"only {fewest} examples at {at}", n=n)
            if n < LEAST_RUNS:
                return too_few(n, floor, f" at {at}")
            p = numbers.rank_test(better, worse, place) if self.test == "ranks" else None
            decision = replace(self._judge(high, low, p, at), n=n, least_p=floor)
            if not _are_saturated([*high, *low]):
                return decision
            nearest = nearest or decision
        if nearest is None:
            return Decision(ours="no length was tested for all of these cells")
        words = f"{nearest.ours}, and no length tells them apart"
        return replace(nearest, outcome="saturated", ours=words, least_p=nan)

    def _judge(
        self, better: list[CellRow], worse: list[CellRow], p: float | None, at: str
    ) -> Decision:
        """p: of the test of ranks, of medians; None: of every run."""
        low, high = ("worst", "best") if p is None else ("median", "median")
        lowest, highest = min(better, key=itemgetter(low)), max(worse, key=itemgetter(high))
        is_higher, is_sure = lowest[low] > highest[high], p is None or p <= LEVEL
        is_lower = max(row[high] for row in better) < min(row[low] for row in worse)
        outcome: Outcome = "holds" if is_higher else "reversed" if is_lower else "not separated"
        if p is not None:
            ours = (
                f"{percent(lowest[low])} % against {percent(highest[high])} % at {at} (p {p:.2g})"
            )
        else:
            ours = (
                f"worst run of {lowest['cell']!r} {percent(lowest[low])} %, "
                f"best of {highest['cell']!r} {percent(highest[high])} % at {at}"
            )
        return Decision(outcome=outcome if is_sure else "not separated", ours=ours)


Rule: TypeAlias = tuple[Within | Ordered, ...]  # all of them


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One result, published or ours."""

    sweep: str  # that tests it
    text: str
    published: str  # its value in words
    certainty: Certainty  # how sure the published value is; of ours: "ours"
    source: str = PAPER
    paper: Rule | None = None  # the published value; at paper scale only
    laptop: Rule | None = None  # what a smaller scale can support
    proven: Rule | None = None  # instead of both: holds at any scale or nowhere
    laptop_text: str = ""  # what the laptop rule says, where it is not the text
    remark: str = ""

    @property
    def is_ours(self) -> bool:
        return self.certainty == "ours"


@cache
def load_findings(file: Path = FILE) -> tuple[Finding, ...]:
    """Read the file: published findings, then ours. Raises TypeError for a field that none has."""
    content = tomllib.loads(file.read_text(encoding="utf-8"))
    found = list[Finding]()
    for sweep, entries in content.items():
        for entry in entries:
            values: dict[str, Any] = {
                name: read_rule(value) if name in RULES else value for name, value in entry.items()
            }
            found.append(Finding(sweep=sweep, **values))
    return tuple(sorted(found, key=lambda finding: finding.is_ours))


def read_rule(value: Any) -> Rule:
    """A rule as TOML has it; a list of `cells` or `worse` stands for a rule about each."""
    if isinstance(value, list):
        return tuple(part for one in value for part in read_rule(one))
    for name in ("cells", "worse"):
        if isinstance(several := value.get(name), list):
            return read_rule([{**value, name: one} for one in several])
    own = [value[name] for name in ("worse", "better", "cells") if name in value]
    conditions = {}
    for name, usual in (
        ("fits", "better" in value and value.get("metric") != "L95"),
        ("learned", False),
    ):
        given = value.get(name, usual)
        conditions[name] = tuple(
            own if given is True else [given] if isinstance(given, str) else given or ()
        )
    return ((Ordered if "better" in value else Within)(**{**value, **conditions}),)


def patterns_of(rule: Rule) -> list[str]:
    """All patterns of labels that it names."""
    return [pattern for part in rule for pattern in part.patterns]


class Numbers:
    """The numbers of the cells of a sweep, as its tables print them, for rules."""

    def __init__(self, results: Results):
        self.results = results
        self.cells = cells_of(results)

    def match(self, *patterns: str) -> list[str]:
        """`find_cells`, of none where no rows are needed."""
        return find_cells(self.results, *patterns) if patterns else []

    def check(self, patterns: Sequence[str]) -> None:
        """Raise ValueError if the rows of these cells cannot be judged together."""
        cells, trials = self.match(*patterns), self.results.trials
        chosen = trials["cell"].isin(cells)
        ran = trials.loc[chosen & trials["status"].isin(COUNTED), ["cell", "cell_id", "code_hash"]]
        codes = sorted({version_of(code) for code in ran["code_hash"].dropna()})
        if len(codes) > 1:
            raise ValueError(f"rows of {len(codes)} versions of the code: {', '.join(codes)}")
        for cell, count in ran.groupby("cell")["cell_id"].nunique().items():
            if count > 1:
                raise ValueError(f"{cell!r} mixes {count} configurations")
        sets = self._num_sets(cells, ["cell", "length", "second_length"], ["test_set"])
        if len(mixed := sets.index[sets > 1].get_level_values(0)):
            raise ValueError(f"runs of {mixed[0]!r} answered different test sets")
        if self.results.scale == "paper":
            lines = compare_settings(replace(self.results, trials=trials[chosen]))
            for line in unexplained(lines):
                if line.field not in COUNTED_BY_RULES:
                    raise ValueError(
                        f"{line.cell!r} does not have the published settings: {line.field} "
                        f"{line.ours} instead of {line.stated}"
                    )

    def check_questions(self, cells: Sequence[str]) -> None:
        """Raise ValueError if cells answered different questions at a length that they share."""
        names = [name for name in ("test_set", "asked") if name in self.results.evaluation]
        if (self._num_sets(cells, ["length", "second_length"], names) > 1).any():
            shown = ", ".join(map(repr, cells))
            raise ValueError(f"{shown} answered different test sets, so they are not compared")

    def _num_sets(self, cells: Sequence[str], keys: list[str], names: list[str]) -> pd.Series:
        rows = self.results.evaluation
        ok = rows[rows["cell"].isin(cells) & (rows["status"] == "ok")]
        return ok.groupby(keys, dropna=False)[names].nunique().min(axis=1)

    def check_conditions(self, rule: Within | Ordered) -> Decision | None:
        """Undecided, if a cell that must fit does not, or one learned nothing that must have."""
        for cell in self.match(*rule.fits):
            found = self.measure(cell, "train")
            if found.num_runs < LEAST_RUNS:
                return too_few(found.num_runs, found.least_p)
            if not statistics.fits(found.value):
                words = f"not judged: {cell!r} does not fit the trained lengths ({found.shown})"
                return Decision(ours=words, n=found.num_runs)
        for cell in self.match(*rule.learned):
            found = self.measure(cell, "train")
            rows = self._rows(cell).drop_duplicates("trial_id")
            num_diverged = int((rows["status"] == "diverged").sum())
            if found.num_runs < LEAST_RUNS:
                return too_few(found.num_runs, found.least_p)
            if 2 * num_diverged > found.num_runs or not found.value >= LEARNED:
                why = f"{num_diverged} runs diverged" if num_diverged else f"{found.shown}"
                return Decision(ours=f"{cell!r}: {why}, nothing was learned", n=found.num_runs)
        return None

    def measure(self, cell: str, metric: str) -> Measured:
        """A metric of `Within` for a cell."""
        found = self._measure(cell, metric)
        if not cell:
            return found
        seeds = self._rows(cell).drop_duplicates("trial_id")[SEEDS].to_numpy()
        known = seeds if len(seeds) == found.num_runs else None
        return replace(found, least_p=median_floor(found.num_runs, known))

    def _measure(self, cell: str, metric: str) -> Measured:
        name, _, place = metric.partition("@")
        if name == "EM":
            return self._measure_at(cell, *read_place(place))
        if name in ("L95", "best L95"):
            return self._measure_l95(cell, is_best=name != "L95")
        if name == "train":
            row: Any = self.cells.train.loc[cell]
            return Measured(value=row["median"], num_runs=row["n"], shown=_share(row["median"]))
        if name == "pattern":
            masses = pattern_masses(self.results)
            runs = masses.loc[masses["cell"] == cell, "pattern"].astype(float)
            shown = f"{_share(runs.median())} (runs {percent(runs.min())} to {_share(runs.max())})"
            return Measured(value=runs.median(), num_runs=len(runs), shown=shown)
        if name == "ceiling":
            ceiling = float(count_ceiling(int(place)))
            return Measured(value=ceiling, num_runs=0, shown=f"{100 * ceiling:.3g} % at {place}")
        if name == "above ceiling":
            return self._measure_ceilings(cell, [int(n) for n in place.split(",")])
        assert metric.startswith("right "), metric
        _, side, _, _, less = metric.split()
        return self._measure_bound(cell, side == "beyond", int(less))

    def _rows(self, cell: str) -> pd.DataFrame:
        return self.results.evaluation[self.results.evaluation["cell"] == cell]

    def rank_test(self, better: Sequence[str], worse: Sequence[str], place: Place) -> float:
        """p of the ranks of all runs of both sides."""
        high, low = (self.cells.runs_at(side, place) for side in (better, worse))
        seeds = high[SEEDS].to_numpy(), low[SEEDS].to_numpy()
        return rank_test(high["exact_match"].to_numpy(), low["exact_match"].to_numpy(), seeds)

    def floor(self, better: Sequence[str], worse: Sequence[str], place: Place) -> float:
        """The smallest p with which runs of any two of the cells could be separated."""
        sides = ([self.cells.runs_at([c], place)[SEEDS] for c in side] for side in (better, worse))
        pairs = ((a.to_numpy(), b.to_numpy()) for a, b in product(*sides))
        return max(rank_floor((len(a), len(b)), (a, b)) for a, b in pairs)

    def shared_places(
        self, cells: Sequence[str], times: float, named: int | None
    ) -> Iterator[Place]:
        """The lengths, with second ones, that all of these cells were tested at: the one that is
        named, then the nearest to `times` the largest trained length."""
        spans = trained_ranges(self.results)
        target = times * max((spans[cell][1] for cell in cells if cell in spans), default=0)

        def distance(length: int) -> tuple[float, int]:
            return abs(length - target), length

        tests = [rows[rows["range"] == "test"] for rows in map(self._rows, cells)]
        shared = set.intersection(*({int(n) for n in test["length"]} for test in tests))
        for length in [*shared & {named}, *sorted(shared - {named}, key=distance)]:
            at = [test.loc[test["length"] == length, "second_length"] for test in tests]
            if any(seconds.isna().any() for seconds in at):
                yield length, None
            elif both := set.intersection(*({int(n) for n in seconds} for seconds in at)):
                yield length, min(both, key=distance)

    def _measure_at(self, cell: str, length: int, second: int | None) -> Measured:
        found, place = self.cells.at(cell, length, second), show_place(length, second)
        few = f"only {found['num_examples']} examples at {place}"
        few = few if found["num_examples"] < LEAST_EXAMPLES else ""
        return Measured(
            value=found["median"],
            num_runs=found["n"],
            shown=f"{percent(found['median'])} % at {place}",
            undecided=few if found["n"] else f"length {place} was not tested",
        )

    def _measure_l95(self, cell: str, is_best: bool) -> Measured:
        runs, tested = self.cells.run_l95, self.cells.curves.query("cell == @cell")
        if tested.empty:
            return Measured(value=0, num_runs=0, shown="L95 0")
        best = runs[runs["cell"] == cell].sort_values("l95").iloc[-1]
        found: Any = best if is_best else self.cells.l95.loc[cell]
        length, is_open = int(found["l95"]), bool(found["l95_is_lower_bound"])
        beyond = tested.loc[tested["length"] > length, "length"]
        decides = tested[tested["length"] <= (beyond.min() if len(beyond) else length)]
        few = decides[decides["num_examples"] < LEAST_EXAMPLES]
        short = f"only {few['num_examples'].min()} examples at {few['length'].min()}"
        return Measured(
            value=length,
            num_runs=int(tested["n"].max()),
            shown=f"L95 {'≥' if is_open else ''}{length}",
            undecided=short if len(few) else "",
            is_open=is_open,
            next_length=0 if is_open or beyond.empty else int(beyond.min()),
        )

    def _measure_ceilings(self, cell: str, digits: list[int]) -> Measured:
        places, learned = [self.cells.at(cell, m) for m in digits], self.cells.at(cell, 1)["median"]
        missing = "" if all(row["n"] for row in places) else "not all lengths were tested"
        if not learned >= FLOOR:  # it stays below any ceiling
            missing = missing or f"nothing was learned: {_share(learned)} at 1 digit"
        limits = [float(count_ceiling(m)) for m in digits]
        above = [
            (row["best"] - limit) / sqrt(limit * (1 - limit) / max(row["num_examples"], 1))
            for row, limit in zip(places, limits, strict=True)
        ]
        best = [f"{_share(row['best'])} at {m}" for m, row in zip(digits, places, strict=True)]
        return Measured(
            value=max(above),
            num_runs=min(row["n"] for row in places),
            shown=f"best runs {', '.join(best)}",
            undecided=missing,
        )

    def _measure_bound(self, cell: str, is_beyond: bool, less: int) -> Measured:
        trials, rows = self.results.trials, self._rows(cell)
        bits = trials.loc[trials["cell"] == cell, "model.num_bits"].dropna()
        bound = 2 ** int(bits.iloc[0]) - less if len(bits) else 0
        rows = rows[(rows["length"] > bound) == is_beyond]
        num_runs = rows["trial_id"].nunique()
        if rows.empty or not bound:
            missing = f"nothing was tested {'beyond' if is_beyond else 'up to'} {bound}"
            return Measured(value=nan, num_runs=num_runs, shown=missing, undecided=missing)
        right, total = int(rows["num_correct"].sum()), int(rows["num_examples"].sum())
        lengths = f"{rows['length'].min()}-{rows['length'].max()}"
        shown = f"{right:,} of {total:,} right at {lengths} digits, bound {bound}"
        enough = rows.loc[rows["num_examples"] >= LEAST_EXAMPLES, "length"]
        few = f"{shown}, nowhere on {LEAST_EXAMPLES} examples"
        return Measured(
            value=right / total,
            num_runs=num_runs,
            shown=shown,
            undecided=few if enough.empty and right == (0 if is_beyond else total) else "",
            tested=enough.max() / bound if len(enough) else 0.0,
        )


def _compare_l95(better: Measured, worse: Measured) -> Decision:
    """Whether the first L95 is the larger; undecided where longer tests could turn it."""
    n, shorter = min(better.num_runs, worse.num_runs), min(better.value, worse.value)
    least_p = max(better.least_p, worse.least_p)
    if n < LEAST_RUNS:
        return too_few(n, least_p)
    if any(one.is_open and one.value == shorter for one in (better, worse)):
        return Decision(ours=f"{worse.shown}, {better.shown}: nothing longer was tested", n=n)
    outcome, sign = "not separated", ", "
    if worse.value != better.value:
        outcome, sign = ("holds", " < ") if worse.value == shorter else ("reversed", " > ")
    ours = f"{worse.shown}{sign}{better.shown}"
    return Decision(outcome=outcome, ours=ours, n=n, least_p=least_p)


def _are_saturated(cells: Sequence[CellRow]) -> bool:
    """Whether all of these cells solve a length, or nothing is left of any."""
    medians = [row["median"] for row in cells]
    return max(medians) <= FLOOR or min(medians) > SOLVED


def join(decisions: Sequence[Decision]) -> Decision:
    """All of them: the worst that is refuted, else undecided if one is, else exceeded or holds; n
    and least_p of those that made it so.
    """
    outcomes = [decision.outcome for decision in decisions]
    refuted: list[Outcome] = [word for word in WORST_FIRST if word in outcomes]
    outcome: Outcome | None = None
    if refuted:
        outcome = refuted[0]
    elif None not in outcomes:
        outcome = "exceeded" if set(outcomes) == {"exceeded"} else "holds"
    made_so = [d for d in decisions if d.outcome == outcome or (d.holds and outcome == "holds")]
    return Decision(
        outcome=outcome,
        ours="; ".join(dict.fromkeys(decision.ours for decision in decisions)),
        n=min(decision.n for decision in made_so),
        is_few=outcome is None and any(decision.is_few for decision in made_so),
        least_p=max((d.least_p for d in made_so if not isnan(d.least_p)), default=nan),
    )


def too_few(n: int, least_p: float, where: str = "") -> Decision:
    """Undecided: too few runs count."""
    words = f"{n} of at least {LEAST_RUNS} runs{where}"
    return Decision(ours=words, n=n, is_few=True, least_p=least_p if n else nan)


def _share(fraction: float) -> str:
    return f"{percent(fraction)} %"


def _describe_conditions(rule: Within | Ordered) -> str:
    """What must hold for a rule to decide, in words."""
    parts = [f"'{name}' fits the trained lengths (median above 95 %)" for name in rule.fits]
    parts += [f"'{name}' learned something" for name in rule.learned]
    return f"; decided only if {' and '.join(parts)}" if parts else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class VerdictRow:
    """A finding and our verdict on it."""

    finding: Finding
    rule: Rule | None  # the one that decided, or would have
    scale: str = ""  # of the rows that decided; "any": of none; "": it was not run
    decision: Decision = Decision()

    @property
    def verdict(self) -> Verdict:
        finding, outcome = self.finding, self.decision.outcome
        if not self.scale:
            is_small = finding.proven or finding.laptop
            return "not run" if is_small else "not run at paper scale"
        if outcome is None:
            return "not enough seeds" if self.decision.is_few else "undecided"
        is_published = self.rule is finding.paper and not finding.is_ours
        return cast("Verdict", (AS_PUBLISHED if is_published else AS_OURS).get(outcome, outcome))

    @property
    def is_weaker(self) -> bool:
        """Whether what a smaller scale can support decided, not the published value."""
        of_both = self.finding.paper is not None and self.finding.laptop is not None
        return of_both and self.rule is self.finding.laptop

    @property
    def text(self) -> str:
        """What the verdict is about, in words."""
        return (self.is_weaker and self.finding.laptop_text) or self.finding.text

    @property
    def beside(self) -> str:
        """What has to be known of our numbers, such as how sure so few runs can be."""
        n, least_p = self.decision.n, self.decision.least_p
        parts = ["not the published value (see the rule)"] if self.is_weaker else []
        if not isnan(least_p):
            parts.append(f"smallest p that {n} runs can reach: {least_p:.2g}")
        return "; ".join(parts)


NO_ROWS = Numbers(cast("Results", None))  # for what is counted without any


def judge(findings: Iterable[Finding], results: Iterable[Results]) -> list[VerdictRow]:
    """A verdict for every finding: at paper scale if it was run there, else at laptop scale, else
    "not run". Undecided where a rule names a cell that the sweep does not have, or where rows do
    not fit together.
    """
    by_view = {(sweep.sweep, sweep.scale): sweep for sweep in results}
    return [_judge(finding, by_view) for finding in findings]


def _judge(finding: Finding, by_view: Mapping[tuple[str, str], Results]) -> VerdictRow:
    if finding.proven and not patterns_of(finding.proven):
        decision = join([part.decide(NO_ROWS) for part in finding.proven])
        return VerdictRow(finding=finding, rule=finding.proven, scale="any", decision=decision)
    rules = {
        "paper": finding.proven or finding.paper or finding.laptop,
        "laptop": finding.proven or finding.laptop,
    }
    undecided: VerdictRow | None = None
    for scale, rule in rules.items():
        results = by_view.get((finding.sweep, scale))
        if rule is None or results is None or results.all_evaluation.empty:
            continue
        row = VerdictRow(finding=finding, rule=rule, scale=scale, decision=decide(rule, results))
        if row.verdict not in ("not enough seeds", "undecided", "saturated"):
            return row
        undecided = undecided or row
    return undecided or VerdictRow(finding=finding, rule=rules["paper"])


def decide(rule: Rule, results: Results) -> Decision:
    """What a rule says of a sweep; undecided where its rows do not fit together."""
    try:
        is_last = results.checkpoint == CHECKPOINT
        numbers = Numbers(results if is_last else results.at(CHECKPOINT))
        numbers.check(patterns_of(rule))
        decision = join([part.decide(numbers) for part in rule])
    except ValueError as error:
        return Decision(ours=str(error))
    trials = results.trials[results.trials["cell"].isin(numbers.match(*patterns_of(rule)))]
    lost = trials.loc[~trials["status"].isin(COUNTED), "status"]
    if lost.empty:
        return decision
    kinds = ", ".join(f"{count} {kind}" for kind, count in lost.value_counts().items())
    words = f"{len(lost)} of {len(trials)} planned runs do not count: {kinds}"
    return replace(decision, ours=f"{decision.ours}; {words}")
