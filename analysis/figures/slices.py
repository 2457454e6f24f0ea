"""A search as slices: the score of every configuration against each searched parameter."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.figures.axes import LOG_SPAN, number
from analysis.figures.marks import EDGE

MOST_VALUES = 7  # of a parameter up to which each has a place of its own


def plot_slices(tried: pd.DataFrame) -> Figure:
    """Near score against each searched field, a row of panels per arm; tried as `load_search`."""
    fields = [name for name in tried.columns if "." in name]
    arms = list(tried["arm"].unique())
    with style.apply():
        figure, panels = style.new_panels(1.25, len(arms), len(fields))
        for i, axes in enumerate(panels):
            arm, field = arms[i // len(fields)], fields[i % len(fields)]
            is_last = i >= len(panels) - len(fields)
            x = _place(axes, tried[field], field if is_last else "")
            _draw(axes, x[tried["arm"] == arm], tried[tried["arm"] == arm])
            if i:
                axes.sharey(panels[0])
            axes.tick_params(labelbottom=is_last, labelleft=i % len(fields) == 0)
            if i % len(fields) == 0:
                axes.set_title(arm, fontsize=7.5, loc="left")
                axes.set_ylabel("near score")
        panels[0].set_ylim(-0.08, 1.05 * max(1.0, tried["near_score"].max()))
        style.add_caption(
            figure,
            "near score, smaller is better: wrong answers + wrong tokens, as shares of all on the "
            "near range; a mark per configuration: small and pale: stopped early, full: trained to "
            "the end, star: the winner of its arm",
        )
    return figure


def _place(axes: Axes, values: pd.Series, label: str) -> pd.Series:
    """Where each value lies: on a linear or a logarithmic axis, or one place after another."""
    axes.set_xlabel(label)
    different = sorted(values.unique(), key=lambda v: (isinstance(v, str), v))
    is_number = pd.api.types.is_numeric_dtype(values) and values.dtype != bool
    if is_number and len(different) > MOST_VALUES:
        if values.min() > 0 and values.max() >= LOG_SPAN * values.min():
            axes.set_xscale("log")
        axes.set_xlim(values.min() / 1.3, values.max() * 1.3)
        return values.astype(float)
    names = [number(v) if is_number else str(v) for v in different]
    axes.set_xticks(range(len(different)), names)
    axes.set_xlim(-0.5, len(different) - 0.5)
    return values.map(different.index).astype(float)


def _draw(axes: Axes, x: pd.Series, tried: pd.DataFrame) -> None:
    """Marks side by side where a place has several."""
    full = tried["num_steps"] == tried["num_steps"].max()
    looks: dict[str, tuple[pd.Series, dict[str, Any]]] = {
        "_stopped": (~full, {"marker": "o", "markersize": 2.6, "color": style.LIGHT}),
        "_full": (full & ~tried["is_best"], {"marker": "o", "color": style.COLORS[0]}),
        "_best": (tried["is_best"], {"marker": "*", "markersize": 8, "color": style.COLORS[1]}),
    }
    for name, (chosen, look) in looks.items():
        y = np.asarray(tried.loc[chosen, "near_score"], dtype=float)
        axes.plot(x[chosen], y, label=name, linestyle="none", **look, **EDGE)
