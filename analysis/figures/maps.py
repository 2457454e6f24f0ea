"""Figures of maps: median exact match as coloured squares. Cells by lengths, where curves of many
cells would cover each other; over the axes of a sweep; over two lengths, for tasks that have two.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from analysis.figures import style
from analysis.figures.captions import (
    add_small_print,
    describe_counts,
    describe_factor,
    describe_seconds,
    length_label,
    size_names,
)
from analysis.figures.looks import ACROSS, Facets, say
from analysis.load import Results
from analysis.statistics.cells import cells_of
from analysis.tables.notes import NEAR
from analysis.tables.sweep_tables import choose_lengths
from pcore.cli.text import plain

LETTER, BESIDE = 0.058, 0.2  # inches: width of a letter of a label; of margins beside a map
NUMBER, WORD = 0.19, 0.3  # inches: width of a square into which "99.8" fits, and "train" below it
MOST_COLUMNS = {1: 24, 2: 13, 3: 8}  # up to which every number and tick fits, by maps in a row
MOST_TICKS = 12  # of a map over two lengths
TICK_LETTERS = 60  # that fit below a map of the whole width


def plot_cells(results: Results) -> Figure:
    """Exact match of every cell at every length beyond the trained ones, those that reach furthest
    on top (by the sum over lengths); the first column is the train EM of the table.

    Lengths of the near range, which are no results, are left out where not all numbers would fit.
    """
    every = results.evaluation[["cell", "length", "range"]].drop_duplicates()
    rows = every[every["range"] != "train"]
    width = style.WIDTH - BESIDE - LETTER * rows["cell"].str.len().max()
    if width < NUMBER * (1 + rows["length"].nunique()) and (rows["range"] == "test").any():
        rows = rows[rows["range"] == "test"]
    cells, places = cells_of(results), rows.drop(columns="range").drop_duplicates()
    curves = cells.curves.merge(places, on=["cell", "length"])
    values = curves.pivot_table(index="cell", columns="length", values="median")
    train = cells.train["median"]
    ranks = values.assign(sum=values.sum(axis=1), train=train)
    order = ranks.sort_values(["sum", "train"], ascending=False, kind="stable").index
    values.insert(0, "train", train)
    near = set(rows.loc[rows["range"] == "near", "length"])
    square = width / len(values.columns)
    values.columns = [f"{name}{NEAR if name in near else ''}" for name in values.columns]
    notes = ["median over runs of exact match in %, sorted by the sum over lengths"]
    notes += ["train: all trained lengths"]
    of_some = every.loc[every["length"].isin(near), "range"].nunique() > 1
    whose = " of some cells" if of_some else ""
    notes += [f"{NEAR}: near range{whose}, on which recipes are tuned"] if near else []
    notes += [describe_seconds(results), describe_factor(results), describe_counts(curves["n"])]
    with style.apply():
        names = (length_label(results), "")
        height, apart = 0.6 + 0.19 * len(values), (math.ceil(NUMBER / square), 1)
        figure = _draw_maps(
            results, {"": values.loc[order]}, names, height, square >= NUMBER, notes, apart
        )
        axes = figure.axes[0]
        axes.axvline(1, label="_train", color="white", linewidth=3)
        axes.tick_params("x", rotation=0 if square > WORD else 60)
    return figure


def plot_grid(results: Results, facets: Facets) -> Figure:
    """Exact match at the length near 2x over the axes of a sweep: one map of two axes, or of more a
    map per value of the first.
    """
    shown = choose_lengths(results)
    assert shown.solve is not None
    curves = cells_of(results).curves
    at = curves[curves["length"] == shown.solve[0]].set_index("cell")["median"]
    first = facets.names[0]
    firsts = facets.values[0] if len(facets.names) > 2 else ()
    maps = {say(first, value): _grid_map(facets, at, (value,)) for value in firsts}
    maps = maps or {"": _grid_map(facets, at, ())}
    grid = next(iter(maps.values()))
    is_long = min(ACROSS, len(maps)) * sum(map(len, grid.columns)) > TICK_LETTERS
    notes = [f"median over runs of exact match (%) at length {shown.label(shown.solve)}"]
    notes += [f"not on these axes: {facets.reference}"] if facets.reference else []
    notes += [describe_seconds(results), describe_counts(curves["n"])]
    names = list(facets.names)[1 if firsts else 0 :]
    with style.apply():
        height = 0.65 + 0.3 * len(grid) + 0.55 * is_long
        labels = (", ".join(names[1:]), names[0])
        figure = _draw_maps(results, maps, labels, height, True, notes)
        for tick in (t for axes in figure.axes * is_long for t in axes.get_xticklabels()):
            tick.set(rotation=30, ha="right", rotation_mode="anchor")
    return figure


def _grid_map(facets: Facets, at: pd.Series, panel: tuple[Any, ...]) -> pd.DataFrame:
    """The values of one map; numbers grow upwards, words are read from the top."""
    rows, *others = facets.values[len(panel) :]
    rows = rows if any(isinstance(row, str) for row in rows) else rows[::-1]
    columns = list(itertools.product(*others))
    cells = [[facets.cells.get((*panel, row, *c), "") for c in columns] for row in rows]
    names = [", ".join(map(str, column)) for column in columns]
    values = [[at.get(cell, np.nan) for cell in line] for line in cells]
    return pd.DataFrame(values, index=list(map(str, rows)), columns=names)


def plot_second_lengths(results: Results) -> Figure:
    """Exact match at every length and second length, a panel per cell; the trained region is
    outlined."""
    rows = results.evaluation.dropna(subset=["second_length"])
    lengths, seconds = (sorted(rows[name].unique()) for name in ("length", "second_length"))
    pairs = cells_of(results).pairs
    medians = pairs.pivot(index=["cell", "second_length"], columns="length", values="median")
    cells = [cell for cell in results.cells if (rows["cell"] == cell).any()]
    by_cell = {cell: pd.DataFrame(medians.loc[cell]) for cell in cells}
    maps = {c: m.reindex(index=seconds[::-1], columns=lengths) for c, m in by_cell.items()}
    across = min(ACROSS, len(cells))
    height = np.clip(style.panel_width(across) * len(seconds) / len(lengths), 0.9, 3.6) + 0.55
    counts = describe_counts(rows.groupby("cell")["trial_id"].nunique())
    notes = ["median over runs of exact match in %", "outlined: trained", counts]
    apart = (-(-len(lengths) // MOST_TICKS), -(-len(seconds) // MOST_TICKS))
    with style.apply():
        is_printed = len(lengths) <= MOST_COLUMNS[across]
        names = size_names(results)
        figure = _draw_maps(results, maps, names, float(height), is_printed, notes, apart)
        for axes, cell in zip(figure.axes, cells, strict=False):
            axes.tick_params("x", labelsize=6)  # "10" beside "12"
            trained = rows[(rows["cell"] == cell) & (rows["range"] == "train")]
            _outline(axes, trained, lengths, seconds[::-1])
    return figure


def _draw_maps(
    results: Results,
    maps: Mapping[str, pd.DataFrame],
    names: tuple[str, str],
    height: float,
    is_printed: bool,
    notes: Sequence[str],
    apart: tuple[int, int] = (1, 1),
) -> Figure:
    """A map of fractions for each title. names: of the outer axes, x and y; is_printed: numbers fit
    into the squares, and no bar has to explain the colours; notes: the counts last; apart: every
    how many columns and rows one is named."""
    across = min(ACROSS, len(maps))
    figure, panels = style.new_panels(height, len(maps), across)
    for axes, fractions in zip(panels, maps.values(), strict=True):
        values = 100 * fractions.astype(float)
        printed: Any = fractions.map(percent_text).to_numpy() if is_printed else None
        look: dict[str, Any] = {"annot": printed, "fmt": "", "annot_kws": {"fontsize": 5.8}}
        style.draw_squares(axes, values, style.MAP, 100, linewidths=0.4, **look)
        ticks = (axes.set_xticks, values.columns), (axes.set_yticks, values.index)
        for (put, labels), gap in zip(ticks, apart, strict=True):
            places = range(0, len(labels), gap)
            put([place + 0.5 for place in places], [plain(str(labels[i])) for i in places])
    style.label_panels(panels, across, maps, *names)
    if not is_printed:
        style.add_bar(figure, panels, "exact match (%)")
    gaps = ["grey: not tested"] * any(m.isna().any(axis=None) for m in maps.values())
    add_small_print(figure, results, [*notes[:-1], *gaps, notes[-1]])
    return figure


def percent_text(fraction: float) -> str:
    """0.987 as "99", as short as it may be: a decimal where "100" would be the nearest, as in the
    table, so that only 1 is 100 and only 0 is 0.
    """
    if np.isnan(fraction) or not 0 < fraction < 1:
        return "" if np.isnan(fraction) else f"{100 * fraction:.0f}"
    if fraction < 0.005:
        return "<1"
    return f"{min(100 * fraction, 99.9):.1f}" if fraction >= 0.99 else f"{100 * fraction:.0f}"


def _outline(axes: Axes, trained: pd.DataFrame, lengths: list[int], seconds: list[int]) -> None:
    """A frame around the trained lengths and second lengths."""
    x = [lengths.index(length) for length in trained["length"].unique()]
    y = [seconds.index(second) for second in trained["second_length"].unique()]
    if x and y:
        look: dict[str, Any] = {"fill": False, "label": "_trained", "clip_on": False, "zorder": 4}
        size = (max(x) - min(x) + 1, max(y) - min(y) + 1)
        for color, width in (("white", 2.6), ("black", 1.1)):
            look |= {"edgecolor": color, "linewidth": width}
            axes.add_patch(Rectangle((min(x), min(y)), *size, **look))
