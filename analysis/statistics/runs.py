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
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.load import CELL, RUN
from analysis.statistics.intervals import LEVEL, Interval, Seeds, interval_kind, median_interval

SEEDS = ["seed", "data_seed"]
SOLVED = 0.95  # exact match above which a length counts as solved


class L95(NamedTuple):
    """A generalizable length; is_lower_bound if the largest tested length was solved."""

    length: int
    is_lower_bound: bool


@lru_cache
def wilson_interval(num_successes: int, num_trials: int, level: float = LEVEL) -> Interval:
    """The Wilson score interval of a proportion; (0, 1) without trials."""
    if num_trials == 0:
        return Interval(0.0, 1.0)
    share, z = num_successes / num_trials, NormalDist().inv_cdf((1 + level) / 2)
    middle = share + z**2 / (2 * num_trials)
    half = z * math.sqrt((share * (1 - share) + z**2 / (4 * num_trials)) / num_trials)
    low, high = ((middle + side * half) / (1 + z**2 / num_trials) for side in (-1, 1))
    return Interval(low if num_successes else 0.0, high if num_successes < num_trials else 1.0)


def summarize(
    exact_match: Sequence[float] | np.ndarray, seeds: Seeds | None = None
) -> dict[str, float | int | str]:
    """All statistics of the runs of one cell at one length; seeds: (seed, data_seed) of each run.

    Without seeds the interval takes the runs for independent.
    """
    values = np.asarray(exact_match, dtype=float)
    num_runs, num_solved = len(values), int((values > SOLVED).sum())
    low, high = median_interval(values, seeds)
    share_low, share_high = wilson_interval(num_solved, num_runs)
    return {
        "n": num_runs,
        "median": float(np.median(values)) if num_runs else np.nan,
        "low": low,
        "high": high,
        "interval": interval_kind(num_runs, seeds),
        "worst": float(values.min()) if num_runs else np.nan,
        "best": float(values.max()) if num_runs else np.nan,
        "num_solved": num_solved,
        "share_solved": num_solved / num_runs if num_runs else np.nan,
        "share_low": share_low,
        "share_high": share_high,
    }


def run_curves(evaluation: pd.DataFrame) -> pd.DataFrame:
    """One exact match per run and length, of one checkpoint: the least over second lengths; and
    the fewest examples of one."""
    columns = ["exact_match", "num_examples"]
    return evaluation.groupby([*RUN, "length"], as_index=False)[columns].min()


def cell_curves(evaluation: pd.DataFrame) -> pd.DataFrame:
    """`summarize` over the `run_curves` of each cell at each length, of one checkpoint."""
    groups = run_curves(evaluation).groupby(["cell_order", "cell", "length"], sort=True)
    rows = [
        dict(zip(["cell_order", "cell", "length"], key, strict=True))
        | summarize(group["exact_match"].to_numpy(), group[SEEDS].to_numpy())
        for key, group in groups
    ]
    return pd.DataFrame(rows, columns=["cell_order", "cell", "length", *summarize([])])


def generalizable_length(
    lengths: Sequence[int] | pd.Series, exact_match: Sequence[float] | pd.Series
) -> L95:
    """L95 of a curve in any order; each length once. L95(0, False) for an empty curve."""
    longest = 0
    for length, value in sorted(zip(lengths, exact_match, strict=True)):
        if not value > SOLVED:
            return L95(longest, False)
        longest = int(length)
    return L95(longest, longest > 0)


def run_l95(evaluation: pd.DataFrame) -> pd.DataFrame:
    """L95 of every run, of one checkpoint: columns of `RUN`, l95, l95_is_lower_bound."""
    curves = run_curves(evaluation)  # lengths of a run in order
    is_solved = (curves["exact_match"] > SOLVED).astype(int)
    curves["solved"] = is_solved.groupby([curves[name] for name in RUN], sort=False).cummin()
    curves["l95"] = curves["length"].where(curves["solved"] == 1, 0)
    runs = curves.groupby(RUN, as_index=False, sort=False).agg({"l95": "max", "solved": "min"})
    runs["l95_is_lower_bound"] = runs.pop("solved") == 1
    return runs


def cell_l95(evaluation: pd.DataFrame, curves: pd.DataFrame | None = None) -> pd.DataFrame:
    """L95 of every cell with its interval, of one checkpoint, cells in order; see the module.

    curves: the `cell_curves` of the same rows, where they are there already.

    l95_high_is_lower_bound: the upper end of the interval is the largest tested length.
    l95_is_near: L95 is a length of the near range, on which recipes are tuned.
    """
    near = evaluation[evaluation["range"] == "near"]
    near_lengths = set(zip(near["cell"], near["length"], strict=True))
    rows = []
    curves = cell_curves(evaluation) if curves is None else curves
    for (order, cell), curve in curves.groupby(["cell_order", "cell"], sort=True):
        l95, low, high = (
            generalizable_length(curve["length"], curve[name]) for name in ("median", "low", "high")
        )
        is_near = (cell, l95.length) in near_lengths
        fewest = curve.sort_values("n", kind="stable").iloc[0]
        row = [cell, order, fewest["n"], *l95, is_near, low.length, *high, fewest["interval"]]
        rows.append(row)
    names = ["n", "l95", "l95_is_lower_bound", "l95_is_near"]
    names += ["l95_low", "l95_high", "l95_high_is_lower_bound", "interval"]
    return pd.DataFrame(rows, columns=[*CELL, *names])


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
