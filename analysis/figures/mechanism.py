"""Figures of why models fail, and how well their heads match the theorem's patterns."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.figures.heat_maps import draw_map, whole_percent
from analysis.figures.shared.cell_styles import cell_styles
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


def plot_failures(results: Results) -> Figure:
    """Left: test examples (%) by kind of failure, a bar per cell. Right, where finished models were
    analysed: how strongly each possible cause goes with right and wrong.
    """
    evaluation = results.evaluation
    ran = evaluation[(evaluation["range"] == "test") & (evaluation["status"] == "ok")]
    cells = [cell for cell in results.cells if (ran["cell"] == cell).any()]
    strengths = cause_strengths(results).set_index("cell")
    was_analysed = len(strengths) > 0 and len(strengths.columns) > 0
    with style.apply():
        height = (1.45 if was_analysed else 0.6) + ROW * len(cells)
        figure, panels = style.new_panels(height, 1, 2 if was_analysed else 1, len(KINDS), 20)
        _draw_bars(panels[0], ran, cells)
        text = "bars: all runs and lengths of the test range, diverged runs left out"
        if was_analysed:
            values = strengths.reindex(cells)
            mesh = _draw_strengths(panels[1], values)
            panels[1].set_xticks(range(len(values.columns)), list(values.columns), rotation=90)
            panels[1].set_yticks(range(len(cells)), [""] * len(cells))
            panels[1].set_ylim(len(cells) - 0.5, -0.5)
            bar = figure.colorbar(mesh, ax=panels[1], label="strength (%)", aspect=20, pad=0.02)
            bar.outline.set_visible(False)
            text += (
                "; strength: share of the variance of right and wrong that the cause explains, "
                "times the share of failures that it is about (start of counting: change of exact "
                "match at the starts of training); grey: no failures, or not analysed"
            )
        figure.legend(loc="outside upper left", ncols=len(KINDS), borderaxespad=0.2)
        counts = describe_counts(evaluation.groupby("cell")["trial_id"].nunique())
        style.add_caption(figure, f"{text}; {counts}; checkpoint: {results.checkpoint}")
    return figure


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
        figure, axes = style.new_figure(2.4, len(cells), max(map(len, cells), default=1))
        handles, styles = [], cell_styles(results)
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
        axes.set(xlim=(-3, 103), ylim=(-3, 106), yticks=range(0, 101, 20))
        axes.set_xlabel("attention on the keys of the theorem (% of the most possible)")
        axes.set_ylabel(f"exact match at {length} (%)")
        counts = describe_counts(joined.groupby("cell")["trial_id"].nunique())
        text = (
            "a mark per run; of the patterns next and same the weaker one, in the head that shows "
            "it best, without BOS, at the longest trained length"
        )
        style.add_caption(figure, f"{text}; {counts}; checkpoint: {results.checkpoint}")
        style.add_legend(figure, handles)
    return figure


def _draw_bars(axes: Axes, rows: pd.DataFrame, cells: list[str]) -> None:
    """A bar per cell, stacked by kind of failure, pooled over runs and lengths."""
    positions, left = np.arange(len(cells)), np.zeros(len(cells))
    pooled = rows.groupby("cell")[[*KINDS, "num_examples"]].sum().reindex(cells)
    for name, (label, color, hatch) in KINDS.items():
        width = 100 * (pooled[name] / pooled["num_examples"]).to_numpy(dtype=float)
        axes.barh(
            positions, width, 0.72, left, label=label, color=color, hatch=hatch, edgecolor="white"
        )
        left += width
    axes.set(xlim=(0, 100), ylim=(len(cells) - 0.5, -0.5))
    axes.set_yticks(positions, cells)
    axes.set_xlabel("failed test examples (%)")


def _draw_strengths(axes: Axes, values: pd.DataFrame) -> QuadMesh:
    """Strengths from white (0) to dark (1), the first cell on top; percentages except for 0."""
    strengths = values.to_numpy(dtype=float)
    texts = np.where(strengths > 0, np.vectorize(whole_percent)(strengths), "")
    return draw_map(axes, strengths, texts, cmap=style.WEIGHTS, lines=style.FAINT)
