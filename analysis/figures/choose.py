"""Which figures a sweep has, and what stands under each."""

from collections.abc import Iterator
from dataclasses import dataclass

from matplotlib.figure import Figure

from analysis.figures import axis as axis_figures
from analysis.figures import compute as compute_figures
from analysis.figures import heat_maps
from analysis.figures import lengths as figures
from analysis.figures import mechanism as mechanism_figures
from analysis.figures.axes import find_axes
from analysis.load import COUNTED, Results, select_checkpoint
from analysis.statistics.mechanism import pattern_masses
from analysis.tables.sweep_tables import choose_lengths


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawing:
    """A figure, the stem of its files, and a sentence about it (its marks are explained inside)."""

    name: str
    caption: str
    figure: Figure


def draw_pictures(results: Results, checkpoint: str = "last") -> Iterator[Drawing]:
    """All figures that the rows of a sweep allow, one after the other."""
    policy = f"Checkpoint: {checkpoint}."
    if len(results.evaluation):
        yield Drawing(
            name="lengths",
            caption=f"Exact match against length, a line per cell. {policy}",
            figure=figures.plot_lengths(results, checkpoint),
        )
        yield from _draw_axes(results, checkpoint, policy)
        if heat_maps.has_second_lengths(results):
            first, second = heat_maps.size_names(results)
            yield Drawing(
                name="map",
                caption=f"Exact match over {first} and {second}, a panel per cell. {policy}",
                figure=heat_maps.plot_heat_map(results, checkpoint),
            )
        if compute_figures.has_costs(results):
            yield Drawing(
                name="compute",
                caption=f"Exact match against tokens, operations and seconds of training. {policy}",
                figure=compute_figures.plot_compute(results, checkpoint),
            )
    yield from _draw_mechanism(results, checkpoint, policy)
    if results.reports["status"].isin(COUNTED).any():
        yield Drawing(
            name="losses",
            caption="Training loss against step, a line per cell.",
            figure=figures.plot_losses(results),
        )


def _draw_mechanism(results: Results, checkpoint: str, policy: str) -> Iterator[Drawing]:
    """Why models fail; and what their heads look at, where the theorem has an opinion."""
    evaluation = select_checkpoint(results, checkpoint)
    if (evaluation["range"].eq("test") & evaluation["status"].eq("ok")).any():
        yield Drawing(
            name="failures",
            caption=f"How and why answers fail beyond the trained lengths. {policy}",
            figure=mechanism_figures.plot_failures(results, checkpoint),
        )
    if len(pattern_masses(results)):
        yield Drawing(
            name="patterns",
            caption=f"Exact match against attention on the keys of the theorem. {policy}",
            figure=mechanism_figures.plot_patterns(results, checkpoint),
        )


def _draw_axes(results: Results, checkpoint: str, policy: str) -> Iterator[Drawing]:
    axes = find_axes(results)
    names = " and ".join(axis.label for axis in axes)
    if len(axes) == 1:
        yield Drawing(
            name="axis",
            caption=f"Exact match and generalizable length (L95) against {names}. {policy}",
            figure=axis_figures.plot_axis(results, checkpoint),
        )
    evaluation = select_checkpoint(results, checkpoint)
    if len(axes) == 2 and choose_lengths(results, evaluation).solve is not None:
        yield Drawing(
            name="grid",
            caption=f"Exact match and generalizable length (L95) over {names}. {policy}",
            figure=axis_figures.plot_grid(results, checkpoint),
        )
