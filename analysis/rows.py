"""The rows of a store as one tidy pandas frame, for notebooks and programs.

    from analysis.rows import read_rows

    rows = read_rows("results/published/laptop", "depth_ablation")
    rows.pivot_table(index="cell", columns="length", values="exact_match", aggfunc="median")

`read_curves` has the training loss by step.
`analysis.load` has the same sweep as several frames with everything that tables need.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from analysis.load import CELL, KEYS, Results, cell_axes, check_view, load_sweep
from pcore.config import SEEDS
from sweeps.engine.store.location import find_existing
from sweeps.engine.store.store import Store

COUNTS = ["num_examples", "num_correct", "num_tokens", "num_correct_tokens", "exact_match"]
# Columns of a trial that say how it ran; those of its configuration have a dot in their names.
# Seconds are those of the last attempt, from `first_step` on.
TRIAL = [
    *("num_parameters", "train_seconds", "wall_seconds", "first_step", "train_flops"),
    *("device", "git_commit"),
]


def read_rows(
    results: str | Path,
    sweeps: str | Sequence[str] | None = None,
    scale: str | None = None,
    checkpoint: str | None = "last",
) -> pd.DataFrame:
    """A row per run and tested length of these sweeps (None: all) at this scale.

    sweeps: names as `python -m sweeps status` prints them. scale: None takes the only one that the
    store has; "all" keeps several apart in the column `scale` alone. checkpoint: policy; None:
    every policy, in the column `checkpoint`. Columns: sweep, scale, cell and its place on each axis
    of the sweep (`axis.NAME`); seeds, status, range and lengths; counts and exact_match in [0, 1];
    how the trial ran; its configuration (`model.num_layers`, ...). Diverged runs have 0 right, and
    a trial that two sweeps share has rows in both. Raises ValueError for what the store lacks.
    """
    return pd.concat(
        [
            _tidy(results, results.evaluation)
            for results in _load(results, sweeps, scale, checkpoint)
        ],
        ignore_index=True,
    )


def read_curves(
    results: str | Path,
    sweeps: str | Sequence[str] | None = None,
    scale: str | None = None,
) -> pd.DataFrame:
    """Training loss: a row per run and reported step of these sweeps.

    Columns: as of `read_rows`, with `step` and `loss` (nats per target) instead of lengths and
    counts; runs of every status that reported anything. Raises ValueError for what the store lacks.
    """
    found = _load(results, sweeps, scale)
    plain = dict.fromkeys(("cell", "trial_id", "status"), "str")
    return pd.concat([_tidy(r, r.reports.astype(plain)) for r in found], ignore_index=True)


def _load(
    results: str | Path,
    sweeps: str | Sequence[str] | None,
    scale: str | None,
    checkpoint: str | None = None,
) -> list[Results]:
    store = Store(find_existing(str(results)))
    views = list(store.views())
    names = [sweeps] if isinstance(sweeps, str) else sweeps
    chosen = [v for v in views if (not names or v[0] in names) and scale in (None, "all", v[1])]
    scales = sorted({size for _, size in chosen})
    if scale is None and len(scales) > 1:  # a median over both would mean nothing
        raise ValueError(
            f"{results} has rows at {' and '.join(scales)} scale: choose scale={scales[0]!r} or "
            "another, or 'all' for every one"
        )
    found = dict(chosen)
    for name in names or ([] if found else [*dict(views), ""]):
        if name not in found:
            check_view(store, name, scale or "laptop")
    return [load_sweep(store, *view, checkpoint) for view in chosen]


def _tidy(results: Results, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of runs with the place and the configuration of their cell."""
    trials = results.trials.reset_index(drop=True)
    flat = pd.DataFrame(
        [json.loads(text) if isinstance(text, str) else {} for text in trials["config_json"]]
    )
    own = [name for name in flat.columns if name not in trials.columns]  # options of own tasks
    options = flat[own].groupby(trials["cell"]).transform("first")  # one run of a cell has them
    trials = pd.concat([trials, options], axis=1)
    configuration = [name for name in trials.columns if "." in name]
    trials = trials[["cell", "trial_id", *TRIAL, *configuration]]
    places = cell_axes(results)
    measured = [*KEYS, *COUNTS] if "length" in rows else ["step", "loss"]
    columns = ["trial_id", *SEEDS, "status", *measured]
    tidy = rows[[*CELL, *columns]].merge(trials, on=["cell", "trial_id"], validate="many_to_one")
    axes = list(dict.fromkeys(name for place in places.values() for name in place))
    where = {f"axis.{name}": [places[cell].get(name) for cell in tidy["cell"]] for name in axes}
    first = {"sweep": results.sweep, "scale": results.scale, "cell": tidy["cell"], **where}
    return pd.concat([pd.DataFrame(first, index=tidy.index), tidy.drop(columns=CELL)], axis=1)
