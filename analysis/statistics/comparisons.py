"""Differences between cells: arms of a sweep against a reference, or two result sets.

Runs with the same seed and data seed are *paired* if both cells answered the same questions (in
whatever format): what the two share cancels in their difference. A diverged run is wrong on every
example of any test set. Reported: the median difference with the interval of
`analysis.statistics.intervals`, and

- the exact two-sided sign test of the pairs, ties left out: it is about new seeds. It takes
  pairs as independent, although in a cross (4x2) some share a seed. n pairs cannot reach a p below
  `least_p` = 2 * 0.5^n, 0.0625 for 5. Cells that are not paired have a permutation test instead;
- the exact McNemar test on single examples: it is about *these* trained models only. Examples
  of several pairs are not independent, so counts are never summed for a p; `num_gained` and
  `num_lost` (examples that only the cell, or only the reference, has right) only describe. From
  the one-sided p of K pairs, `p_mcnemar` = (K - u + 1) * p_(u) with u = K // 2 + 1, which is valid
  under any dependence and says that *more than half* of the pairs differ (partial conjunction:
  Benjamini & Heller 2008, Biometrics 64:1215); the better of the two directions is taken, named in
  `mcnemar_favors`, and doubled. For one pair this is the ordinary exact McNemar test;
- p adjusted by Holm over the rows of one table that have a p. `least_p_holm` is the smallest
  adjusted p that the table could have shown: above 0.05, there are too few seeds to decide.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from analysis.load import Results
from analysis.statistics import intervals
from analysis.statistics.runs import SEEDS

WHOLE = ["n", "n_reference", "n_pairs", "wins", "ties", "losses"]
EXAMPLES = ["num_mcnemar", "num_gained", "num_lost"]
Side = Literal["cell", "reference"]


def compare_arms(
    evaluation: pd.DataFrame,
    lengths: int | Sequence[int],
    reference: str | None = None,
    cells: Sequence[str] | None = None,
) -> pd.DataFrame:
    """One row per cell other than the reference, of one checkpoint; positive: better than it.

    The exact match of a run over several lengths is its mean over them; runs that were not tested
    at all of them do not count. cells: all arms in order (default: those with rows); reference: one
    of them (default: the first). Raises ValueError if it is none of them.
    """
    lengths = [lengths] if isinstance(lengths, int | np.integer) else sorted(lengths)
    if cells is None:
        cells = list(evaluation.sort_values("cell_order", kind="stable")["cell"].unique())
    reference = cells[0] if reference is None and cells else str(reference)
    if reference not in cells:
        raise ValueError(f"no cell {reference!r} to compare with; there: {', '.join(cells)}")
    rows = evaluation[evaluation["length"].isin(lengths)]
    groups = {cell: rows[rows["cell"] == cell] for cell in cells}
    name = {"reference": reference, "length": lengths[0] if len(lengths) == 1 else None}
    name["lengths"] = ", ".join(map(str, lengths))
    compared = [
        {"cell": cell}
        | name
        | compare_runs(groups[cell], groups[reference], lengths)
        | compare_examples(groups[cell], groups[reference])
        for cell in cells
        if cell != reference
    ]
    empty = compare_runs(rows[:0], rows[:0], lengths) | compare_examples(rows[:0], rows[:0])
    frame = pd.DataFrame(compared, columns=["cell", *name, *empty])
    frame = frame.astype(dict.fromkeys(["length", *WHOLE, *EXAMPLES], "Int64"))
    frame["p_mcnemar_holm"] = adjust_holm(frame["p_mcnemar"])
    return _add_holm(frame)


def compare_with_first(results: Results, length: int) -> pd.DataFrame:
    """Every cell of a sweep against its first one, at one length of the test range."""
    rows = results.evaluation
    return compare_arms(rows[rows["range"] == "test"], length, cells=results.cells)


def compare_results(a: Results, b: Results) -> pd.DataFrame:
    """B against A: one row per cell (by its label) and length that either has; positive: B better.

    change: "only in A", "only in B", "equal" (all runs pair up and agree), "other runs" (those that
    pair up agree) or "counts differ". is_same_configuration: the label means the same configuration
    in both; NA if one is unknown. Holm goes over the cells of one length.
    """
    cell_order = {cell: i for i, cell in enumerate(dict.fromkeys([*a.cells, *b.cells]))}
    no_rows, rows = a.evaluation[:0], list[dict[str, Any]]()
    groups = [
        {(str(key[0]), int(str(key[1]))): rows for key, rows in frame}
        for frame in (results.evaluation.groupby(["cell", "length"]) for results in (a, b))
    ]
    identities = [_configurations(results) for results in (a, b)]
    keys = sorted({*groups[0], *groups[1]}, key=lambda key: (cell_order[key[0]], key[1]))
    for cell, length in keys:
        old, new = (group.get((cell, length), no_rows) for group in groups)
        ids = {identity.get(cell) for identity in identities}
        columns = compare_runs(new, old, [length])
        rows.append(
            {
                "cell": cell,
                "length": length,
                "change": _describe_change(columns),
                "range": "/".join(sorted({*old["range"], *new["range"]})),
                "is_same_configuration": None if None in ids else len(ids) == 1,
                "difference": columns["median"] - columns["median_reference"],
                **columns,
            }
        )
    first = ["cell", "length", "change", "range", "is_same_configuration", "difference"]
    frame = pd.DataFrame(rows, columns=[*first, *compare_runs(no_rows, no_rows, [])])
    types = {**dict.fromkeys(["length", *WHOLE], "Int64"), "is_same_configuration": "boolean"}
    frame = _add_holm(frame.astype(types), frame["length"])
    sides = {"": "b", "_reference": "a"}
    return frame.rename(
        columns={f"{c}{side}": f"{c}_{new}" for c in ("n", "median") for side, new in sides.items()}
    )


def compare_runs(
    arm: pd.DataFrame, reference: pd.DataFrame, lengths: Sequence[int]
) -> dict[str, Any]:
    """Two cells at some lengths, from their evaluation rows: the columns about runs and seeds.

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
    counts |= {"median": ours.median(), "median_reference": theirs.median()}
    nothing = dict.fromkeys(["difference_median", "low", "high"], np.nan) | {"interval": "none"}
    nothing |= dict.fromkeys(["wins", "ties", "losses"])
    nothing |= dict.fromkeys(["p_sign", "p_permutation", "least_p"], np.nan)
    return counts | {"pairing": pairing, "is_paired": pairing == "paired"} | nothing | columns


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
        "p_sign": sign_test(wins, losses),
        "least_p": intervals.median_floor(num_pairs),
    }


def _compare_unpaired(ours: pd.Series, theirs: pd.Series) -> dict[str, Any]:
    seeds = ours.index.to_list(), theirs.index.to_list()
    low, high = intervals.difference_interval(ours.to_numpy(), theirs.to_numpy(), seeds)
    return {
        "difference_median": ours.median() - theirs.median(),
        "low": low,
        "high": high,
        "interval": intervals.difference_kind(seeds),
        "p_permutation": intervals.permutation_test(ours.to_numpy(), theirs.to_numpy()),
        "least_p": intervals.separation_floor(len(ours), len(theirs)),
    }


def compare_examples(arm: pd.DataFrame, reference: pd.DataFrame) -> dict[str, Any]:
    """McNemar's test over the pairs (`num_mcnemar` of them) of which single outcomes are known."""
    counts = []
    if "outcomes" in arm and _share_test_sets(arm, reference):
        keys, kept = [*SEEDS, "length", "second_length"], ["outcomes", "status"]
        rows = arm[[*keys, *kept]].merge(reference[[*keys, *kept]], on=keys)
        sides = ["outcomes_x", "status_x", "outcomes_y", "status_y"]
        pairs: dict[tuple[int, int], list[tuple[int, int] | None]] = {}
        for seed, data_seed, *row in zip(*(rows[c] for c in [*SEEDS, *sides]), strict=True):
            pairs.setdefault((seed, data_seed), []).append(_count_discordant(*row))
        for by_length in pairs.values():
            known = [pair for pair in by_length if pair is not None]
            if len(known) == len(by_length):
                counts.append(tuple(np.sum(known, axis=0).tolist()))
    gained, lost = np.sum(counts, axis=0).tolist() if counts else (None, None)
    numbers = {"num_mcnemar": len(counts), "num_gained": gained, "num_lost": lost}
    p, favors = mcnemar_test(counts)
    return numbers | {"p_mcnemar": p, "mcnemar_favors": favors}


def sign_test(wins: int, losses: int) -> float:
    """p of the exact two-sided sign test."""
    return min(1.0, 2 * float(binomial_tail(max(wins, losses), wins + losses)))


def mcnemar_test(discordant: Sequence[tuple[int, int]]) -> tuple[float, Side | None]:
    """p of McNemar's exact test over pairs of runs, from the (gained, lost) examples of each, and
    which side it favors.

    Combined as the module says; nan without pairs; no side if both directions are as good.
    """
    if not discordant:
        return np.nan, None
    majority = len(discordant) // 2 + 1
    counts = np.asarray(discordant)
    gained, lost = (
        float(np.sort(binomial_tail(counts[:, side], counts.sum(axis=1)))[majority - 1])
        for side in (0, 1)
    )
    favors: Side | None = None if gained == lost else "cell" if gained < lost else "reference"
    return min(1.0, 2 * (len(discordant) - majority + 1) * min(gained, lost)), favors


def binomial_tail(least: int | np.ndarray, num_trials: int | np.ndarray) -> Any:
    """P(X >= least) for a binomial X with probability 1/2, of each of several."""
    from scipy.special import bdtrc  # not every command tests anything

    return bdtrc(least - 1, num_trials, 0.5)


def adjust_holm(p_values: Sequence[float] | pd.Series) -> np.ndarray:
    """p-values adjusted by Holm's step-down rule, in their order; nan is not in the family."""
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p)[: np.count_nonzero(~np.isnan(p))]
    adjusted = np.full(len(p), np.nan)
    steps = p[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return adjusted


def _add_holm(frame: pd.DataFrame, family: pd.Series | None = None) -> pd.DataFrame:
    """Holm over the rows of each family (default: all rows), for p and for the least p."""
    family = pd.Series(0, index=frame.index) if family is None else family
    p = frame["p_sign"].fillna(frame["p_permutation"])
    for name, values in {"p_holm": p, "least_p_holm": frame["least_p"]}.items():
        frame[name] = values.groupby(family).transform(adjust_holm)
    return frame


def _exact_match(rows: pd.DataFrame, lengths: Sequence[int]) -> pd.Series:
    """The mean over lengths of each run that was tested at all of them, by (seed, data_seed)."""
    least = rows.groupby([*SEEDS, "length"])["exact_match"].min()  # over second lengths
    runs = least.groupby(SEEDS).agg(["mean", "size"])
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


def _describe_change(columns: dict[str, Any]) -> str:
    if not columns["n"] or not columns["n_reference"]:
        return "only in B" if columns["n"] else "only in A"
    if not columns["is_paired"] or columns["wins"] + columns["losses"]:
        return "counts differ"
    all_paired = columns["n"] == columns["n_reference"] == columns["n_pairs"]
    return "equal" if all_paired else "other runs"


def _configurations(results: Results) -> dict[str, str]:
    """The identity of each cell's configuration, of the cells with any attempt."""
    attempted = results.trials.dropna(subset=["cell_id"])
    first = attempted.groupby("cell")["cell_id"].first()
    return {str(cell): str(name) for cell, name in first.items()}
