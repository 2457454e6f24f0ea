"""A metric of somebody's own as a table: its median over runs at a few lengths."""

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import pandas as pd

from analysis.load import Results, metric_names, suggest, trained_ranges
from analysis.statistics.intervals import median_interval
from analysis.statistics.runs import SEEDS
from analysis.tables.sweep_tables import DASH, Table, TableCell, choose_lengths


def find_column(results: Results, metric: str) -> str:
    """The column of a metric: its name, module:function, or the function alone. Raises ValueError
    that names the nearest, or the command that measures.
    """
    known = metric_names(results.evaluation)
    found = [name for name in known if metric in (name, name.partition(":")[2])]
    if len(found) == 1:
        return found[0]
    if found:
        raise ValueError(f"metric {metric!r} may be any of: {', '.join(found)}")
    hint = suggest(metric, known) if known else "nothing was measured yet"
    command = f"python -m sweeps measure MODULE:FUNCTION {results.sweep}"
    raise ValueError(
        f"{results.sweep} [{results.scale}] has no metric {metric!r}; {hint}: {command}"
    )


def metric_table(results: Results, column: str) -> Table:
    """The values of each cell at the longest trained length and the longer ones that tables show.

    With second lengths, the mean over those tested with a length.
    """
    shown = choose_lengths(results)
    trained = {high for _, high in trained_ranges(results).values()}
    lengths = sorted(trained | set(shown.lengths))
    keys = ["cell", "trial_id", *SEEDS, "length"]
    runs = results.evaluation.groupby(keys, as_index=False, sort=False)[column].mean()
    numbers = [_measure(runs[runs["cell"] == cell], column, lengths) for cell in results.cells]
    frame = pd.DataFrame(numbers)
    frame.insert(0, "cell", results.cells)
    return Table(
        title=f"{column}: {results.name}",
        header=(
            TableCell("cell"),
            TableCell("runs"),
            *(TableCell(*shown.label(length).split(" ")) for length in lengths),
        ),
        rows=tuple(
            (TableCell(row["cell"]), TableCell(str(row["n"])), *_cells(row, lengths))
            for row in frame.to_dict("records")
        ),
        notes=(
            f"Scale: {results.scale}. Checkpoint: {results.checkpoint}.",
            f"Median over runs [interval] of the mean of {column} over the examples to which it "
            "applies. The models were decoded freely; runs whose weights are gone are not in it.",
        ),
        numbers=frame,
    )


def _measure(runs: pd.DataFrame, column: str, lengths: list[int]) -> dict[str, float | int]:
    measured = runs.dropna(subset=column)
    row: dict[str, float | int] = {"n": measured["trial_id"].nunique()}
    for length in lengths:
        at = measured[measured["length"] == length]
        low, high = median_interval(at[column].to_numpy(), at[SEEDS].to_numpy())
        row |= {f"at_{length}": at[column].median(), f"low_{length}": low, f"high_{length}": high}
    return row


def _cells(row: dict[Hashable, Any], lengths: Sequence[int]) -> Iterator[TableCell]:
    for length in lengths:
        low, high = row[f"low_{length}"], row[f"high_{length}"]
        interval = f"[{low:.4g}–{high:.4g}]" if row["n"] > 1 and not pd.isna(low) else ""
        middle = row[f"at_{length}"]
        yield TableCell(DASH if pd.isna(middle) else f"{middle:.4g}", interval)
