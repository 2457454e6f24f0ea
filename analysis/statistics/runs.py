"""Statistics of the runs of a cell: medians, shares, intervals, and generalizable lengths.

All functions are pure and take or return frames with the columns of `Results.evaluation`; exact
match is a fraction in [0, 1]. How the interval of a median is made:
`analysis.statistics.intervals`.

A run *solves* a length if its exact match is above 0.95. L95 of a run: the largest tested length
such that it and every smaller tested length (train, near and test together) is solved; 0 if the
smallest is not. If the largest tested length is solved, L95 is a lower bound and shown as "≥". L95
of a cell: the same rule on the median over its runs (the authors' rule); its interval: the same
rule on the lower and the upper ends of the medians' intervals, so it always contains the L95. Its
coverage holds length by length, not for all lengths at once. With second lengths, a length has the
*smallest* exact match over the second lengths tested with it.
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

from analysis.load import RUN
from analysis.statistics.intervals import LEVEL, Seeds, interval_kind, median_interval
from pcore import config

SEEDS = list(config.SEEDS)
SOLVED = 0.95  # exact match above which a length counts as solved


def has_second_lengths(evaluation: pd.DataFrame) -> bool:
    """Whether a cell was tested at several second lengths with one length."""
    seconds = evaluation.groupby(["cell", "length"])["second_length"].nunique()
    return bool((seconds > 1).any())


def share_second_lengths(evaluation: pd.DataFrame) -> bool:
    """Whether all cells were tested at the same second lengths."""
    return evaluation.groupby("cell")["second_length"].agg(frozenset).nunique() < 2


@lru_cache
def wilson_interval(num_successes: int, num_trials: int) -> tuple[float, float]:
    """The Wilson score interval of a proportion; (0, 1) without trials."""
    if num_trials == 0:
        return 0.0, 1.0
    share, z = num_successes / num_trials, NormalDist().inv_cdf((1 + LEVEL) / 2)
    middle = share + z**2 / (2 * num_trials)
    half = z * math.sqrt((share * (1 - share) + z**2 / (4 * num_trials)) / num_trials)
    low, high = ((middle + side * half) / (1 + z**2 / num_trials) for side in (-1, 1))
    return low if num_successes else 0.0, high if num_successes < num_trials else 1.0


def summarize(
    exact_match: Sequence[float] | np.ndarray, seeds: Seeds | None = None
) -> dict[Any, Any]:
    """All statistics of the runs of one cell at one length; seeds: (seed, data_seed) of each run.

    Without seeds the interval takes the runs for independent.
    """
    values = np.asarray(exact_match, dtype=float)
    return _summarize_columns(values[:, None], seeds).to_dict("records")[0]


def _summarize_columns(values: np.ndarray, seeds: Seeds | None) -> pd.DataFrame:
    """`summarize` of each column of exact match, runs in rows."""
    num_runs, num_solved = len(values), (values > SOLVED).sum(axis=0)
    nothing = np.full(values.shape[1], np.nan)
    low, high = median_interval(values, seeds)
    shares = np.array([wilson_interval(int(count), num_runs) for count in num_solved])
    return pd.DataFrame(
        {
            "n": num_runs,
            "median": np.median(values, axis=0) if num_runs else nothing,
            "low": low,
            "high": high,
            "interval": interval_kind(num_runs, seeds),
            "worst": values.min(axis=0) if num_runs else nothing,
            "best": values.max(axis=0) if num_runs else nothing,
            "num_solved": num_solved,
            "share_solved": num_solved / num_runs if num_runs else nothing,
            "share_low": shares[:, 0],
            "share_high": shares[:, 1],
        }
    )


def run_curves(evaluation: pd.DataFrame) -> pd.DataFrame:
    """One exact match per run and length, of one checkpoint: the least over second lengths; and
    the fewest examples of one."""
    columns = ["exact_match", "num_examples"]
    return evaluation.groupby([*RUN, "length"], as_index=False)[columns].min()


def cell_curves(evaluation: pd.DataFrame) -> pd.DataFrame:
    """`summarize` over the `run_curves` of each cell at each length, of one checkpoint; and the
    fewest examples of a run."""
    curves, keys = run_curves(evaluation), ["cell_order", "cell", "length"]
    parts = [pd.DataFrame(columns=[*keys, *summarize([])])]
    for cell, runs in curves.groupby(keys[:2]):
        wide = runs.pivot(index=["trial_id", *SEEDS], columns="length", values="exact_match")
        lengths = dict[tuple[bool, ...], list[Any]]()  # by the runs that were tested at them
        for length, values in wide.items():
            lengths.setdefault(tuple(values.notna()), []).append(length)
        for there, columns in lengths.items():
            kept = wide.loc[list(there), columns]
            seeds = kept.index.to_frame()[SEEDS].to_numpy()
            found = _summarize_columns(kept.to_numpy(), seeds)
            place: dict[str, Any] = dict(zip(keys, (*cell, columns), strict=True))
            parts.append(found.assign(**place))
    frame = pd.concat(parts[1:] or parts, ignore_index=True).sort_values(keys, ignore_index=True)
    fewest = curves.groupby(keys, as_index=False)["num_examples"].min()
    return frame.merge(fewest, on=keys)


def run_l95(curves: pd.DataFrame) -> pd.DataFrame:
    """L95 of every run, from `run_curves`: columns of `RUN`, l95, l95_is_lower_bound."""
    return _find_l95(curves, RUN, "exact_match").reset_index()


def cell_l95(evaluation: pd.DataFrame, curves: pd.DataFrame | None = None) -> pd.DataFrame:
    """L95 of every cell with its interval, of one checkpoint, by cell in order; see the module.

    curves: the `cell_curves` of the same rows, where they are there already. l95_is_near: L95 is a
    length of the near range, on which recipes are tuned.
    """
    curves = cell_curves(evaluation) if curves is None else curves
    frame, low, high = (_find_l95(curves, ["cell"], name) for name in ("median", "low", "high"))
    near = evaluation[evaluation["range"] == "near"]
    near_lengths = set(zip(near["cell"], near["length"], strict=True))
    is_near = [place in near_lengths for place in frame["l95"].items()]
    return frame.assign(l95_is_near=is_near, l95_low=low["l95"], l95_high=high["l95"])


def _find_l95(curves: pd.DataFrame, keys: list[str], name: str) -> pd.DataFrame:
    """L95 of the curves with these keys, whose lengths are in order, and whether it is the largest
    tested length."""
    is_solved = (curves[name] > SOLVED).astype(int)
    solved = is_solved.groupby([curves[key] for key in keys], sort=False).cummin() == 1
    found = {"l95": curves["length"].where(solved, 0), "l95_is_lower_bound": solved}
    curves = curves[keys].assign(**found)
    return curves.groupby(keys, sort=False).agg({"l95": "max", "l95_is_lower_bound": "all"})


def train_exact_match(
    evaluation: pd.DataFrame, drawn: Mapping[str, Mapping[int, float]]
) -> pd.DataFrame:
    """Columns of `RUN` and exact_match of each run over the train range, each length weighted by
    how often training drew it.

    drawn: by cell, the share of training examples of each length; cells and lengths that are not
    in it have no row. Lengths that were not tested lend their share to the others.
    """
    train = evaluation[evaluation["range"] == "train"]
    counts = train.groupby([*RUN, "length"], as_index=False)[["num_correct", "num_examples"]].sum()
    keys = zip(counts["cell"], counts["length"], strict=True)
    counts["weight"] = [drawn.get(cell, {}).get(int(length), 0.0) for cell, length in keys]
    counts["exact_match"] = counts["weight"] * counts["num_correct"] / counts["num_examples"]
    runs = counts.groupby(RUN, as_index=False)[["exact_match", "weight"]].sum()
    runs["exact_match"] /= runs["weight"].where(runs["weight"] > 0)
    return runs.drop(columns="weight").dropna(subset=["exact_match"], ignore_index=True)


def fits(train_median: float) -> bool:
    """Whether a cell fits the lengths that it was trained on: the median over its runs of
    `train_exact_match`, as tables print it, is above 95 %. Nothing that it does beyond them says
    anything about length generalization if it does not."""
    return bool(train_median - SOLVED > 1e-12)  # a weighted mean of 0.95 may come out above it
