"""Differences between cells, B against A: arms of a sweep against its first, or two result sets.

Runs with the same seed and data seed are *paired* if both cells answered the same questions (in
whatever format): what the two share cancels in their difference. A diverged run is wrong on every
example of any test set. A cell is compared once, by the mean exact match of each run over the
lengths that count: one p for a cell, so that no length is picked because it differs. Reported: the
median difference with its interval, and the p of `analysis.statistics.intervals` that agrees with
it: a sign test of the pairs where every run of the smaller side has a partner, else a test of the
ranks of both groups, each with seeds shared as they are. Both sides count at the pairs of length
and second length that both were tested at. Holm goes over all rows of a table that have a p;
`least_p_holm` is the smallest adjusted p that the table could have shown: above `SURE`, there are
too few seeds to decide.

`num_gained` and `num_lost` (examples that only B, or only A, has right) describe these trained
models; they say nothing about new seeds, and so have no p.

verdict: "only in A", "only in B", "no runs", "equal" (all runs pair up and agree at every length),
"other runs" (those that pair up agree), "B higher", "B lower", "not separated", or "too few runs"
where no p could be small enough; by length "counts differ" or "not paired" for the last four.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from analysis.load import RUN, Results
from analysis.statistics import intervals
from analysis.statistics.runs import SEEDS, run_curves

SURE = 0.05  # a p up to which a difference is separated from chance
COUNTS = ["n_a", "n_b", "n_pairs", "wins", "ties", "losses"]
EXAMPLES = ["num_gained", "num_lost"]
Pair: TypeAlias = tuple[str, pd.DataFrame, pd.DataFrame, list[int]]  # cell, rows A, rows B, lengths


def compare_arms(evaluation: pd.DataFrame, length: int, cells: Sequence[str] = ()) -> pd.DataFrame:
    """Every cell (B) against the first (A) at a length, of one checkpoint.

    cells: all arms in order (default: those with rows).
    """
    cells = cells or list(evaluation.sort_values("cell_order", kind="stable")["cell"].unique())
    rows = evaluation[evaluation["length"] == length]
    first, *others = (rows[rows["cell"] == cell] for cell in cells)
    pairs = zip(cells[1:], others, strict=True)
    return _compare([(cell, *_at_shared(first, arm), [length]) for cell, arm in pairs])


def compare_results(a: Results, b: Results, by_length: bool = False) -> pd.DataFrame:
    """B against A: a row per cell (by its label) that either has.

    A cell is compared over the lengths that both were tested at, or (by_length) at each by itself,
    then without a p.
    """
    pairs = list[Pair]()
    for cell in dict.fromkeys([*a.cells, *b.cells]):
        old, new = _at_shared(*(r.evaluation[r.evaluation["cell"] == cell] for r in (a, b)))
        tested = [{int(length) for length in part["length"].unique()} for part in (old, new)]
        lengths = sorted(set.intersection(*tested) or set.union(*tested))
        for part in filter(None, [[length] for length in lengths] if by_length else [lengths]):
            old_, new_ = (rows[rows["length"].isin(part)] for rows in (old, new))
            pairs.append((cell, old_, new_, part))
    return _compare(pairs, not by_length)


def _at_shared(a: pd.DataFrame, b: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of both at the pairs of lengths that both have; all rows where there is none."""
    keys = ["length", "second_length"]
    shared = a[keys].merge(b[keys]).drop_duplicates()
    return (a.merge(shared), b.merge(shared)) if len(shared) else (a, b)


def _compare(pairs: Iterable[Pair], has_p: bool = True) -> pd.DataFrame:
    """A row for each pair, p corrected for all of them."""
    rows = list[dict[str, Any]]()
    for cell, a, b, lengths in pairs:
        columns = compare_runs(a, b, lengths)
        span = "–".join(dict.fromkeys(map(str, (lengths[0], lengths[-1]))))
        named = {"cell": cell, "lengths": span, "verdict": _describe_change(columns, a, b)}
        rows.append(named | columns | count_examples(a, b))
    empty = pd.DataFrame(columns=[*RUN, "length", "exact_match", "num_examples"])
    names = ["cell", "lengths", "verdict", *compare_runs(empty, empty, []), *EXAMPLES]
    frame = pd.DataFrame(rows, columns=names).astype(dict.fromkeys([*COUNTS, *EXAMPLES], "Int64"))
    if not has_p:
        frame = frame.assign(p=np.nan, least_p=np.nan)
    frame = frame.assign(**{f"{k}_holm": adjust_holm(frame[k]) for k in ("p", "least_p")})
    if has_p and len(frame):
        is_open = frame["verdict"].isin(("counts differ", "not paired"))
        frame["verdict"] = frame["verdict"].where(~is_open, frame.apply(_decide, axis=1))
    return frame.drop(columns="direction")


def _describe_change(columns: dict[str, Any], a: pd.DataFrame, b: pd.DataFrame) -> str:
    if not (len(a) and len(b)):
        return "only in B" if len(b) else "only in A" if len(a) else "no runs"
    if columns["pairing"] != "paired":
        return "not paired"
    if columns["wins"] or columns["losses"]:
        return "counts differ"
    both = a.merge(b, on=[*SEEDS, "length", "second_length"])
    if (both["exact_match_x"] != both["exact_match_y"]).any():
        return "counts differ"
    is_whole = columns["n_a"] == columns["n_b"] == columns["n_pairs"]
    return "equal" if is_whole else "other runs"


def _decide(row: pd.Series) -> str:
    if not row["least_p_holm"] <= SURE:
        return "too few runs"
    if not row["p_holm"] <= SURE:
        return "not separated"
    return "B higher" if row["direction"] > 0 else "B lower"


def compare_runs(a: pd.DataFrame, b: pd.DataFrame, lengths: Sequence[int]) -> dict[str, Any]:
    """Two cells over some lengths, from their evaluation rows.

    pairing: "paired", "other test sets", "seeds not shared" or "no runs". difference_median: the
    median of paired differences, else the difference of medians. direction: of what p is about,
    pairs won less pairs lost; many ties make it another than that of the median.
    """
    old, new = _exact_match(a, lengths), _exact_match(b, lengths)
    pairs = pd.concat([old, new], axis=1, join="inner", keys=["a", "b"])
    if old.empty or new.empty:
        pairing, columns = "no runs", {}
    elif not _share_test_sets(a, b):
        pairing, columns = "other test sets", _compare_unpaired(new, old)
    elif len(pairs) < min(len(old), len(new)):
        pairing, columns = "seeds not shared", _compare_unpaired(new, old)
    else:
        pairing, columns = "paired", _compare_paired(pairs["b"] - pairs["a"])
    counts = {"n_a": len(old), "n_b": len(new), "n_pairs": 0}
    counts |= {"median_a": old.median(), "median_b": new.median(), "pairing": pairing}
    numbers = ["difference_median", "direction", "low", "high"]
    nothing = dict.fromkeys(numbers, np.nan) | {"interval": "none"}
    nothing |= dict.fromkeys(["wins", "ties", "losses"]) | dict.fromkeys(["p", "least_p"], np.nan)
    return counts | nothing | columns


def _compare_paired(differences: pd.Series) -> dict[str, Any]:
    num_pairs, seeds = len(differences), differences.index.to_list()
    low, high = intervals.median_interval(differences.to_numpy(), seeds)
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    least_p = intervals.median_floor(num_pairs, seeds)
    return {
        "n_pairs": num_pairs,
        "difference_median": differences.median(),
        "direction": wins - losses,
        "low": low,
        "high": high,
        "interval": intervals.interval_kind(num_pairs, seeds),
        "wins": wins,
        "ties": num_pairs - wins - losses,
        "losses": losses,
        "p": np.maximum(least_p, intervals.sign_test(differences.to_numpy(), seeds)),
        "least_p": least_p,
    }


def _compare_unpaired(ours: pd.Series, theirs: pd.Series) -> dict[str, Any]:
    seeds = ours.index.to_list(), theirs.index.to_list()
    values, sizes = (ours.to_numpy(), theirs.to_numpy()), (len(ours), len(theirs))
    low, high = intervals.difference_interval(*values, seeds)
    return {
        "difference_median": ours.median() - theirs.median(),
        "direction": intervals.net_wins(*values),
        "low": low,
        "high": high,
        "interval": intervals.interval_kind(min(sizes), *seeds, most_runs=max(sizes)),
        "p": intervals.rank_test(*values, seeds),
        "least_p": intervals.rank_floor(sizes, seeds),
    }


def count_examples(a: pd.DataFrame, b: pd.DataFrame) -> dict[str, int | None]:
    """Examples that only B or only A has right, over the pairs of which single outcomes are known;
    None without any."""
    sums: Sequence[int | None] = (None, None)
    if "outcomes" in b and _share_test_sets(a, b):
        keys, kept = [*SEEDS, "length", "second_length"], ["outcomes", "status"]
        rows = b[[*keys, *kept]].merge(a[[*keys, *kept]], on=keys)
        ours, theirs = (rows[[f"{name}_{side}" for name in kept]] for side in "xy")
        sides = (side.itertuples(index=False, name=None) for side in (ours, theirs))
        counts = [_count_discordant(*both) for both in zip(*sides, strict=True)]
        rows["known"] = [count is not None for count in counts]
        whole = rows.groupby(SEEDS)["known"].transform("all").to_numpy()
        if known := [count for count in itertools.compress(counts, whole) if count is not None]:
            sums = np.sum(known, axis=0).tolist()
    return dict(zip(EXAMPLES, sums, strict=True))


def adjust_holm(p_values: Sequence[float] | pd.Series) -> np.ndarray:
    """p-values adjusted by Holm's step-down rule, in their order; nan is not in the family."""
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p)[: np.count_nonzero(~np.isnan(p))]
    adjusted = np.full(len(p), np.nan)
    steps = p[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return adjusted


def _exact_match(rows: pd.DataFrame, lengths: Sequence[int]) -> pd.Series:
    """The mean over lengths of each run that was tested at all of them, by (seed, data_seed)."""
    runs = run_curves(rows).groupby(SEEDS)["exact_match"].agg(["mean", "size"])
    return runs.loc[runs["size"] == len(lengths), "mean"]


def _share_test_sets(a: pd.DataFrame, b: pd.DataFrame) -> bool:
    """Whether all runs answered the same questions: one test set, or one in several formats. Rows
    of diverged runs fit any."""
    return any(_share(a, b, name) for name in ("test_set", "asked") if name in b)


def _share(a: pd.DataFrame, b: pd.DataFrame, name: str) -> bool:
    sets = []
    for rows in (a, b):
        rows = rows[rows["status"] != "diverged"]
        keys = zip(rows["length"], rows["second_length"].fillna(0), rows[name], strict=True)
        sets.append(set(keys))
    are_named = all(isinstance(name, str) and name for _, _, name in sets[0] | sets[1])
    one_each = len({key[:2] for key in sets[0]}) == len(sets[0])
    return are_named and one_each and (sets[0] == sets[1] or not (sets[0] and sets[1]))


def _count_discordant(*sides: tuple[object, str]) -> tuple[int, int] | None:
    """Examples that only the first, only the second has right, of outcomes and status of both; None
    without single outcomes."""
    bits = list[bytes]()
    for packed, status in sides:
        if status != "diverged" and not (isinstance(packed, bytes) and packed):
            return None
        bits.append(packed if status != "diverged" and isinstance(packed, bytes) else b"")
    if all(bits) and len(bits[0]) != len(bits[1]):
        return None
    size = max(map(len, bits))
    first, second = (np.frombuffer(text.ljust(size, b"\0"), dtype=np.uint8) for text in bits)
    gained, lost = (np.bitwise_count(only).sum() for only in (first & ~second, second & ~first))
    return int(gained), int(lost)
