"""Chooses the figures of a sweep, and writes their captions."""

from collections.abc import Iterator
from dataclasses import dataclass

from matplotlib.figure import Figure

from analysis.figures import heat_maps
from analysis.figures.axis import plot_axis
from analysis.figures.facets import find_facets, plot_facets, plot_maps
from analysis.figures.lengths import has_curves, plot_lengths, plot_losses
from analysis.figures.looks import find_axis
from analysis.figures.mechanism import has_failures, plot_failures, plot_patterns
from analysis.figures.shared.labels import size_names
from analysis.load import Results
from analysis.statistics.mechanism import pattern_masses
from analysis.tables.sweep_tables import choose_lengths

MOST_CURVES = 8  # of cells in a panel; where there are more, a heat map has them all too


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepFigure:
    """A figure that has been drawn, not yet saved."""

    name: str  # of its files, without the extension
    caption: str  # a sentence for the page; the marks are explained in the figure
    figure: Figure


def draw_figures(results: Results) -> Iterator[SweepFigure]:
    """All figures in which the rows of a sweep show something, drawn one at a time."""
    policy = f"Checkpoint: {results.checkpoint}."
    if len(results.evaluation):
        facets = find_facets(results)
        if facets is None:
            caption = f"Exact match against length, a line per cell. {policy}"
            yield SweepFigure(name="lengths", caption=caption, figure=plot_lengths(results))
        else:
            caption = f"Exact match against length, a panel per {facets.names[0]}. {policy}"
            figure = plot_facets(results, facets)
            yield SweepFigure(name="lengths", caption=caption, figure=figure)
        num_curves = len(facets.lines(facets.values[0][0]) if facets else results.cells)
        if num_curves > MOST_CURVES and (results.evaluation["range"] != "train").any():
            caption = f"Exact match of every cell at every length. {policy}"
            yield SweepFigure(name="cells", caption=caption, figure=heat_maps.plot_cells(results))
        yield from _draw_axes(results, policy)
        if heat_maps.has_second_lengths(results):
            first, second = size_names(results)
            caption = f"Exact match over {first} and {second}, a panel per cell. {policy}"
            figure = heat_maps.plot_heat_map(results)
            yield SweepFigure(name="map", caption=caption, figure=figure)
    yield from _draw_mechanism(results, policy)
    if has_curves(results):
        caption = "Training loss against step, a line per cell."
        yield SweepFigure(name="losses", caption=caption, figure=plot_losses(results))


def _draw_axes(results: Results, policy: str) -> Iterator[SweepFigure]:
    if axis := find_axis(results):
        caption = f"Exact match and generalizable length (L95) against {axis.label}. {policy}"
        yield SweepFigure(name="axis", caption=caption, figure=plot_axis(results))
    facets = find_facets(results)
    if facets and choose_lengths(results).solve is not None:
        caption = f"Exact match beyond the trained lengths over {', '.join(facets.names)}. "
        caption += policy
        yield SweepFigure(name="grid", caption=caption, figure=plot_maps(results, facets))


def _draw_mechanism(results: Results, policy: str) -> Iterator[SweepFigure]:
    """Why models fail, and how far their heads show the patterns of the theorem."""
    if has_failures(results):
        caption = f"How and why answers fail beyond the trained lengths. {policy}"
        yield SweepFigure(name="failures", caption=caption, figure=plot_failures(results))
    if pattern_masses(results)["cell"].nunique() > 1:  # of one cell: nothing to compare
        caption = f"Exact match against attention on the keys of the theorem. {policy}"
        yield SweepFigure(name="patterns", caption=caption, figure=plot_patterns(results))
