"""Chooses the figures of a sweep, those in which its rows show something, and writes captions."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from analysis.figures import bars, curves, maps, style
from analysis.figures.captions import size_names
from analysis.figures.looks import find_facets
from analysis.load import Results
from analysis.statistics.runs import has_second_lengths
from analysis.tables.sweep_tables import choose_lengths

MOST_CURVES = 8  # of cells in one panel; more are a map of cells by lengths, without losses
MOST_PANELS = 12  # of curves; more are such a map too


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepFigure:
    """A figure that can be drawn."""

    name: str  # of its files, without the extension
    caption: str  # a sentence for the page; the marks are explained in the figure
    draw: Callable[[], Figure]


def choose_figures(results: Results) -> Iterator[SweepFigure]:
    """All figures in which the rows of a sweep show something."""
    for name, caption, plot in _choose(results):
        yield SweepFigure(name=name, caption=caption, draw=partial(plot, results))


def _choose(results: Results) -> Iterator[tuple[str, str, Callable[[Results], Figure]]]:
    facets = find_facets(results)
    are_many = len(facets.values[0]) > MOST_PANELS if facets else len(results.cells) > MOST_CURVES
    has_map = has_second_lengths(results.evaluation)  # of which a curve shows the worst alone
    if len(results.evaluation):
        per = "a line per cell" if facets is None else f"a panel per {facets.names[0]}"
        if are_many and (results.evaluation["range"] != "train").any():
            yield (
                "cells",
                "Median exact match of every cell at each tested length.",
                maps.plot_cells,
            )
        elif not has_map:
            yield "lengths", f"Exact match against length, {per}.", curves.plot_lengths
        if facets and choose_lengths(results).solve is not None:
            over = f"Exact match beyond the trained lengths over {', '.join(facets.names)}."
            yield "grid", over, partial(maps.plot_grid, facets=facets)
        if has_map:
            sizes = " and ".join(size_names(results))
            yield "map", f"Exact match over {sizes}, a panel per cell.", maps.plot_second_lengths
    if bars.has_failures(results):
        yield "failures", "How and why answers fail beyond the trained lengths.", bars.plot_failures
    if bars.has_patterns(results):
        yield "patterns", "Attention on the keys of the theorem.", bars.plot_patterns
    if curves.has_losses(results) and not are_many:
        yield "losses", "Training loss against step.", curves.plot_losses


def draw_files(results: Results, folder: Path, before: str = "") -> Iterator[Path]:
    """Draw and write every figure of a sweep, one at a time. before: of the names of its files."""
    for chosen in choose_figures(results):
        yield from style.save(chosen.draw(), folder / f"{before}{chosen.name}")
