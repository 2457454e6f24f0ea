"""Chooses the figures of a sweep, those in which its rows show something, and writes captions."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from analysis.figures import bars, curves, maps, style
from analysis.figures.captions import has_second_lengths, size_names
from analysis.figures.looks import find_facets
from analysis.load import Results
from analysis.tables.sweep_tables import choose_lengths

MOST_CURVES = 8  # of cells in one panel; more are a map of cells by lengths, without losses
MOST_PANELS = 12  # of curves; with more, too


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepFigure:
    """A figure that has been drawn, not yet saved."""

    name: str  # of its files, without the extension
    caption: str  # a sentence for the page; the marks are explained in the figure
    figure: Figure


def draw_figures(results: Results) -> Iterator[SweepFigure]:
    """All figures in which the rows of a sweep show something, drawn one at a time."""
    facets = find_facets(results)
    are_many = len(facets.values[0]) > MOST_PANELS if facets else len(results.cells) > MOST_CURVES
    if len(results.evaluation):
        per = "a line per cell" if facets is None else f"a panel per {facets.names[0]}"
        beyond = (results.evaluation["range"] != "train").any()
        if are_many and beyond:
            text = "Median exact match of every cell at each tested length."
            yield SweepFigure(name="cells", caption=text, figure=maps.plot_cells(results))
        else:
            text = f"Exact match against length, {per}."
            yield SweepFigure(name="lengths", caption=text, figure=curves.plot_lengths(results))
        if facets and choose_lengths(results).solve is not None:
            text = f"Exact match beyond the trained lengths over {', '.join(facets.names)}."
            yield SweepFigure(name="grid", caption=text, figure=maps.plot_grid(results, facets))
        if has_second_lengths(results):
            first, second = size_names(results)
            text = f"Exact match over {first} and {second}, a panel per cell."
            yield SweepFigure(name="map", caption=text, figure=maps.plot_second_lengths(results))
    if bars.has_failures(results):
        text = "How and why answers fail beyond the trained lengths."
        yield SweepFigure(name="failures", caption=text, figure=bars.plot_failures(results))
    if bars.has_patterns(results):
        text = "Attention on the keys of the theorem."
        yield SweepFigure(name="patterns", caption=text, figure=bars.plot_patterns(results))
    if curves.has_losses(results) and not are_many:
        text = "Training loss against step."
        yield SweepFigure(name="losses", caption=text, figure=curves.plot_losses(results))


def draw_files(results: Results, folder: Path) -> Iterator[Path]:
    """Draw and write every figure of a sweep, one at a time."""
    for drawn in draw_figures(results):
        yield from style.save(drawn.figure, folder / drawn.name)
