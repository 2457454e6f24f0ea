"""Another metric than exact match as a table: its median over runs, at lengths or over a range."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from analysis.load import RUN, Results, suggest, trained_ranges
from analysis.statistics import runs as statistics
from analysis.statistics.cells import Cells, Place, cells_of, name_place
from analysis.tables import table
from analysis.tables.notes import by_cell
from analysis.tables.sweep_tables import MEDIAN, choose_lengths
from analysis.tables.table import Column, Table, percent, plain, show_interval
from sweeps.engine.store.score import near_score

COUNTED: Mapping[str, tuple[Callable[[pd.DataFrame], pd.Series], str]] = {
    "exact_match": (lambda rows: rows["exact_match"], "share of responses entirely right, in %"),
    "token_accuracy": (
        lambda rows: rows["num_correct_tokens"] / rows["num_tokens"],
        "share of targets that are right, in %",
    ),
    "loss": (lambda rows: rows["loss_sum"] / rows["num_tokens"], "nats per target"),
    "near_score": (
        near_score,
        "(1 - exact match) + (1 - token accuracy), smaller is better; over the near range it is "
        "what searches select by",
    ),
}
PERCENT = ("exact_match", "token_accuracy")


def metric_table(
    results: Results, metric: str, over: str = "", wanted: Sequence[Place] = ()
) -> Table:
    """The values of each cell at the longest trained length and the longer ones that tables show,
    or at those wanted; or (over) the mean over the lengths of a range.

    With second lengths, the mean over those tested with a length; exact match is the least, as
    in every table. Raises ValueError, with the nearest right name, for one that is not counted.
    """
    if metric not in COUNTED:
        hint = suggest(metric, list(COUNTED))
        raise ValueError(f"{results.sweep} [{results.scale}] has no metric {metric!r}; {hint}")
    (value, meaning), is_whole = COUNTED[metric], metric == "exact_match" and not over
    valued = results.evaluation.assign(exact_match=value)
    rows = cells_of(results).runs if is_whole else valued
    without = by_cell(rows[rows["exact_match"].isna()].drop_duplicates(["cell", "trial_id"]))
    rows = rows.dropna(subset="exact_match")
    if over and (rows := rows[rows["range"] == over].assign(length=over)).empty:
        raise ValueError(f"{results.sweep} [{results.scale}] has no lengths in the {over} range")
    means = rows.groupby([*RUN, "length"], as_index=False)[["exact_match", "num_examples"]].mean()
    cells = Cells(replace(results, evaluation=means.assign(second_length=np.nan)))
    pairs = Cells(replace(results, evaluation=valued.dropna(subset="exact_match")))
    heads = {(over, None): [over]} if over else _choose_heads(results, wanted)
    counts = rows.groupby("cell")["trial_id"].nunique()

    def count(cell: str) -> dict[str, int]:
        return {"n": int(counts.get(cell, 0))}

    runs = replace(plain("n", "runs"), measure=count)
    columns = [runs]
    for place, head in heads.items():
        columns.append(_column(cells if place[1] is None else pairs, place, head, metric))
    of_range = " of their means over the lengths of the range" if over else ""
    if statistics.has_second_lengths(results.evaluation):
        of_range += (
            ", the least of its second lengths" if is_whole else ", all pairs of lengths alike"
        )
    return table.show(
        columns,
        table.measure(columns, results.cells),
        f"{metric}: {results.name}",
        (
            f"Scale: {results.scale}. Checkpoint: {results.checkpoint}.",
            f"{metric}: {meaning}. Median over runs [interval]{of_range}.",
            *([f"Not counted, without {metric} (diverged): {without}."] if without else []),
        ),
    )


def _choose_heads(results: Results, wanted: Sequence[Place]) -> dict[Place, list[str]]:
    """The heads of the columns and their second lines, by length."""
    shown = choose_lengths(results, wanted)
    trained = set() if wanted else {high for _, high in trained_ranges(results).values()}
    places = [(high, None) for high in sorted(trained - {n for n, _ in shown.places})]
    return {place: shown.label(place).split(" ") for place in (*places, *shown.places)}


def _column(cells: Cells, place: Any, head: Sequence[str], metric: str) -> Column:
    """The metric, which stands for exact match, at a length or over a range."""
    at = name_place(place)
    names = {f"{name}_{at}": of for name, of in zip(("at", *MEDIAN[1:]), MEDIAN, strict=True)}

    def text(number: float) -> str:
        return percent(number) if metric in PERCENT else f"{number:.4g}"

    def measure(cell: str) -> dict[str, float]:
        return {name: cells.at(cell, *place)[of] for name, of in names.items()}

    show = partial(show_interval, names=names, text=text)
    return Column(head=head[0], detail=" ".join(head[1:]), measure=measure, show=show)
