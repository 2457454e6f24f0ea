"""Differences between cells: arms of a sweep against a reference, or two result sets.

Runs with the same seed and data seed are *paired* if both cells answered the same questions (in
whatever format): what the two share cancels in their difference. A diverged run is wrong on every
example of any test set. A cell is compared once, by the mean exact match of each run over the
lengths that count: one p for a cell, so that no length is picked because it differs. Reported: the
median difference with its interval, and the p of `analysis.statistics.intervals` that agrees with
it: a sign test of the pairs, else a test of the ranks of both groups, each with seeds shared as
they are. Holm goes over all rows of a table that have a p; `least_p_holm` is the smallest adjusted
p that the table could have shown: above `SURE`, there are too few seeds to decide.

`num_gained` and `num_lost` (examples that only the cell, or only the reference, has right) describe
these trained models; they say nothing about new seeds, and so have no p.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.load import Results
from analysis.statistics import intervals
from analysis.statistics.runs import SEEDS, run_curves

SURE = 0.05  # a p up to which a difference is separated from chance
COUNTS = ["n", "n_reference", "n_pairs", "wins", "ties", "losses"]
EXAMPLES = ["num_gained", "num_lost"]


def compare_arms(
    evaluation: pd.DataFrame,
    length: int,
    reference: str | None = None,
    cells: Sequence[str] | None = None,
) -> pd.DataFrame:
    """One row per cell other than the reference, of one checkpoint; positive: better than it.

    cells: all arms in order (default: those with rows); reference: one of them (default: the
    first). Raises ValueError if it is none of them.
    """
    if cells is None:
        cells = list(evaluation.sort_values("cell_order", kind="stable")["cell"].unique())
    reference = cells[0] if reference is None and cells else str(reference)
    if reference not in cells:
        raise ValueError(f"no cell {reference!r} to compare with; there: {', '.join(cells)}")
    rows = evaluation[evaluation["length"] == length]
    groups = {cell: rows[rows["cell"] == cell] for cell in cells}
    compared = [
        {"cell": cell, "reference": reference, "length": length}
        | compare_runs(groups[cell], groups[reference], [length])
        | count_examples(groups[cell], groups[reference])
        for cell in cells
        if cell != reference
    ]
    columns = ["cell", "reference", "length", *compare_runs(rows[:0], rows[:0], []), *EXAMPLES]
    frame = pd.DataFrame(compared, columns=columns)
    return _add_holm(frame.astype(dict.fromkeys(["length", *COUNTS, *EXAMPLES], "Int64")))


def compare_with_first(results: Results, length: int) -> pd.DataFrame:
    """Every cell of a sweep against its first one, at one length of the test range."""
    rows = results.evaluation
    return compare_arms(rows[rows["range"] == "test"], length, cells=results.cells)


def compare_results(a: Results, b: Results, by_length: bool = False) -> pd.DataFrame:
    """B against A: a row per cell (by its label) that either has; positive: B better.

    A cell is compared over the lengths that both were tested at, or (by_length) at each by itself,
    then without a p. verdict: "only in A", "only in B", "equal" (all runs pair up and agree at
    every length), "other runs" (those that pair up agree), "B higher", "B lower", "not separated",
    or "too few runs" where no p could be small enough; by length "counts differ" for the last four.
    is_same_configuration: the label means the same in both; NA if one is unknown.
    """
    order = {cell: i for i, cell in enumerate(dict.fromkeys([*a.cells, *b.cells]))}
    sides = [results.evaluation[results.evaluation["cell"].isin(order)] for results in (a, b)]
    identities = [_configurations(results) for results in (a, b)]
    rows = list[dict[str, Any]]()
    for cell in order:
        old, new = (side[side["cell"] == cell] for side in sides)
        tested = [{int(length) for length in part["length"].unique()} for part in (old, new)]
        lengths = sorted(set.intersection(*tested) or set.union(*tested))
        ids = {identity.get(cell) for identity in identities}
        named = {"cell": cell, "is_same_configuration": None if None in ids else len(ids) == 1}
        for part in [[length] for length in lengths] if by_length else [lengths]:
            if part:
                a_, b_ = (rows_[rows_["length"].isin(part)] for rows_ in (old, new))
                rows.append(named | _compare_sides(a_, b_, part))
    first = ["cell", "is_same_configuration", "lengths", "verdict"]
    frame = pd.DataFrame(rows, columns=[*first, *compare_runs(sides[0][:0], sides[0][:0], [])])
    frame = frame.astype(dict.fromkeys(COUNTS, "Int64") | {"is_same_configuration": "boolean"})
    frame = _add_holm(frame.assign(p=np.nan, least_p=np.nan) if by_length else frame)
    open_ = frame["verdict"] == "counts differ"
    if not by_length:
        frame["verdict"] = frame["verdict"].where(~open_, frame.apply(_decide, axis=1))
    names = {f"{c}{old}": f"{c}_{new}" for c in ("n", "median") for old, new in SIDES.items()}
    return frame.rename(columns=names)


SIDES = {"": "b", "_reference": "a"}


def _compare_sides(old: pd.DataFrame, new: pd.DataFrame, lengths: list[int]) -> dict[str, Any]:
    columns = compare_runs(new, old, lengths)
    shown = {"lengths": "–".join(dict.fromkeys(map(str, (lengths[0], lengths[-1]))))}
    return shown | {"verdict": _describe_change(columns, old, new)} | columns


def _describe_change(columns: dict[str, Any], old: pd.DataFrame, new: pd.DataFrame) -> str:
    if not (len(old) and len(new)):
        return "only in B" if len(new) else "only in A"
    keys = [*SEEDS, "length"]
    curves = run_curves(old).merge(run_curves(new), on=keys)
    if columns["pairing"] != "paired" or (curves["exact_match_x"] != curves["exact_match_y"]).any():
        return "counts differ"
    is_whole = columns["n"] == columns["n_reference"] == columns["n_pairs"]
    return "equal" if is_whole else "other runs"


def _decide(row: pd.Series) -> str:
    if not row["least_p_holm"] <= SURE:
        return "too few runs"
    if not row["p_holm"] <= SURE:
        return "not separated"
    return "B higher" if row["difference_median"] > 0 else "B lower"


def compare_runs(
    arm: pd.DataFrame, reference: pd.DataFrame, lengths: Sequence[int]
) -> dict[str, Any]:
    """Two cells over some lengths, from their evaluation rows.

    pairing: "paired", "other test sets", "no shared seeds" or "no runs". difference_median: the
    median of paired differences, else the difference of medians.
    """
    ours, theirs = _exact_match(arm, lengths), _exact_match(reference, lengths)
    pairs = pd.concat([ours, theirs], axis=1, join="inner", keys=["ours", "theirs"])
    if ours.empty or theirs.empty:
        pairing, columns = "no runs", {}
    elif not _share_test_sets(arm, reference):
        pairing, columns = "other test sets", _compare_unpaired(ours, theirs)
    elif pairs.empty:
        pairing, columns = "no shared seeds", _compare_unpaired(ours, theirs)
    else:
        pairing, columns = "paired", _compare_paired(pairs["ours"] - pairs["theirs"])
    counts = {"n": len(ours), "n_reference": len(theirs), "n_pairs": 0}
    counts |= {"median": ours.median(), "median_reference": theirs.median(), "pairing": pairing}
    nothing = dict.fromkeys(["difference_median", "low", "high"], np.nan) | {"interval": "none"}
    nothing |= dict.fromkeys(["wins", "ties", "losses"]) | dict.fromkeys(["p", "least_p"], np.nan)
    return counts | nothing | columns


def _compare_paired(differences: pd.Series) -> dict[str, Any]:
    num_pairs, seeds = len(differences), differences.index.to_list()
    low, high = intervals.median_interval(differences.to_numpy(), seeds)
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    return {
        "n_pairs": num_pairs,
        "difference_median": differences.median(),
        "low": low,
        "high": high,
        "interval": intervals.interval_kind(num_pairs, seeds),
        "wins": wins,
        "ties": num_pairs - wins - losses,
        "losses": losses,
        "p": intervals.sign_test(differences.to_numpy(), seeds),
        "least_p": intervals.median_floor(num_pairs, seeds),
    }


def _compare_unpaired(ours: pd.Series, theirs: pd.Series) -> dict[str, Any]:
    seeds = ours.index.to_list(), theirs.index.to_list()
    values = ours.to_numpy(), theirs.to_numpy()
    low, high = intervals.difference_interval(*values, seeds)
    return {
        "difference_median": ours.median() - theirs.median(),
        "low": low,
        "high": high,
        "interval": intervals.difference_kind(seeds),
        "p": intervals.rank_test(*values, seeds),
        "least_p": intervals.rank_floor((len(ours), len(theirs)), seeds),
    }


def count_examples(arm: pd.DataFrame, reference: pd.DataFrame) -> dict[str, int | None]:
    """Examples that only the cell or only the reference has right, over the pairs of which single
    outcomes are known; None without any."""
    counts = list[tuple[int, int]]()
    if "outcomes" in arm and _share_test_sets(arm, reference):
        keys, kept = [*SEEDS, "length", "second_length"], ["outcomes", "status"]
        rows = arm[[*keys, *kept]].merge(reference[[*keys, *kept]], on=keys)
        sides = ["outcomes_x", "status_x", "outcomes_y", "status_y"]
        for _, pair in rows.groupby(SEEDS):
            known = [_count_discordant(*row) for row in pair[sides].itertuples(index=False)]
            counts += [k for k in known if k is not None] if None not in known else []
    sums = np.sum(counts, axis=0).tolist() if counts else (None, None)
    return dict(zip(EXAMPLES, sums, strict=True))


def adjust_holm(p_values: Sequence[float] | pd.Series) -> np.ndarray:
    """p-values adjusted by Holm's step-down rule, in their order; nan is not in the family."""
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p)[: np.count_nonzero(~np.isnan(p))]
    adjusted = np.full(len(p), np.nan)
    steps = p[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return adjusted


def _add_holm(frame: pd.DataFrame) -> pd.DataFrame:
    """Holm over all rows, for p and for the least p."""
    adjusted = {f"{name}_holm": adjust_holm(frame[name]) for name in ("p", "least_p")}
    return frame.assign(**adjusted)


def _exact_match(rows: pd.DataFrame, lengths: Sequence[int]) -> pd.Series:
    """The mean over lengths of each run that was tested at all of them, by (seed, data_seed)."""
    runs = run_curves(rows).groupby(SEEDS)["exact_match"].agg(["mean", "size"])
    return runs.loc[runs["size"] == len(lengths), "mean"]


def _share_test_sets(arm: pd.DataFrame, reference: pd.DataFrame) -> bool:
    """Whether all runs answered the same questions: one test set, or one in several formats. Rows
    of diverged runs fit any."""
    known = [name for name in ("test_set", "asked") if name in arm]
    return any(_share(arm, reference, name) for name in known)


def _share(arm: pd.DataFrame, reference: pd.DataFrame, name: str) -> bool:
    sets = []
    for rows in (arm, reference):
        rows = rows[rows["status"] != "diverged"]
        keys = zip(rows["length"], rows["second_length"].fillna(0), rows[name], strict=True)
        sets.append(set(keys))
    are_named = all(isinstance(name, str) and name for _, _, name in sets[0] | sets[1])
    one_each = len({key[:2] for key in sets[0]}) == len(sets[0])
    return are_named and one_each and (sets[0] == sets[1] or not (sets[0] and sets[1]))


def _count_discordant(
    ours: object, status: str, theirs: object, other_status: str
) -> tuple[int, int] | None:
    """Examples that only the one, only the other has right; None without single outcomes."""
    sides = [np.zeros(0, dtype=np.uint8)] * 2
    has_diverged = [status == "diverged", other_status == "diverged"]
    for i, packed in enumerate((ours, theirs)):
        if has_diverged[i]:
            continue
        if not isinstance(packed, bytes) or not packed:
            return None
        sides[i] = np.frombuffer(packed, dtype=np.uint8)
    size = max(map(len, sides))
    if not any(has_diverged) and len(sides[0]) != len(sides[1]):
        return None
    first, second = (np.pad(side, (0, size - len(side))) for side in sides)
    gained, lost = (np.bitwise_count(bits).sum() for bits in (first & ~second, second & ~first))
    return int(gained), int(lost)


def _configurations(results: Results) -> dict[str, str]:
    """The identity of each cell's configuration, of the cells with any attempt."""
    attempted = results.trials.dropna(subset=["cell_id"])
    first = attempted.groupby("cell")["cell_id"].first()
    return {str(cell): str(name) for cell, name in first.items()}
