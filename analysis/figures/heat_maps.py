"""Heat maps of exact match: cells by lengths, where curves of many cells would cover each other;
and over two lengths, for tasks whose examples have two.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.figures.shared.labels import add_small_print, length_label, size_names
from analysis.figures.shared.marks import describe_counts
from analysis.load import Results
from analysis.statistics import runs as statistics
from analysis.tables.notes import NEAR
from analysis.tables.sweep_tables import ablation_table

LETTER, BESIDE = 0.058, 0.2  # inches: width of a letter of a label; of margins beside a map
NUMBER, WORD = 0.185, 0.3  # inches: width of a square into which "100" fits, and "train" below it
PERFECT_FROM = 0.995  # from where a fraction would round to 100 %
MOST_COLUMNS = {1: 24, 2: 13, 3: 8}  # up to which every number and tick fits, by maps in a row


def has_second_lengths(results: Results) -> bool:
    """Whether examples were tested at several second lengths."""
    seconds = results.evaluation.groupby("length")["second_length"].nunique()
    return bool((seconds > 1).any())


def plot_heat_map(results: Results) -> Figure:
    """Median exact match (%) over runs at every length and second length, a panel per cell.

    The trained region is outlined. Raises ValueError if there are no second lengths.
    """
    if not has_second_lengths(results):
        raise ValueError(f"sweep {results.sweep!r} was not tested at several second lengths")
    rows = results.evaluation.dropna(subset=["second_length"])
    cells = [cell for cell in results.cells if (rows["cell"] == cell).any()]
    lengths, seconds = (sorted(rows[name].unique()) for name in ("length", "second_length"))
    first, second = size_names(results)
    medians = rows.groupby(["cell", "length", "second_length"])["exact_match"].median()
    across = min(3, len(cells))
    down = -(-len(cells) // across)
    numbers = len(lengths) <= MOST_COLUMNS[across]
    with style.apply():
        width = style.WIDTH * 0.86 / across
        height = np.clip(width * len(seconds) / len(lengths), 0.9, 3.6) + 0.35
        figure, panels = style.new_panels(float(height), down, across)
        style.set_padding(figure, h_pad=0.05)
        mesh = None
        for i, cell in enumerate(cells):
            values, trained = _squares(rows[rows["cell"] == cell], lengths, seconds)
            mesh = draw_map(panels[i], values, numbers)
            _outline(panels[i], trained)
            panels[i].set_title(cell, fontsize=7.5, loc="left")
            is_left, is_bottom = i % across == 0, i + across >= len(cells)
            _set_ticks(panels[i].set_xticks, lengths, MOST_COLUMNS[across], is_bottom)
            _set_ticks(panels[i].set_yticks, seconds, 8, is_left)
            panels[i].set_ylabel(second if is_left else "")
            panels[i].set_xlabel(first if is_bottom else "")
        for axes in panels[len(cells) :]:
            axes.remove()
        assert mesh is not None  # a sweep has cells
        bar = figure.colorbar(
            mesh, ax=panels[: len(cells)], label="exact match (%)", aspect=30, pad=0.015
        )
        bar.outline.set_visible(False)
        counts = describe_counts(rows.groupby("cell")["trial_id"].nunique())
        text = "median over runs of exact match in %; outlined: trained; grey: not tested"
        text += explain_percents(medians) if numbers else ""
        add_small_print(figure, results, f"{text}; {counts}; checkpoint: {results.checkpoint}")
    return figure


def plot_cells(results: Results) -> Figure:
    """Median exact match (%) over runs, a row per cell and a column per length beyond the trained
    ones, the best cells on top; the first column is the train EM of the table.

    Lengths of the near range, which are no results, are left out where not all numbers would fit.
    Raises ValueError if nothing beyond the trained lengths was tested.
    """
    rows = results.evaluation[results.evaluation["range"] != "train"]
    if rows.empty:
        raise ValueError(f"sweep {results.sweep!r} was not tested beyond its trained lengths")
    width = style.WIDTH - BESIDE - LETTER * rows["cell"].str.len().max()
    if width < NUMBER * (1 + rows["length"].nunique()) and (rows["range"] == "test").any():
        rows = rows[rows["range"] == "test"]
    curves = statistics.cell_curves(rows)
    values = curves.pivot_table(index="cell", columns="length", values="median")
    mean, train = values.mean(axis="columns"), ablation_table(results).numbers
    values.insert(0, "train", train.set_index("cell")["train_median"])
    order = values.assign(mean=mean).sort_values(["mean", "train"], kind="stable").index
    values, near = values.loc[order], set(rows.loc[rows["range"] == "near", "length"])
    square = width / len(values.columns)
    names = [f"{name}{NEAR if name in near else ''}" for name in values.columns]
    with style.apply():
        figure, (axes,) = style.new_panels(0.6 + 0.19 * len(values), 1, 1)
        mesh = draw_map(axes, values.to_numpy(dtype=float), square >= NUMBER)
        axes.axvline(0.5, label="_train", color="white", linewidth=3)
        axes.set_yticks(range(len(values)), list(values.index))
        shown = range(0, len(names), math.ceil(NUMBER / square))
        axes.set_xticks(shown, [names[i] for i in shown], rotation=0 if square > WORD else 60)
        axes.set_xlabel(length_label(results))
        if square < NUMBER:
            bar = figure.colorbar(mesh, ax=axes, label="exact match (%)", aspect=30, pad=0.015)
            bar.outline.set_visible(False)
        text = "median over runs of exact match in %, sorted by the mean over lengths"
        text += explain_percents(values) if square >= NUMBER else ""
        text += "; train: all trained lengths"
        text += f"; {NEAR}: near range, on which recipes are tuned" if near else ""
        text += "; grey: not tested" if values.isna().any(axis=None) else ""
        text += f"; {describe_counts(curves['n'])}; checkpoint: {results.checkpoint}"
        add_small_print(figure, results, text)
    return figure


def draw_map(axes: Axes, values: np.ndarray, is_printed: bool = True) -> QuadMesh:
    """Fractions as squares, the first row at the bottom, with whole percents in black or white."""
    axes.set_facecolor(style.FAINT)
    edges = (np.arange(size + 1) - 0.5 for size in reversed(values.shape))
    squares = np.ma.masked_invalid(100 * values)
    look: dict[str, Any] = {"edgecolors": "white", "linewidth": 0.4}
    mesh = axes.pcolormesh(*edges, squares, cmap=style.MAP, vmin=0, vmax=100, **look)
    for edge in axes.spines.values():
        edge.set_visible(False)
    axes.tick_params(length=0)
    for (row, column), value in np.ndenumerate(values):
        if is_printed and not np.isnan(value):
            inside: dict[str, Any] = {"ha": "center", "va": "center_baseline", "fontsize": 6.5}
            axes.text(column, row, whole_percent(value), color=style.ink_on(value), **inside)
    return mesh


def explain_percents(fractions: pd.Series | pd.DataFrame) -> str:
    """What 99 stands for, if a square shows it for what would round to 100; else nothing."""
    values = fractions.to_numpy(dtype=float)
    is_cut = ((values >= PERFECT_FROM) & (values < 1)).any()
    return "; 99: up to 99.99, so that 100 is every answer right" if is_cut else ""


def whole_percent(fraction: float) -> str:
    """0.987 as "99"; only 1 is 100 and only 0 is 0."""
    if np.isnan(fraction):
        return ""
    if 0 < fraction < 1:
        return "<1" if fraction < 0.005 else f"{min(round(100 * fraction), 99)}"
    return f"{100 * fraction:.0f}"


def _squares(
    rows: pd.DataFrame, lengths: list[int], seconds: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Median exact match and whether it was trained, by second length (rows) and length."""
    keys = ["second_length", "length"]
    median = rows.groupby(keys)["exact_match"].median().unstack()
    trained = rows.assign(inside=rows["range"] == "train").groupby(keys)["inside"].any().unstack()
    inside = trained.reindex(index=seconds, columns=lengths).eq(True).to_numpy(dtype=bool)
    return median.reindex(index=seconds, columns=lengths).to_numpy(dtype=float), inside


def _outline(axes: Axes, inside: np.ndarray) -> None:
    """A line around the squares inside, dark on light and light on dark."""
    halo = [patheffects.withStroke(linewidth=2.6, foreground="white")]
    look: dict[str, Any] = {
        "color": "black",
        "linewidth": 1.1,
        "path_effects": halo,
        "clip_on": False,
        "zorder": 4,
    }
    padded = np.pad(inside, 1)
    x: list[float] = []
    y: list[float] = []
    for row, column in np.argwhere(padded[:, :-1] != padded[:, 1:]):
        x += [column - 0.5, column - 0.5, np.nan]
        y += [row - 1.5, row - 0.5, np.nan]
    for row, column in np.argwhere(padded[:-1] != padded[1:]):
        x += [column - 1.5, column - 0.5, np.nan]
        y += [row - 0.5, row - 0.5, np.nan]
    axes.plot(x, y, label="_trained", solid_capstyle="projecting", **look)


def _set_ticks(put: Callable[..., object], values: list[int], most: int, is_labelled: bool) -> None:
    """As many of the values as fit, at their squares."""
    shown = range(0, len(values), -(-len(values) // most))
    put(shown, [str(values[i]) if is_labelled else "" for i in shown])
