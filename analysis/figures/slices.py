"""The values that a hyper-parameter search tried, against the score that each had."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from analysis.figures import style
from analysis.figures.curves import EDGE
from analysis.figures.looks import LOG_SPAN, number

MOST_VALUES = 7  # of a searched parameter up to which each has a place of its own


def plot_slices(tried: pd.DataFrame) -> Figure:
    """Near score against each searched field, a row of panels per arm; tried as `load_search`."""
    fields = [name for name in tried.columns if "." in name]
    arms = list(tried["arm"].unique())
    with style.apply():
        figure, panels = style.new_panels(1.25, len(arms), len(fields))
        for i, axes in enumerate(panels):
            arm, field = arms[i // len(fields)], fields[i % len(fields)]
            is_last = i >= len(panels) - len(fields)
            x = _place_values(axes, tried[field], field if is_last else "")
            _draw_tried(axes, x[tried["arm"] == arm], tried[tried["arm"] == arm])
            if i:
                axes.sharey(panels[0])
            axes.tick_params(labelbottom=is_last, labelleft=i % len(fields) == 0)
            if i % len(fields) == 0:
                axes.set_title(arm, fontsize=7.5, loc="left")
                axes.set_ylabel("near score")
        low, high = tried["near_score"].min(), tried["near_score"].max()
        margin = 0.08 * max(0.1, high - low)
        panels[0].set_ylim(low - margin, high + margin)
        style.add_caption(
            figure,
            "near score, smaller is better: wrong answers + wrong tokens, as shares of all on the "
            "near range; a mark per configuration: small and pale: stopped early, full: trained to "
            "the end, star: the winner of its arm",
        )
    return figure


def _place_values(axes: Axes, values: pd.Series, label: str) -> pd.Series:
    """Where each value lies: on a linear or a logarithmic axis if values were drawn from a range,
    else one place after another.
    """
    axes.set_xlabel(label)
    different = sorted(values.unique(), key=lambda v: (isinstance(v, str), v))
    is_number = pd.api.types.is_numeric_dtype(values) and values.dtype != bool
    drawn = is_number and any(float(f"{value:.2g}") != value for value in different)
    if drawn or (is_number and len(different) > MOST_VALUES):
        low, high = values.min(), values.max()
        if low > 0 and high >= LOG_SPAN * low:
            axes.set_xscale("log")
            axes.set_xlim(low / 1.3, high * 1.3)
            many = high >= 50 * low
            axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if many else (1.0, 2.0, 5.0)))
            axes.xaxis.set_major_formatter(lambda value, place: number(value))
            axes.xaxis.set_minor_formatter(NullFormatter())
        else:
            axes.set_xlim(low - 0.05 * (high - low), high + 0.05 * (high - low))
        return values.astype(float)
    names = [number(v) if is_number else str(v) for v in different]
    axes.set_xticks(range(len(different)), names)
    axes.set_xlim(-0.5, len(different) - 0.5)
    return values.map(different.index).astype(float)


def _draw_tried(axes: Axes, x: pd.Series, tried: pd.DataFrame) -> None:
    """A mark for each configuration of an arm: how far it was trained, and which one won."""
    full = tried["num_steps"] == tried["num_steps"].max()
    looks: dict[str, tuple[pd.Series, dict[str, Any]]] = {
        "_stopped": (~full, {"marker": "o", "markersize": 2.6, "color": style.LIGHT}),
        "_full": (full & ~tried["is_best"], {"marker": "o", "color": style.COLORS[0]}),
        "_best": (tried["is_best"], {"marker": "*", "markersize": 8, "color": style.COLORS[1]}),
    }
    for name, (chosen, look) in looks.items():
        y = np.asarray(tried.loc[chosen, "near_score"], dtype=float)
        axes.plot(x[chosen], y, label=name, linestyle="none", **look, **EDGE)
