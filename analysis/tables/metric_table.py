"""Another metric than exact match as a table: its median over runs, at lengths or over a range."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import pandas as pd

from analysis.load import Results, suggest, trained_ranges
from analysis.statistics import runs as statistics
from analysis.statistics.cells import cells_of
from analysis.statistics.runs import SEEDS
from analysis.tables import table
from analysis.tables.sweep_tables import choose_lengths
from analysis.tables.table import Column, Table, TableCell, percent, show_interval
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


def check_metric(results: Results, metric: str) -> None:
    """Raise ValueError, with the nearest right name, for one that is not counted."""
    if metric not in COUNTED:
        hint = suggest(metric, list(COUNTED))
        raise ValueError(f"{results.sweep} [{results.scale}] has no metric {metric!r}; {hint}")


def metric_table(
    results: Results, metric: str, over: str = "", wanted: Sequence[int] = ()
) -> Table:
    """The values of each cell at the longest trained length and the longer ones that tables show,
    or at those wanted; or (over) the mean over the lengths of a range.

    With second lengths, the mean over those tested with a length; exact match is the least, as
    in every table.
    """
    at_lengths = metric == "exact_match" and not over
    rows = cells_of(results).runs if at_lengths else results.evaluation
    value, meaning = COUNTED[metric]
    rows = rows.assign(value=value(rows)).dropna(subset="value")
    heads: dict[Any, TableCell] = {over: TableCell(over)}
    if not over:
        shown = choose_lengths(results, wanted)
        trained = set() if wanted else {high for _, high in trained_ranges(results).values()}
        lengths = sorted(trained | set(shown.lengths))
        heads = {length: TableCell(*shown.label(length).split(" ")) for length in lengths}
    elif (rows := rows[rows["range"] == over]).empty:
        raise ValueError(f"{results.sweep} [{results.scale}] has no lengths in the {over} range")
    columns = list(_columns(rows, heads, "range" if over else "length", metric))
    means = " of their means over the lengths of the range" if over else ""
    return table.show(
        columns,
        table.measure(columns, results.cells),
        f"{metric}: {results.name}",
        (
            f"Scale: {results.scale}. Checkpoint: {results.checkpoint}.",
            f"{metric}: {meaning}. Median over runs [interval]{means}.",
        ),
    )


def _columns(
    rows: pd.DataFrame, heads: Mapping[Any, TableCell], key: str, metric: str
) -> Iterator[Column]:
    """The runs of a cell, and the metric where `key` is each of the places."""

    def text(value: float) -> str:
        return percent(value) if metric in PERCENT else f"{value:.4g}"

    def count(cell: str) -> dict[str, int]:
        return {"n": rows.loc[rows["cell"] == cell, "trial_id"].nunique()}

    def measure(cell: str, place: Any) -> dict[str, float]:
        at = rows[(rows["cell"] == cell) & (rows[key] == place)]
        runs = at.groupby(["trial_id", *SEEDS], as_index=False)["value"].mean()
        found = statistics.summarize(runs["value"].to_numpy(), runs[SEEDS].to_numpy())
        return dict(zip(_names(place), itemgetter("median", "low", "high")(found), strict=True))

    yield Column(head=TableCell("runs"), measure=count, show=lambda row: TableCell(str(row["n"])))
    for place, head in heads.items():
        shown = partial(show_interval, names=_names(place), text=text)
        yield Column(head=head, measure=partial(measure, place=place), show=shown)


def _names(place: Any) -> list[str]:
    return [f"{name}_{place}" for name in ("at", "low", "high")]
