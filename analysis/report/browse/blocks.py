"""A sweep as plain data for the page: its cells with table, curves and trials, and its verdicts.

Every number comes from `analysis.tables` and `analysis.statistics` as in `python -m analysis
table`; nothing is measured here. A block is what JSON can hold, so that a page keeps it and the
next one takes it over where no row has changed.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from analysis.configs import cell_configs
from analysis.figures.shared.cell_styles import cell_method_colors, cell_shades, method_name
from analysis.findings import judge, load_findings
from analysis.load import COUNTED, Results, trained_ranges
from analysis.report.browse.links import Block
from analysis.report.browse.page import LENGTHS
from analysis.report.section_tables import completeness_words
from analysis.statistics import runs as statistics
from analysis.tables.notes import POLICIES
from analysis.tables.sweep_tables import DASH, Table, TableCell, ablation_table, choose_lengths

DIGITS = 4  # of a percentage in a curve: finer than any chart
LONGEST_ERROR = 300  # characters of an error text
SHORT = 8  # characters of a commit


def make_block(stamp: str, sweep: str, views: Sequence[Results]) -> Block:
    """A sweep at all its scales; stamp: of the rows it is made from."""
    claims = {number: claim for number, claim in enumerate(load_findings()) if claim.sweep == sweep}
    return {
        "stamp": stamp,
        "sweep": sweep,
        "views": [_describe_view(results) for results in views],
        "verdicts": _verdicts(claims, views),
        "left_out": [],
    }


def make_rest(stamp: str, sweeps: Iterable[str]) -> Block:
    """The verdicts on claims whose sweep is none of these: on what the store does not hold."""
    known = set(sweeps)
    claims = {
        number: claim for number, claim in enumerate(load_findings()) if claim.sweep not in known
    }
    return {
        "stamp": stamp,
        "sweep": "",
        "views": [],
        "verdicts": _verdicts(claims, ()),
        "left_out": [],
    }


def _verdicts(claims: Mapping[int, Any], views: Sequence[Results]) -> list[dict[str, Any]]:
    """place: of the claim in the list of all."""
    rows = judge(claims.values(), views)
    return [{"place": place} | asdict(row) for place, row in zip(claims, rows, strict=True)]


def _describe_view(results: Results) -> dict[str, Any]:
    table = ablation_table(results) if len(results.evaluation) else None
    configs, colors = cell_configs(results), cell_shades(results)
    methods = cell_method_colors(results)
    runs = _describe_runs(results)
    return {
        "scale": results.scale,
        "title": results.title,
        "command": results.command,
        "complete": completeness_words(results),
        "checkpoint": POLICIES.get(results.checkpoint, results.checkpoint),
        "cells": [
            {"color": colors[cell], "method_color": methods[cell]}
            | _describe_method(cell, configs.get(cell, {}))
            | _describe_numbers(results, table, place)
            | runs[cell]
            for place, cell in enumerate(results.cells)
        ],
    }


def _describe_method(cell: str, config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "cell": cell,
        "task": str(config.get("task.name", DASH)),
        "encoding": method_name(config) if config else DASH,
        "layers": config.get("model.num_layers"),
        "constructed": config.get("model.kind") == "constructed",
    }


def _describe_numbers(results: Results, table: Table | None, place: int) -> dict[str, Any]:
    """What the sweep's table says of its cell at this place, by the page's columns."""
    nothing = ["", TableCell(DASH)]
    shown = {"train": TableCell(DASH), "L95": TableCell(DASH)}
    lengths: list[Any] = [nothing] * len(LENGTHS)
    reach = l95 = None
    is_longest = False
    if table is not None:
        chosen = choose_lengths(results)
        row = dict(zip((head.text for head in table.header), table.rows[place], strict=True))
        shown = {name: row[name] for name in shown}
        if chosen.solve is not None:
            three = (chosen.lengths[0], chosen.solve, chosen.lengths[-1])
            lengths = [[length, row[f"EM@{length}"]] for length in three]
        numbers = table.numbers.iloc[place]
        reach, l95 = numbers["l95_over_trained"], numbers["l95"]
        is_longest = not pd.isna(l95) and bool(numbers["l95_is_lower_bound"])
    return {
        "train": shown["train"],
        "L95": shown["L95"],
        "exact_match": dict(zip(LENGTHS, lengths, strict=True)),
        "reach": None if pd.isna(reach) else float(reach),
        "l95": None if pd.isna(l95) else int(l95),
        "is_longest": is_longest,
    }


def _describe_runs(results: Results) -> dict[str, dict[str, Any]]:
    """By cell: the curve of the median, in percent, and every planned trial with its own."""
    curves = statistics.run_curves(results.evaluation)
    medians = curves.groupby(["cell", "length"], as_index=False)["exact_match"].median()
    l95s = {
        (run["cell"], run["trial_id"]): _l95(run)
        for run in statistics.run_l95(results.evaluation).to_dict("records")
    }
    by_run = dict[Any, dict[int, float]]()
    for row in curves.to_dict("records"):
        by_run.setdefault((row["cell"], row["trial_id"]), {})[row["length"]] = row["exact_match"]
    trained = trained_ranges(results)
    described = dict[str, dict[str, Any]]()
    for cell in results.cells:
        median = medians[medians["cell"] == cell]
        lengths = [int(length) for length in median["length"]]
        trials = list[dict[str, Any]]()
        for trial in results.trials[results.trials["cell"] == cell].to_dict("records"):
            key = (cell, trial["trial_id"])
            values = [by_run[key].get(n, math.nan) for n in lengths] if key in by_run else []
            curve = [_percent(value) for value in values]
            trials.append(_describe_trial(trial) | {"L95": l95s.get(key, DASH), "curve": curve})
        described[cell] = {
            "n": sum(trial["status"] in COUNTED for trial in trials),
            "trained": list(trained[cell]) if cell in trained else None,
            "lengths": lengths,
            "median": [_percent(float(value)) for value in median["exact_match"]],
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
        "seconds": _number(trial["wall_seconds"]),
        "error": _text(trial["error"])[-LONGEST_ERROR:],
    }


def _l95(run: Mapping[Any, Any]) -> str:
    return f"{'≥' if run['l95_is_lower_bound'] else ''}{run['l95']}"


def _percent(fraction: float) -> float | None:
    return None if math.isnan(fraction) else round(100 * fraction, DIGITS)


def _number(value: Any) -> float | None:
    return None if pd.isna(value) else round(float(value), 1)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
