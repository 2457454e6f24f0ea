"""Figures of bars: why models fail, and how well their heads match the theorem's patterns."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.figures.captions import add_small_print, describe_counts
from analysis.load import Results
from analysis.statistics.mechanism import PATTERNS, cause_strengths, pattern_masses
from analysis.tables.notes import span
from pcore.cli.text import plain

KINDS = {  # column of the counts: label, colour, hatch (for print in grey)
    "num_wrong_symbol": ("wrong symbol", style.COLORS[1], ""),
    "num_early_stop": ("stops too early", style.COLORS[4], "//"),
    "num_missed_stop": ("does not stop", style.COLORS[6], r"\\"),
}
WORDS = {"next": "the next significance", "same": "the same significance"}
ROW, CAUSES = 0.2, 0.12  # inches of height of a cell, and of the causes below its bar
MOST_NAMED = 3  # causes of a cell
LEAST_FAILED = 0.01  # share of failures from which a bar can be seen
MOST_WRITTEN = 2.0  # per cent up to which it is also written, as its bar is hardly there
LEAST_NAMED = 0.005  # strength of one: it prints as 1 %
LEAST_RUNS = 2  # of some cell: bars of one run say nothing that its table does not


def has_failures(results: Results) -> bool:
    """Whether the answers of any cell fail often enough for a bar to be seen, in several runs."""
    rows = _tested(results)
    is_seen = (_pool(rows)[list(KINDS)].sum(axis="columns") >= LEAST_FAILED).any()
    return bool(is_seen and rows.groupby("cell")["trial_id"].nunique().max() >= LEAST_RUNS)


def plot_failures(results: Results) -> Figure:
    """Test examples (%) by kind of failure, a bar per cell; below it the strongest causes, where
    finished models were analysed and any were found.
    """
    rows = _tested(results)
    cells = [cell for cell in results.cells if (rows["cell"] == cell).any()]
    causes = _name_causes(results)
    with style.apply():
        height = 0.6 + (ROW + CAUSES * bool(causes)) * len(cells)
        labels = [label for label, _, _ in KINDS.values()]
        figure, (axes,) = style.new_panels(height, labels=labels)
        thick = 0.72 * ROW / (ROW + CAUSES) if causes else 0.72
        left = _draw_bars(axes, _pool(rows).reindex(cells), thick)
        for place, (cell, total) in enumerate(zip(cells, left, strict=True)):
            small: dict[str, Any] = {"fontsize": 6, "color": style.GREY, "va": "center_baseline"}
            if total < MOST_WRITTEN:
                text = "0" if total == 0 else "<0.1" if total < 0.1 else f"{total:.1f}"
                axes.text(total, place, f" {text}", **small)
            if cell in causes:
                axes.text(0.4, place + 0.62 * thick + 0.14, causes[cell], **small)
        axes.set(xlim=(0, 100), ylim=(len(cells) - 0.3, -0.5), xlabel="failed test examples (%)")
        axes.set_yticks(range(len(cells)), list(map(plain, cells)))
        figure.legend(loc="outside upper left", ncols=len(KINDS), borderaxespad=0.2)
        notes = ["bars: all runs and lengths of the test range, diverged runs left out"]
        if causes:
            notes.append(
                f"below: up to {MOST_NAMED} causes, each with the share of the variance of right "
                "and wrong that it explains, times that of the failures it is about (%)"
            )
        notes.append(describe_counts(rows.groupby("cell")["trial_id"].nunique()))
        add_small_print(figure, results, notes)
    return figure


def has_patterns(results: Results) -> bool:
    """Whether several runs of several cells were analysed that share position IDs."""
    counts = pattern_masses(results).groupby("cell")["trial_id"].nunique()
    return len(counts) > 1 and counts.max() >= LEAST_RUNS


def plot_patterns(results: Results) -> Figure:
    """How far the heads of each cell show the two patterns of the theorem at the longest trained
    length: median over runs, worst to best.
    """
    import seaborn  # slow to import

    masses = pattern_masses(results)
    cells = [cell for cell in results.cells if (masses["cell"] == cell).any()]
    shares = masses.melt(["cell", "trial_id"], list(PATTERNS), "pattern", "share")
    colors = dict(zip(WORDS.values(), style.COLORS[:2], strict=True))
    with style.apply():
        figure, (axes,) = style.new_panels(0.6 + 0.34 * len(cells), labels=list(colors))
        seaborn.barplot(
            shares.assign(share=100 * shares["share"], pattern=shares["pattern"].map(WORDS)),
            x="share",
            y="cell",
            hue="pattern",
            order=cells,
            palette=colors,
            estimator="median",
            errorbar=("pi", 100),
            err_kws={"linewidth": 1, "color": style.GREY},
            saturation=1,
            width=0.72,
            ax=axes,
        )
        axes.legend().remove()
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=2, borderaxespad=0.2)
        axes.set_yticks(range(len(cells)), list(map(plain, cells)))
        axes.set(xlim=(0, 100), ylabel="")
        axes.set_xlabel("attention on the theorem's keys (%)")
        notes = (
            "bar: median over runs of the head that shows the pattern best; line: worst to best "
            f"run; % of the most possible, without BOS, at length "
            f"{span(masses['length'].min(), masses['length'].max())}",
            describe_counts(masses.groupby("cell")["trial_id"].nunique()),
        )
        add_small_print(figure, results, notes, has_policy=False)
    return figure


def _tested(results: Results) -> pd.DataFrame:
    """The test range of finished runs."""
    rows = results.evaluation
    return rows[(rows["range"] == "test") & (rows["status"] == "ok")]


def _pool(rows: pd.DataFrame) -> pd.DataFrame:
    """The share of every kind of failure by cell, over its runs and lengths."""
    sums = rows.groupby("cell")[[*KINDS, "num_examples"]].sum()
    return sums[list(KINDS)].div(sums["num_examples"], axis="index")


def _draw_bars(axes: Axes, pooled: pd.DataFrame, thick: float) -> np.ndarray:
    """A bar per row, stacked by kind of failure; how long each is."""
    left = np.zeros(len(pooled))
    for name, (label, color, hatch) in KINDS.items():
        width = 100 * pooled[name].to_numpy(dtype=float)
        look: dict[str, Any] = {"label": label, "color": color, "hatch": hatch}
        axes.barh(range(len(pooled)), width, thick, left, edgecolor="white", **look)
        left += width
    return left


def _name_causes(results: Results) -> dict[str, str]:
    """The strongest causes of the failures of each cell that has any."""
    named = dict[str, str]()
    for row in cause_strengths(results).to_dict("records"):
        cell = str(row.pop("cell"))
        found = sorted(row.items(), key=lambda pair: -pair[1])[:MOST_NAMED]
        parts = [f"{name} {100 * value:.0f}" for name, value in found if value >= LEAST_NAMED]
        named |= {cell: ", ".join(parts)} if parts else {}
    return named
