"""Another metric than exact match as a table: its median over runs, at lengths or over a range."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.load import Results, metric_names, suggest, trained_ranges
from analysis.statistics.intervals import median_interval
from analysis.statistics.runs import SEEDS
from analysis.tables.sweep_tables import DASH, Table, TableCell, choose_lengths, percent
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


def find_metric(results: Results, metric: str) -> str:
    """One of `COUNTED`, or the column of a metric of somebody's own: its name, module:function, or
    the function alone. Raises ValueError that names the nearest, or the command that measures.
    """
    if metric in COUNTED:
        return metric
    known = metric_names(results.evaluation)
    found = [name for name in known if metric in (name, name.partition(":")[2])]
    if len(found) == 1:
        return found[0]
    if found:
        raise ValueError(f"metric {metric!r} may be any of: {', '.join(found)}")
    hint = suggest(metric, [*known, *COUNTED])
    command = f"python -m sweeps measure MODULE:FUNCTION {results.sweep}"
    raise ValueError(
        f"{results.sweep} [{results.scale}] has no metric {metric!r}; {hint}; one of your own: "
        f"{command}"
    )


def metric_table(
    results: Results, metric: str, over: str = "", wanted: Sequence[int] = ()
) -> Table:
    """The values of each cell at the longest trained length and the longer ones that tables show,
    or at those wanted; or (over) the mean over the lengths of a range.

    With second lengths, the mean over those tested with a length.
    """
    rows = results.evaluation
    measure, meaning = COUNTED.get(metric, (None, "mean over the examples to which it applies"))
    rows = rows.assign(value=measure(rows) if measure else rows[metric])
    if over:
        rows = rows[rows["range"] == over]
        if rows.empty:
            raise ValueError(
                f"{results.sweep} [{results.scale}] has no lengths in the {over} range"
            )
        places: dict[Any, pd.Series] = {over: rows["range"] == over}
        header = [TableCell(over)]
    else:
        shown = choose_lengths(results, wanted)
        trained = set() if wanted else {high for _, high in trained_ranges(results).values()}
        places = {n: rows["length"] == n for n in sorted(trained | set(shown.lengths))}
        header = [TableCell(*shown.label(length).split(" ")) for length in places]
    numbers = pd.DataFrame([_measure(rows, cell, places) for cell in results.cells])
    own = "" if measure else " The models were decoded freely; runs whose weights are gone are out."
    return Table(
        title=f"{metric}: {results.name}",
        header=(TableCell("cell"), TableCell("runs"), *header),
        rows=tuple(
            (TableCell(row["cell"]), TableCell(str(row["n"])), *_cells(row, places, metric))
            for row in numbers.to_dict("records")
        ),
        notes=(
            f"Scale: {results.scale}. Checkpoint: {results.checkpoint}.",
            f"{metric}: {meaning}. Median over runs [interval]"
            f"{' of their means over the lengths of the range' if over else ''}.{own}",
        ),
        numbers=numbers,
    )


def _measure(
    rows: pd.DataFrame, cell: str, places: Mapping[Any, pd.Series]
) -> dict[str, float | int | str]:
    of_cell = (rows["cell"] == cell) & rows["value"].notna()
    found: dict[str, float | int | str] = {"cell": cell, "n": rows[of_cell]["trial_id"].nunique()}
    for place, chosen in places.items():
        at = rows[of_cell & chosen].groupby(["trial_id", *SEEDS], as_index=False)["value"].mean()
        low, high = median_interval(at["value"].to_numpy(), at[SEEDS].to_numpy())
        found |= {f"at_{place}": at["value"].median(), f"low_{place}": low, f"high_{place}": high}
    return found


def _cells(
    row: Mapping[Hashable, Any], places: Mapping[Any, pd.Series], metric: str
) -> Iterator[TableCell]:
    def show(value: float) -> str:
        return percent(value) if metric in PERCENT else f"{value:.4g}"

    for place in places:
        low, high = row[f"low_{place}"], row[f"high_{place}"]
        interval = f"[{show(low)}–{show(high)}]" if row["n"] > 1 and not pd.isna(low) else ""
        middle = row[f"at_{place}"]
        yield TableCell(DASH if pd.isna(middle) else show(middle), interval)
