"""Figures of why models fail, and how well their heads match the theorem's patterns."""

import math
from collections.abc import Container
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.figures.looks import cell_looks
from analysis.figures.shared.labels import add_small_print
from analysis.figures.shared.marks import EDGE, describe_counts
from analysis.load import Results
from analysis.statistics.mechanism import cause_strengths, pattern_masses
from analysis.statistics.runs import run_curves

KINDS = {  # column of the counts: label, colour, hatch (for print in grey)
    "num_wrong_symbol": ("wrong symbol", style.COLORS[1], ""),
    "num_early_stop": ("stops too early", style.COLORS[4], "////"),
    "num_missed_stop": ("does not stop", style.COLORS[6], "...."),
}
ROW = 0.2  # inches of height of a cell
MOST_NAMED = 3  # causes of a cell
LEAST_FAILED = 0.01  # share of failures from which a bar can be seen
MOST_WRITTEN = 2.0  # per cent up to which it is also written, as its bar is hardly there
LEAST_NAMED = 0.005  # strength of one: it prints as 1 %


def plot_failures(results: Results) -> Figure:
    """Test examples (%) by kind of failure, a bar per cell; where finished models were analysed and
    causes found, the strongest ones beside it.
    """
    evaluation, ran = results.evaluation, _tested(results)
    cells = [cell for cell in results.cells if (ran["cell"] == cell).any()]
    strengths = cause_strengths(results).set_index("cell")
    has_causes = bool((strengths >= LEAST_NAMED).any(axis=None))
    with style.apply():
        height = (0.75 if has_causes else 0.6) + ROW * len(cells)
        figure, axes = style.new_figure(height, [label for label, _, _ in KINDS.values()])
        _draw_bars(axes, ran, cells)
        text = "bars: all runs and lengths of the test range, diverged runs left out"
        if has_causes:
            analysed = set(results.mechanism["cell"])
            named = [_name_causes(cell, strengths, analysed) for cell in cells]
            _write_beside(axes, named)
            text += (
                f"; causes: at most {MOST_NAMED}, with their strength in %: the share of the "
                "variance of right and wrong that the cause explains, times the share of failures "
                "that it is about (start of counting: change of exact match at the starts of "
                "training)"
            )
        figure.legend(loc="outside upper left", ncols=len(KINDS), borderaxespad=0.2)
        counts = describe_counts(evaluation.groupby("cell")["trial_id"].nunique())
        add_small_print(figure, results, f"{text}; {counts}; checkpoint: {results.checkpoint}")
    return figure


def has_failures(results: Results) -> bool:
    """Whether the answers of any cell fail often enough for a bar to be seen."""
    return bool((_pool(_tested(results))[list(KINDS)].sum(axis="columns") >= LEAST_FAILED).any())


def _tested(results: Results) -> pd.DataFrame:
    """The test range of finished runs."""
    rows = results.evaluation
    return rows[(rows["range"] == "test") & (rows["status"] == "ok")]


def plot_patterns(results: Results) -> Figure:
    """Exact match (%) at the longest common test length against how far the heads show both
    patterns of the theorem at the longest trained one; a mark per run.

    Raises ValueError if no run with coupled IDs was analysed.
    """
    masses = pattern_masses(results)
    if masses.empty:
        raise ValueError(f"no run with coupled IDs was analysed in sweep {results.sweep!r}")
    evaluation = results.evaluation
    runs = run_curves(evaluation[evaluation["range"] == "test"])
    runs = runs[runs["trial_id"].isin(masses["trial_id"])]
    length = int(runs.groupby("trial_id")["length"].max().min())
    joined = masses.merge(
        runs.loc[runs["length"] == length, ["cell", "trial_id", "exact_match"]],
        on=["cell", "trial_id"],
    )
    cells = [cell for cell in results.cells if (joined["cell"] == cell).any()]
    with style.apply():
        figure, axes = style.new_figure(2.4, cells)
        handles, styles = [], cell_looks(results)
        for cell in cells:
            rows = joined[joined["cell"] == cell]
            (line,) = axes.plot(
                100 * rows["pattern"],
                100 * rows["exact_match"],
                label=cell,
                linestyle="none",
                marker=styles[cell].marker,
                color=styles[cell].color,
                alpha=0.85,
                **EDGE,
            )
            handles.append(line)
        first = 20 * math.floor(5 * min(joined["pattern"].min(), 0.8))
        beside = 0.03 * (100 - first)
        axes.set(xlim=(first - beside, 100 + beside), ylim=(-3, 106), yticks=range(0, 101, 20))
        axes.set_xlabel("attention on the keys of the theorem (% of the most possible)")
        axes.set_ylabel(f"exact match at {length} (%)")
        counts = describe_counts(joined.groupby("cell")["trial_id"].nunique())
        text = (
            "a mark per run; of the patterns next and same the weaker one, in the head that shows "
            "it best, without BOS, at the longest trained length"
        )
        add_small_print(figure, results, f"{text}; {counts}; checkpoint: {results.checkpoint}")
        style.add_legend(figure, handles)
    return figure


def _draw_bars(axes: Axes, rows: pd.DataFrame, cells: list[str]) -> None:
    """A bar per cell, stacked by kind of failure, pooled over runs and lengths."""
    positions, left = np.arange(len(cells)), np.zeros(len(cells))
    pooled = _pool(rows).reindex(cells)
    for name, (label, color, hatch) in KINDS.items():
        width = 100 * pooled[name].to_numpy(dtype=float)
        axes.barh(
            positions, width, 0.72, left, label=label, color=color, hatch=hatch, edgecolor="white"
        )
        left += width
    for row, total in enumerate(left):
        if total < MOST_WRITTEN:
            text = "0" if total == 0 else "<0.1" if total < 0.1 else f"{total:.1f}"
            look: dict[str, Any] = {"va": "center_baseline", "fontsize": 6.5, "color": style.GREY}
            axes.text(total, row, f" {text}", **look)
    axes.set(xlim=(0, 100), ylim=(len(cells) - 0.5, -0.5))
    axes.set_yticks(positions, cells)
    axes.set_xlabel("failed test examples (%)")


def _pool(rows: pd.DataFrame) -> pd.DataFrame:
    """The share of every kind of failure by cell, over its runs and lengths."""
    sums = rows.groupby("cell")[[*KINDS, "num_examples"]].sum()
    return sums[list(KINDS)].div(sums["num_examples"], axis="index")


def _name_causes(cell: str, strengths: pd.DataFrame, analysed: Container[str]) -> str:
    """The causes of the failures of a cell, the strongest first, or why there are none."""
    if cell not in strengths.index:
        return "no failures" if cell in analysed else "not analysed"
    found = strengths.T[cell].sort_values(ascending=False, kind="stable")
    found = found[found >= LEAST_NAMED]
    named = [f"{cause} {100 * value:.0f}" for cause, value in found.head(MOST_NAMED).items()]
    return ", ".join(named) or "none found"


def _write_beside(axes: Axes, named: list[str]) -> None:
    """The causes at the right of the bars, under a head. They are few, so that a matrix of cells by
    causes would be blank.
    """
    beside: dict[str, Any] = {"xytext": (6, 0), "textcoords": "offset points", "fontsize": 6.5}
    head: dict[str, Any] = {"color": style.GREY, "va": "bottom", "annotation_clip": False}
    axes.annotate("causes (strength in %)", (100, -0.6), **head, **beside)
    for row, text in enumerate(named):
        color = "black" if text[-1].isdigit() else style.GREY
        axes.annotate(text, (100, row), color=color, va="center_baseline", **beside)
