"""From the store to `Results`: the frames of one sweep at one scale.

A cell is a configuration without its seeds, a run is one trial of a cell. Which runs count is
decided here, once:

- `ok` trials count with what they measured;
- `diverged` trials count as 0 exact match at every length on which comparable trials were tested (a
  failure is a result);
- `missing`, `error`, `oom`, `timeout` and `lost` trials do not count: they stand in `trials` and
  reduce n.
"""

from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import pandas as pd

from sweeps.engine.store.mechanism import MECHANISM, load_mechanism
from sweeps.engine.store.schema import EVALUATION, REPORT, VIEW
from sweeps.engine.store.store import Store

CELL = ["cell", "cell_order"]
RUN = [*CELL, "trial_id", "seed", "data_seed", "status"]
KEYS = ["checkpoint", "range", "length", "second_length"]
COUNTED = ("ok", "diverged")  # statuses of trials that enter the statistics
KINDS = ["num_missed_stop", "num_early_stop", "num_wrong_symbol"]
# Trials that agree in these columns were evaluated on the same lengths.
LENGTHS = [
    "data.min_length",
    "data.max_length",
    "eval.train_lengths",
    "eval.near_lengths",
    "eval.test_lengths",
    "eval.second_lengths",
    "eval.checkpoints",
]


def no_mechanism() -> pd.DataFrame:
    """The frame of a sweep without analysed models."""
    return pd.DataFrame(columns=[*CELL, "seed", "data_seed", "status", *MECHANISM])


@dataclass(frozen=True, kw_only=True, slots=True)
class Results:
    """One sweep at one scale.

    view: a row per trial of a cell, cells in order (`VIEW` of the store). trials: the same rows
    with status ("missing" if there is none), provenance and configuration. evaluation: a row per
    counted run, checkpoint, range, length and second length, with its counts and its exact_match, a
    fraction. reports: training curves, a row per run and step. mechanism: rows of analysed
    models (`sweeps.engine.store.mechanism`), with the columns of the run.
    """

    sweep: str
    scale: str
    title: str
    claim: str
    view: pd.DataFrame
    trials: pd.DataFrame
    evaluation: pd.DataFrame
    reports: pd.DataFrame
    mechanism: pd.DataFrame = field(default_factory=no_mechanism)

    @property
    def cells(self) -> list[str]:
        """Labels of the cells, in order."""
        return list(self.view["cell"].drop_duplicates())

    @property
    def checkpoints(self) -> list[str]:
        """Checkpoint policies that were evaluated."""
        return sorted(self.evaluation["checkpoint"].unique())


@dataclass(frozen=True, kw_only=True, slots=True)
class ViewSummary:
    """One line about a view of the store."""

    sweep: str
    scale: str
    title: str
    num_cells: int
    num_trials: int
    num_counted: int


def load_sweep(results: str | Path, sweep: str, scale: str) -> Results:
    """The frames of a sweep in the results folder.

    Raises ValueError that names the nearest sweep, or the scales that this one has.
    """
    store = Store(results)
    check_view(store, sweep, scale)
    view = store.load_view(sweep, scale).to_pandas()
    view = view.sort_values(["cell_order", "seed", "data_seed", "trial_id"], kind="stable")
    view = view.drop_duplicates([*CELL, "trial_id"]).reset_index(drop=True)
    ids = list(view["trial_id"].unique())
    found = store.load(ids, "trial").to_pandas()
    found = found.drop(columns=["record", "seed", "data_seed", *EVALUATION, *REPORT])
    trials = view[[c for c in VIEW if c not in ("sweep", "scale", "title", "claim")]]
    trials = trials.merge(found, on="trial_id", how="left", validate="many_to_one")
    trials["status"] = trials["status"].fillna("missing")
    evaluation = store.load(ids, "evaluation", ["trial_id", *EVALUATION]).to_pandas()
    evaluation["second_length"] = evaluation["second_length"].astype("Int64")
    reports = store.load(ids, "report", ["trial_id", *REPORT]).to_pandas()
    mechanism = load_mechanism(store.folder, ids).to_pandas()
    return Results(
        sweep=sweep,
        scale=scale,
        title=str(view["title"].iloc[0]),
        claim=str(view["claim"].iloc[0]),
        view=view,
        trials=trials,
        evaluation=_join_evaluation(trials, evaluation),
        reports=trials[RUN].merge(reports, on="trial_id"),
        mechanism=trials[RUN].merge(mechanism, on="trial_id") if len(mechanism) else no_mechanism(),
    )


def list_views(results: str | Path) -> list[ViewSummary]:
    """All views of a results folder, by name; counted trials are ok or diverged."""
    store, summaries = Store(results), []
    status = {name: shard.status for name, shard in store.visible().items()}
    for sweep, scale in store.view_names():
        view = store.load_view(sweep, scale).to_pandas()
        trials = view["trial_id"].unique()
        summaries.append(
            ViewSummary(
                sweep=sweep,
                scale=scale,
                title=str(view["title"].iloc[0]),
                num_cells=view["cell"].nunique(),
                num_trials=len(trials),
                num_counted=sum(status.get(name) in COUNTED for name in trials),
            )
        )
    return summaries


def check_view(store: Store, sweep: str, scale: str) -> None:
    """Raise ValueError in one sentence if the store has no view of this sweep at this scale."""
    names = store.view_names()
    if (sweep, scale) in names:
        return
    if not names:
        raise ValueError(f"no sweep has been run into {store.root}: it holds no views")
    if scales := [other for name, other in names if name == sweep]:
        raise ValueError(f"sweep {sweep!r} has no scale {scale!r}; it has: {', '.join(scales)}")
    known = sorted({name for name, _ in names})
    close = get_close_matches(sweep, known, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}?" if close else f"there: {', '.join(known)}"
    raise ValueError(f"no sweep {sweep!r} in {store.root}; {hint}")


def select_checkpoint(results: Results, checkpoint: str) -> pd.DataFrame:
    """The evaluation rows of one checkpoint policy.

    Raises ValueError that names those that exist, unless nothing was evaluated at all.
    """
    if len(results.evaluation) and checkpoint not in results.checkpoints:
        raise ValueError(
            f"checkpoint {checkpoint!r} was not evaluated in sweep {results.sweep!r}; "
            f"there: {', '.join(results.checkpoints)}"
        )
    return results.evaluation[results.evaluation["checkpoint"] == checkpoint]


def _join_evaluation(trials: pd.DataFrame, evaluation: pd.DataFrame) -> pd.DataFrame:
    """Rows of ok trials with their cell, zeros for diverged ones; sorted by cell, run and key."""
    ok = trials.loc[trials["status"] == "ok", [*RUN, *LENGTHS]].merge(evaluation, on="trial_id")
    diverged = trials.loc[trials["status"] == "diverged", [*RUN, *LENGTHS]]
    parts = [ok] + [_zeros(run, ok) for _, run in diverged.iterrows()]
    joined = pd.concat([p for p in parts if len(p)] or [ok], ignore_index=True)
    joined["exact_match"] = joined["num_correct"] / joined["num_examples"]
    order = ["cell_order", "cell", "seed", "data_seed", "trial_id", *KEYS]
    return joined.drop(columns=LENGTHS).sort_values(order, kind="stable", ignore_index=True)


def _zeros(run: pd.Series, ok: pd.DataFrame) -> pd.DataFrame:
    """A diverged run: nothing right wherever trials with the same lengths were tested.

    If no such trial finished, the lengths of all others are taken, and its own trained lengths say
    which are `train`.
    """
    same = ok[(ok[LENGTHS].fillna("") == run[LENGTHS].fillna("")).all(axis=1)]
    rows = (same if len(same) else ok).drop_duplicates(
        KEYS if len(same) else [k for k in KEYS if k != "range"]
    )
    rows = rows.copy()
    if not len(same):
        inside = rows["length"].between(run["data.min_length"], run["data.max_length"])
        outside = rows["range"].where(rows["range"] != "train", "test")
        rows["range"] = np.where(inside, "train", outside)
    rows[[*RUN, *LENGTHS]] = run[[*RUN, *LENGTHS]].to_numpy()
    rows[["num_correct", "num_correct_tokens", *KINDS]] = 0
    rows[["outcomes", "samples"]] = None
    rows["loss_sum"] = np.nan
    return rows.astype(ok.dtypes.to_dict())


def trained_ranges(results: Results) -> dict[str, tuple[int, int]]:
    """Least and largest trained length per cell; cells without any attempt are left out."""
    known = results.trials.dropna(subset=["data.max_length"])
    low = known.groupby("cell")["data.min_length"].min()
    high = known.groupby("cell")["data.max_length"].max()
    return {cell: (int(low[cell]), int(high[cell])) for cell in results.cells if cell in high.index}
