"""The mechanism files of a sweep as frames: how well heads match the theorem, and the causes of
failures.

`Results.mechanism` holds their rows (`sweeps.engine.store.mechanisms`) with the columns of the run.
"""

import pandas as pd

from analysis.load import KINDS, RUN, Results

CAUSES = {  # breakdowns and findings of stored rows: how figures name them, if otherwise
    "place": "place in answer",
    "first wrong place": "place in answer",
    "longest carry chain": "carry chain",
    "run of the carry": "carry chain",
    "difference of operand lengths": "operand lengths",
    "position ID at the stop": "ID at the stop",
    "start": "start of counting",
}
KIND_NAMES = [kind.removeprefix("num_").replace("_", " ") for kind in KINDS]
PATTERNS = ("next", "same")


def pattern_masses(results: Results) -> pd.DataFrame:
    """How clearly a run's heads show each pattern of the theorem at its longest trained length.

    Columns of the run, `length`, `next`, `same`: the attention that the best head for the pattern
    puts on predicted keys other than BOS, over the most it could; averaged over levels of IDs.
    `pattern`: the smaller of the two. Runs without coupled IDs, or of a task in which no token has
    the key of a pattern, are left out.
    """
    rows = results.mechanism
    rows = rows[(rows["kind"] == "head") & rows["pattern"].notna() & (rows["most_beyond_bos"] > 0)]
    if rows.empty:
        return pd.DataFrame(columns=[*RUN, "length", *PATTERNS, "pattern"])
    rows = rows[rows["length"] == rows.groupby("trial_id")["length"].transform("min")]
    share = rows["mass_beyond_bos"] / rows["most_beyond_bos"]
    keys = [*RUN, "length", "pattern", "level"]
    best = rows.assign(share=share).groupby(keys, sort=False)["share"].max()
    wide = best.groupby(level=keys[:-1], sort=False).mean().unstack("pattern")
    wide = wide.reindex(columns=PATTERNS).dropna()
    wide["pattern"] = wide.min(axis=1)
    return wide.reset_index().rename_axis(columns=None)


def cause_strengths(results: Results) -> pd.DataFrame:
    """How strong each cause is in each cell: columns cell, then one per cause, 0 to 1.

    The mean over the analysed lengths of a run at which examples failed (weighted by failures; a
    cause that is not named has strength 0), then the median over runs. Cells without failures have
    no row.
    """
    rows, keys = results.mechanism, ["cell", "trial_id", "length"]
    failures = rows[rows["kind"] == "failures"].drop_duplicates(keys).set_index(keys)
    weights = failures[KINDS].sum(axis=1)
    weights = weights[weights > 0]
    causes = rows[rows["kind"] == "cause"]
    if weights.empty or causes.empty:
        return pd.DataFrame(columns=["cell"])
    causes = causes.assign(cause=causes["cause"].str.partition(" (")[0].replace(CAUSES))
    causes = causes[~causes["cause"].isin(KIND_NAMES)]
    strongest = causes.groupby([*keys, "cause"])["strength"].max()
    strengths = strongest.unstack("cause").reindex(weights.index).astype(float).fillna(0.0)
    sums = strengths.mul(weights, axis=0).groupby(level=keys[:2], sort=False).sum()
    runs = sums.div(weights.groupby(level=keys[:2], sort=False).sum(), axis=0)
    return runs.groupby("cell", sort=False).median().reset_index()
