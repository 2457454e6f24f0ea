"""From the store to `Results`: the frames of one sweep at one scale.

A cell is a configuration without its seeds, a run is one trial of a cell. Which runs count is
decided here, once:

- `ok` trials count with what they measured;
- `diverged` trials count as 0 exact match at every length on which comparable trials were tested,
  or they themselves would have been (a failure is a result);
- `missing`, `error`, `oom`, `timeout` and `lost` trials do not count: they are in `trials` and
  reduce n.
"""

import fnmatch
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pcore.config import SEEDS, TrialConfig, flatten, unflatten
from pcore.tasks import TASKS, Task
from sweeps.engine.store import mechanisms
from sweeps.engine.store.folder import Folder, parse_json
from sweeps.engine.store.location import PUBLISHED
from sweeps.engine.store.names import Shard
from sweeps.engine.store.schema import EVALUATION, REPORT, VIEW, schema
from sweeps.engine.store.score import exact_match
from sweeps.engine.store.sources import version_of
from sweeps.engine.store.store import Store
from sweeps.tables import TABLES

Coordinate: TypeAlias = int | float | str  # of a cell on an axis
CELL = ["cell", "cell_order"]
RUN = [*CELL, "trial_id", "seed", "data_seed", "status"]
KEYS = ["checkpoint", "range", "length", "second_length"]
FRAMES = ("view", "trials", "evaluation", "all_evaluation", "reports", "mechanism")  # by cell
COUNTED = ("ok", "diverged")  # statuses of trials that enter the statistics
# What is measured, not what is trained: cells that differ here only are alike.
MEASURED = (
    *(f"eval.{name}_lengths" for name in ("train", "near", "test", "second")),
    *("eval.num_examples", "eval.checkpoints", "eval.num_checks", "eval.stop_error"),
)
KINDS = ["num_missed_stop", "num_early_stop", "num_wrong_symbol"]
# Trials that agree in these columns were evaluated on test sets of the same lengths and sizes.
LENGTHS = [
    "eval.num_examples",
    "eval.length_budget",
    "data.min_length",
    "data.max_length",
    "eval.train_lengths",
    "eval.near_lengths",
    "eval.test_lengths",
    "eval.second_lengths",
    "eval.checkpoints",
]
# Fields of a task that say how an example is written, not what is asked: test sets of trials that
# differ in these alone hold the same questions in the same order.
FORMATS = {
    "addition": (
        *("task.zero_pad", "task.reverse_query", "task.reverse_response", "task.scratchpad"),
        *("task.index_hints", "task.num_hints", "task.random_hints"),
    ),
    "parity": ("task.scratchpad",),
}


def no_mechanism() -> pd.DataFrame:
    """The frame of a sweep without analysed models."""
    return pd.DataFrame(columns=[*CELL, "seed", "data_seed", "status", *mechanisms.COLUMNS])


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Results:
    """One sweep at one scale, read at one checkpoint policy. Equal to itself alone."""

    sweep: str
    scale: str
    title: str
    claim: str
    checkpoint: str  # the policy of `evaluation`: last, best or oracle
    view: pd.DataFrame  # a row per trial of a cell, cells in order (`VIEW` of the store)
    trials: pd.DataFrame  # the same rows with status ("missing": none), provenance, configuration
    # counts and exact_match in [0, 1] per counted run, range and lengths
    evaluation: pd.DataFrame
    all_evaluation: pd.DataFrame  # the same at every checkpoint policy
    reports: pd.DataFrame  # training loss: a row per run and step
    # rows of analysed models (`sweeps.engine.store.mechanisms`) with the columns of their run
    mechanism: pd.DataFrame = field(default_factory=no_mechanism)

    @property
    def cells(self) -> list[str]:
        """Labels of the cells, in order."""
        return list(self.view["cell"].drop_duplicates())

    @property
    def name(self) -> str:
        """Title, sweep and scale, for the heads of tables."""
        return f"{self.title} ({self.sweep}, {self.scale})"

    @property
    def command(self) -> str:
        """The command that runs the sweep again."""
        command = self.view["command"].iloc[0]
        script = f"python sweeps/{self.sweep}.py"
        return f"{script if pd.isna(command) else command} --scale {self.scale}"

    def at(self, checkpoint: str | None) -> "Results":
        """The same sweep at another checkpoint policy; None: every one at once.

        Raises ValueError that names those that exist, unless nothing was evaluated at all.
        """
        if checkpoint is None:
            return replace(self, checkpoint="every", evaluation=self.all_evaluation)
        policies = self.all_evaluation["checkpoint"]
        if len(policies) and checkpoint not in set(policies):
            raise ValueError(
                f"checkpoint {checkpoint!r} was not evaluated in sweep {self.sweep!r}; "
                f"there: {', '.join(sorted(policies.unique()))}"
            )
        rows, chosen = self.all_evaluation, policies == checkpoint
        rows = rows if chosen.all() else rows[chosen]
        return replace(self, checkpoint=checkpoint, evaluation=rows)


def load_sweep(
    results: str | Path | Store, sweep: str, scale: str, checkpoint: str | None = "last"
) -> Results:
    """The frames of a sweep in the results folder, at one checkpoint policy (None: at every one).
    A store that has been read from knows which of its files are sound.

    Raises ValueError that names the nearest sweep, the scales that this one has, or the checkpoint
    policies that were evaluated.
    """
    store = results if isinstance(results, Store) else Store(results)
    check_view(store, sweep, scale)
    view = store.load_view(sweep, scale).to_pandas()
    view = view.sort_values(["cell_order", "seed", "data_seed", "trial_id"], kind="stable")
    view = view.drop_duplicates([*CELL, "trial_id"]).reset_index(drop=True)
    ids = list(view["trial_id"].unique())
    shards = store.visible_of(ids)
    trials = _load_trials(store, shards, view)
    joined = _join_evaluation(trials, store, shards)
    reports = _load_reports(store, shards, trials[RUN])
    mechanism = mechanisms.load(store.folder, ids).to_pandas()
    pa.default_memory_pool().release_unused()
    return Results(
        sweep=sweep,
        scale=scale,
        title=str(view["title"].iloc[0]),
        claim=str(view["claim"].iloc[0]),
        view=view,
        trials=trials,
        checkpoint=checkpoint or "",
        evaluation=joined,
        all_evaluation=joined,
        reports=reports,
        mechanism=trials[RUN].merge(mechanism, on="trial_id") if len(mechanism) else no_mechanism(),
    ).at(checkpoint)


def find_cell(results: Results, text: str) -> str:
    """The label of a cell, from itself or from a pattern that fits it alone (* stands for
    anything). Raises ValueError that names the nearest, or all that fit.
    """
    found = find_cells(results, text)
    if len(found) > 1:
        raise ValueError(f"{text!r} fits several cells of {results.sweep}: {', '.join(found)}")
    return found[0]


def find_cells(results: Results, *patterns: str) -> list[str]:
    """The cells that have these labels (* stands for anything), those of the first pattern first.
    Raises ValueError for a pattern that fits none.
    """
    found, cells = dict[str, None](), results.cells
    for text in patterns:
        fitting = [text] if text in cells else fnmatch.filter(cells, text)
        if not fitting:
            raise ValueError(f"no cell {text!r} in {results.sweep}; {suggest(text, cells)}")
        found |= dict.fromkeys(fitting)
    return list(found)


def select_cells(results: Results, patterns: Sequence[str]) -> Results:
    """The cells of a sweep that have these labels (* stands for anything), in the sweep's order.
    Raises ValueError for a pattern that fits none.
    """
    kept = find_cells(results, *patterns)
    return relabel(results, {cell: cell for cell in results.cells if cell in kept})


def relabel(results: Results, names: Mapping[str, str]) -> Results:
    """The cells of a sweep that have a name here, under that name."""
    frames = {name: getattr(results, name) for name in FRAMES}
    kept = {name: frame[frame["cell"].isin(names)] for name, frame in frames.items()}
    return replace(results, **{k: f.assign(cell=f["cell"].map(names)) for k, f in kept.items()})


def unchanged_labels(results: Results, labels: Sequence[str]) -> Results:
    """The sweep under these labels, if its own are these and one and the same ending, as
    those of sweeps with `--set` are; else as it is.
    """
    cells = results.cells
    endings = {cell.removeprefix(label) for cell in cells[:1] for label in labels} - set(cells)
    for ending in endings:
        short = [cell.removesuffix(ending) for cell in cells]
        if all(cell.endswith(ending) for cell in cells) and set(short) <= set(labels):
            return relabel(results, dict(zip(cells, short, strict=True)))
    return results


def load_search(results: str | Path, name: str, scale: str) -> pd.DataFrame:
    """A row per configuration that a search trained: arm, each searched field, near_score,
    num_steps (of its longest training) and is_best; of its arm, where the file says so, num_failed
    (configurations) and num_trained_steps.

    Raises ValueError if there is no such search, or its file is of an older kind.
    """
    folder, file = Folder(results), f"searches/{name}-{scale}.json"
    try:
        arms = parse_json(folder.read(file))
        rows = [
            {"arm": label, **tried, "is_best": all(tried[k] == arm[k] for k in arm if "." in k)}
            | {key: arm[key] for key in ("num_failed", "num_trained_steps") if key in arm}
            for label, arm in arms.items()
            for tried in arm["tried"]
        ]
        frame = pd.DataFrame(rows).sort_values("num_steps", ascending=False, kind="stable")
    except FileNotFoundError:
        there = ", ".join(_searches(folder)) or "none"
        raise ValueError(
            f"no finished search {name!r} at {scale} scale in {folder}; there: {there}. "
            f"Its script runs it: --scale {scale} --results {folder}"
        ) from None
    except (ValueError, LookupError, TypeError, AttributeError):
        again = f"python sweeps/{name}.py --scale {scale} --results {folder}"
        raise ValueError(
            f"{folder.path(file)} lacks what was tried; this writes it again from the rows: {again}"
        ) from None
    fields = [name for name in frame.columns if "." in name]
    return frame.drop_duplicates(["arm", *fields]).sort_index()  # older searches repeated some


def count_newer(results: str | Path, name: str, scale: str) -> int:
    """How many trials of the newest view of a search took no part in the choice of its winners, as
    far as these say what did.
    """
    store, newest = Store(results), dict[str, set[str]]()
    arms = parse_json(store.folder.read(f"searches/{name}-{scale}.json"))
    for row in store.launches(name, scale, "searches"):
        newest.setdefault(row["launched_at"] or "", set()).add(row["trial_id"])
    known = {trial for arm in arms.values() for trial in arm.get("trials", ())}
    return len(newest[max(newest)] - known) if newest and known else 0


def _searches(folder: Folder) -> list[str]:
    """NAME-SCALE of the searches that have winners."""
    files = [entry.name.removeprefix("searches/") for entry in folder.list("searches")]
    return [file.removesuffix(".json") for file in files if file.endswith(".json")]


def usual_scale(*places: tuple[str | Path, str]) -> str:
    """The scale to take where none is named: the only one that all these places, a store and a
    sweep or search in it, have; else laptop.
    """
    common = set.intersection(*(_stored_scales(*place) for place in places))
    return common.pop() if len(common) == 1 else "laptop"


def _stored_scales(results: str | Path, sweep: str) -> set[str]:
    scales = {scale for name, scale in Store(results).view_names() if name == sweep}
    for search in _searches(Folder(results)):
        name, _, scale = search.rpartition("-")
        scales |= {scale} if name == sweep else set()
    return scales


def check_view(store: Store, sweep: str, scale: str) -> None:
    """Raise ValueError in one sentence if the store has no view of this sweep at this scale."""
    names = store.view_names()
    if (sweep, scale) in names:
        return
    if scales := [other for name, other in names if name == sweep]:
        there = ", ".join(scales)
        raise ValueError(f"sweep {sweep!r} has no scale {scale!r} in {store.root}; it has: {there}")
    if sweep in TABLES["paper"] and names:
        run = f"python -m sweeps run {sweep}"
        if published := sorted(PUBLISHED.glob(f"*/views/{sweep}-{scale}[.+]*")):
            run = f"--results {os.path.relpath(published[0].parents[1])} has it"
        raise ValueError(f"{sweep} has not been run into {store.root}: {run}")
    if any(search.rpartition("-")[0] == sweep for search in _searches(store.folder)):
        raise ValueError(f"{sweep} is a search: python -m analysis search {sweep}")
    if not names:
        inside = [] if store.folder.remote else sorted(Path(store.root).glob("*/views"))
        hint = f"; did you mean {inside[0].parent}?" if inside else ""
        raise ValueError(f"no sweep has been run in {store.root} yet: it holds no views{hint}")
    others = sorted({name for name, _ in names} - {sweep})
    raise ValueError(f"no sweep {sweep!r} in {store.root}; {suggest(sweep, others)}")


def suggest(name: str, names: Sequence[str]) -> str:
    """The end of an error about a name that does not exist: the nearest one, else all."""
    close = [other for other in names if other.lower() == name.lower()]
    close = close or get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"there: {', '.join(map(repr, names))}"


def _load_trials(store: Store, shards: Sequence[Shard], view: pd.DataFrame) -> pd.DataFrame:
    """The rows of a view with what is known of their trials. `config_json`, which is long and of
    which a cell needs one, is null in all but the first run of each cell.
    """
    dropped = {"record", "seed", "data_seed", "config_json", *EVALUATION, *REPORT}
    columns = [name for name in schema().names if name not in dropped]
    rows = _to_frame(store.load_shards(shards, "trial", columns))
    trials = view[[c for c in VIEW if c not in ("sweep", "scale", "title", "claim", "command")]]
    trials = trials.merge(rows, on="trial_id", how="left", validate="many_to_one")
    first = trials.dropna(subset="status").drop_duplicates("cell").index
    names = set(trials.loc[first, "trial_id"])
    few = [shard for shard in shards if shard.trial_id in names]
    texts = store.load_shards(few, "trial", ["trial_id", "config_json"]).to_pandas()
    by_trial = texts.set_index("trial_id")["config_json"]
    trials["config_json"] = trials.loc[first, "trial_id"].map(by_trial)
    trials["status"] = trials["status"].fillna("missing")
    return trials


def _load_reports(store: Store, shards: Sequence[Shard], runs: pd.DataFrame) -> pd.DataFrame:
    """Training loss with the columns of each run; texts are categories, since rows are many."""
    rows = store.load_shards(shards, "report", ["trial_id", "step", "loss"])
    ids = pa.array([shard.trial_id for shard in shards], pa.string())
    numbers = pc.call_function("index_in", [rows.column("trial_id")], pc.SetLookupOptions(ids))
    rows = _to_frame(rows.drop_columns("trial_id").append_column("run", numbers))
    runs = runs.assign(run=pd.Index(ids.to_pylist()).get_indexer(pd.Index(runs["trial_id"])))
    runs = runs.astype(dict.fromkeys(("cell", "trial_id", "status"), "category"))
    return runs.merge(rows, on="run").drop(columns="run")


def _to_frame(table: pa.Table) -> pd.DataFrame:
    """Column by column, so that a large table is not in memory twice."""
    return table.to_pandas(split_blocks=True, self_destruct=True)


def _join_evaluation(trials: pd.DataFrame, store: Store, shards: Sequence[Shard]) -> pd.DataFrame:
    """Rows of ok trials with their cell, zeros for diverged ones; sorted by cell, run and key."""
    finished = trials[trials["status"] == "ok"]
    rows = _to_frame(store.load_shards(shards, "evaluation", ["trial_id", *EVALUATION]))
    rows["second_length"] = rows["second_length"].astype("Int64")
    ok = finished[RUN].merge(rows, on="trial_id")
    diverged = trials[trials["status"] == "diverged"]
    zeros = [_zeros(run, ok, finished) for _, run in diverged.iterrows()]
    parts = [part for part in (ok, *zeros) if len(part)]
    joined = pd.concat(parts, ignore_index=True) if len(parts) > 1 else ok
    joined["exact_match"] = exact_match(joined)
    joined["asked"] = _name_asked(joined, trials)
    order = ["cell_order", "cell", "seed", "data_seed", "trial_id", *KEYS]
    return joined.sort_values(order, kind="stable", ignore_index=True)


def _name_asked(rows: pd.DataFrame, trials: pd.DataFrame) -> pd.Series:
    """A name for what each evaluation asks, the same for the same questions in any format: of tasks
    with several, all else of the task, the number of examples and the code, which may draw other
    ones; else the test set.
    """
    names = dict[str, str]()
    trials = trials.assign(code=trials["code_hash"].map(version_of, na_action="ignore"))
    for task, formats in FORMATS.items():
        own = [c for c in trials.columns if c.startswith("task.") and c not in formats]
        asked = trials[trials["task.name"] == task]
        for values, ids in asked.groupby(["code", *own], dropna=False)["trial_id"]:
            known = pd.Series(values, ["code", *own], dtype=object).dropna()
            # A column has floats if another task lacks the option.
            texts = {k: v if isinstance(v, str) else float(v) for k, v in known.items()}
            name = hashlib.sha256(repr(texts).encode()).hexdigest()[:16]
            names |= dict.fromkeys(ids, name)
    count = rows["num_examples"].astype("str")
    return (rows["trial_id"].map(names).astype("str") + " n=" + count).fillna(rows["test_set"])


def _zeros(run: pd.Series, ok: pd.DataFrame, finished: pd.DataFrame) -> pd.DataFrame:
    """A diverged run: nothing right wherever trials with the same lengths and task, in any format,
    were tested; where no such trial finished, at the lengths of its own configuration.

    ok: evaluations of the `finished` trials.
    """
    formats = FORMATS.get(run["task.name"], ())
    task = [c for c in run.index if str(c).startswith("task.") and c not in formats]
    ours, others = run[[*LENGTHS, *task]], finished[[*LENGTHS, *task]]
    alike = ((others == ours) | (others.isna() & ours.isna())).all(axis=1)
    same = ok[ok["trial_id"].isin(finished.loc[alike, "trial_id"])].drop_duplicates(KEYS)
    rows = same.copy() if len(same) else _planned(run).reindex(columns=ok.columns)
    rows[RUN] = run[RUN].to_numpy()
    rows[["num_correct", "num_correct_tokens", *KINDS]] = 0
    rows[["outcomes", "samples"]] = None
    rows["loss_sum"] = np.nan
    return rows.astype(ok.dtypes.to_dict())


def _planned(run: pd.Series) -> pd.DataFrame:
    """What a trial would have been tested on: a row per checkpoint policy and pair of lengths."""
    from pcore.evaluation import evaluation_lengths  # imports torch, and few trials need this

    options = {str(name): value for name, value in run.items() if not pd.isna(value)}
    known = [name for name in flatten(TrialConfig()) if name.startswith(("data.", "eval."))]
    config = unflatten({name: options[name] for name in known if name in options})
    task = known_task(options)
    places = [(name, n) for name, found in evaluation_lengths(config).items() for n in found]
    rows = [
        (policy, *place, second)
        for policy, place in product(config.eval.checkpoints, places)
        for second in config.eval.second_lengths or [task and task.default_second(place[1])]
    ]
    planned = pd.DataFrame(rows, columns=KEYS)
    counts = {"num_tokens": 1, "checkpoint_step": 0}  # of which none is right
    return planned.assign(num_examples=planned["length"].map(config.eval.examples_at), **counts)


def known_task(config: Mapping[str, Any]) -> Task | None:
    """The task of a flat configuration; None for somebody's own, as a row runs no code that it
    names, and for one with options that are not known here."""
    options = {name: value for name, value in config.items() if name.startswith("task.")}
    if options["task.name"] not in TASKS:
        return None
    try:
        return unflatten(options).task
    except ValueError:
        return None


def cell_axes(results: Results) -> dict[str, dict[str, Coordinate]]:
    """Where each cell is on the axes of the sweep, by their names; {} where its view is older."""
    first = results.view.drop_duplicates("cell")
    texts = zip(first["cell"], first["axes"], strict=True)
    return {str(cell): json.loads(text) if isinstance(text, str) else {} for cell, text in texts}


def trained_ranges(results: Results) -> dict[str, tuple[int, int]]:
    """Smallest and largest trained length per cell; cells without any attempt are left out."""
    attempted = results.trials.dropna(subset=["data.max_length"])
    low = attempted.groupby("cell")["data.min_length"].min()
    high = attempted.groupby("cell")["data.max_length"].max()
    return {cell: (int(low[cell]), int(high[cell])) for cell in results.cells if cell in high.index}


def cell_configs(results: Results) -> dict[str, dict[str, Any]]:
    """The flat configuration, without seeds, of every cell with at least one trial.

    Fields newer than a row have the default value.
    """
    default = {k: v for k, v in flatten(TrialConfig()).items() if not k.startswith("task.")}
    known = results.trials.dropna(subset=["config_json"]).drop_duplicates("cell")
    texts = dict(zip(known["cell"], known["config_json"], strict=True))
    configs = {cell: default | json.loads(texts[cell]) for cell in results.cells if cell in texts}
    return {
        cell: {k: v for k, v in config.items() if k not in SEEDS}
        for cell, config in configs.items()
    }


def differences(configs: dict[str, dict[str, Any]]) -> dict[str, list[Any]]:
    """The fields in which the cells differ, each with its value per cell (None: it has none)."""
    names = list(dict.fromkeys(name for config in configs.values() for name in config))
    columns = {name: [config.get(name) for config in configs.values()] for name in names}
    return {k: values for k, values in columns.items() if any(v != values[0] for v in values)}
