"""The cells of a sweep as plain data: what the page's table, charts and lists of trials show.

Every number comes from `analysis.tables` and `analysis.statistics`; nothing is measured here.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pandas as pd

from analysis.figures.looks import cell_method_colors, method_name, shade_methods
from analysis.load import COUNTED, Results, cell_configs
from analysis.statistics.cells import cells_of
from analysis.statistics.runs import SEEDS
from analysis.statistics.training import token_factor
from analysis.tables.notes import POLICIES
from analysis.tables.sweep_tables import choose_lengths, show_l95, show_match, show_train
from analysis.tables.table import DASH, Table, TableCell, percent

DIGITS = 4  # of a percentage in a curve: finer than any chart
LONGEST_ERROR = 300  # characters of an error text
SHORT = 8  # characters of a commit
LENGTHS = ("near 1.5x", "near 2x", "longest")  # at which the page's table shows exact match
ORIGIN = ["trial_id", *SEEDS, "status", "git_commit", "git_dirty", "wall_seconds", "error"]
MOST_SAMPLES = 2  # right ones per cell, and as many wrong ones


def describe_cells(results: Results, table: Table) -> list[dict[str, Any]]:
    """A dictionary for each cell, as JSON can hold it; table: that of the sweep."""
    configs, runs = cell_configs(results), _describe_runs(results)
    methods = cell_method_colors(results)
    colors = shade_methods(methods)
    numbers = _describe_numbers(results, table, configs)
    shared = {
        "sweep": results.sweep,
        "scale": results.scale,
        "title": results.title,
        "command": results.command,
        "complete": completeness(results.trials),
        "checkpoint": POLICIES.get(results.checkpoint, results.checkpoint),
    }
    return [
        shared
        | {
            "cell": cell,
            "color": colors[cell],
            "method_color": methods[cell],
            "task": str(config.get("task.name", DASH)),
            "encoding": method_name(config) if config else DASH,
            "layers": None if is_built else config.get("model.num_layers"),
            "constructed": is_built,
        }
        | of_table
        | runs[cell]
        for cell, of_table in zip(results.cells, numbers, strict=True)
        for config in [configs.get(cell, {})]
        for is_built in [config.get("model.kind") == "constructed"]
    ]


def completeness(trials: pd.DataFrame) -> str:
    """ "all 18 trials done" or "16 of 18 trials done; 1 error, 1 missing"."""
    counts = trials.drop_duplicates("trial_id")["status"].value_counts()
    total, done = int(counts.sum()), int(sum(counts.get(state, 0) for state in COUNTED))
    diverged = f" ({counts['diverged']} diverged)" if counts.get("diverged") else ""
    others = [f"{n} {state}" for state, n in sorted(counts.items()) if state not in COUNTED]
    start = f"all {total} trials done" if done == total else f"{done} of {total} trials done"
    return start + diverged + (f"; {', '.join(others)}" if others else "")


def _describe_numbers(
    results: Results, table: Table, configs: Mapping[str, Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """What the sweep's table says of each of its cells, by the page's columns."""
    chosen = choose_lengths(results)
    shown = (*chosen.places[:1], chosen.solve, *chosen.places[-1:]) if chosen.solve else ()
    for numbers in table.numbers.to_dict("records"):
        cell, l95 = numbers["cell"], None if pd.isna(numbers["l95"]) else int(numbers["l95"])
        at = [(place[0], show_match(numbers, place)) for place in shown]
        yield {
            "train": show_train(numbers),
            "L95": show_l95(numbers),
            "exact_match": at or [(None, TableCell(DASH))] * len(LENGTHS),
            "l95": l95,
            "reach": None if l95 is None else numbers["l95_over_trained"],
            "tokens": token_factor(configs[cell], l95) if l95 else None,
            "is_longest": l95 is not None and bool(numbers["l95_is_lower_bound"]),
            "worst": percent(cells_of(results).at(cell, l95)["worst"]),
        }


def _describe_runs(results: Results) -> dict[str, dict[str, Any]]:
    """By cell: the curve of the median, in percent, and every planned trial with its own."""
    cells = cells_of(results)
    medians = cells.curves.set_index(["cell", "length"])["median"]
    l95s = {
        (run["cell"], run["trial_id"]): f"{'≥' if run['l95_is_lower_bound'] else ''}{run['l95']}"
        for run in cells.run_l95.to_dict("records")
    }
    by_run = {
        key: run.set_index("length")["exact_match"]
        for key, run in cells.runs.groupby(["cell", "trial_id"], sort=False)
    }
    trained, described = cells.trained, dict[str, dict[str, Any]]()
    for cell in results.cells:
        median = medians[cell] if cell in medians else pd.Series(dtype=float)
        trials = list[dict[str, Any]]()
        planned = results.trials.loc[results.trials["cell"] == cell, ORIGIN]  # of hundred columns
        for trial in planned.to_dict("records"):
            key = (cell, trial["trial_id"])
            run = by_run[key].reindex(median.index) if key in by_run else ()
            curve = {"L95": l95s.get(key, DASH), "curve": list(map(_percent, run))}
            trials.append(_describe_trial(trial) | curve)
        described[cell] = {
            "n": sum(trial["status"] in COUNTED for trial in trials),
            "trained": list(map(int, trained[cell])) if cell in trained else None,
            "lengths": list(map(int, median.index)),
            "median": list(map(_percent, median)),
            "trials": trials,
        }
    return described


def _describe_trial(trial: Mapping[Any, Any]) -> dict[str, Any]:
    """Where a run comes from, and how it went."""
    return {
        "id": str(trial["trial_id"]),
        "seed": int(trial["seed"]),
        "data_seed": int(trial["data_seed"]),
        "status": str(trial["status"]),
        "commit": _text(trial["git_commit"])[:SHORT],
        "dirty": trial["git_dirty"] is True,
        "seconds": None if pd.isna(trial["wall_seconds"]) else round(trial["wall_seconds"], 1),
        "error": _text(trial["error"])[-LONGEST_ERROR:],
    }


def _percent(fraction: float) -> float | None:
    return None if math.isnan(fraction) else round(100 * fraction, DIGITS)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def pick_samples(evaluation: pd.DataFrame) -> list[dict[str, Any]]:
    """What runs of each cell answered at its longest tested length: a few right and wrong examples.

    evaluation: the rows of one checkpoint policy. Diverged runs answer nothing.
    """
    if "samples" not in evaluation:
        return []
    rows = evaluation[(evaluation["status"] == "ok") & evaluation["samples"].notna()]
    picked = list[dict[str, Any]]()
    for cell, runs in rows.groupby("cell", sort=False):
        longest = runs[runs["length"] == runs["length"].max()]
        second = longest["second_length"].max()
        longest = longest[longest["second_length"].fillna(0) == (0 if pd.isna(second) else second)]
        samples = list(_unpack(zip(longest["seed"], longest["samples"], strict=True)))
        by_right = ([s for s in samples if s["right"] is right] for right in (True, False))
        shown = [sample for group in by_right for sample in group[:MOST_SAMPLES]]
        size = str(longest["length"].iloc[0]) + ("" if pd.isna(second) else f" × {second}")
        picked += [{"cell": cell, "size": size, "samples": shown}] if shown else []
    return picked


def _unpack(rows: Iterable[tuple[int, str]]) -> Iterable[dict[str, Any]]:
    """All samples of these runs, equal ones once; agree: characters like those of the answer."""
    seen = set[tuple[str, str]]()
    for seed, text in rows:
        for row in json.loads(text):
            if (row["query"], row["predicted"]) in seen:
                continue
            seen.add((row["query"], row["predicted"]))
            pairs = zip(row["answer"], row["predicted"], strict=False)
            agree = next((i for i, (a, b) in enumerate(pairs) if a != b), len(row["answer"]))
            yield row | {"seed": int(seed), "agree": agree}
