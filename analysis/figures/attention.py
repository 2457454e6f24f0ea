"""Attention of a trained model next to that of the construction, as squares
(`pcore.diagnosis.attention`).

The figure of the paper (arXiv 2405.20671) on trained one-layer models. Rows are the queries from
'=' on, columns the tokens that they can look at.
"""

import re

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from analysis.figures import style
from pcore.diagnosis.attention import AttentionMap, Head
from pcore.diagnosis.patterns import PATTERNS, Likeness

PANELS_ACROSS = 2
MOST_ACROSS, MOST_DOWN = {1: 24, 2: 16, 3: 12}, 12  # labels that fit, by digits of the numbers
STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
CONTENT = re.compile(r"([a-z]+)(\d+)")
WORDS = {"next": "next significance and BOS", "same": "same significance and BOS"}


def plot_attention(found: AttentionMap) -> Figure:
    """A panel per head, then one per pattern of the construction on every level.

    Of a layer with two heads each stands above the pattern that it is more like.
    """
    panels = [(_head_title(head, found), _of_head(head, found)) for head in found.heads]
    if len(panels) % PANELS_ACROSS:
        panels.append(("", None))
    panels += _construction(found)
    num_queries, num_keys = len(found.labels) - found.first_query, len(found.labels)
    height = np.clip(2.35 * num_queries / num_keys, 0.6, 3.0) + 0.5
    with style.apply():
        figure, axes = style.new_panels(
            float(height), -(-len(panels) // PANELS_ACROSS), PANELS_ACROSS
        )
        figure.get_layout_engine().set(h_pad=0.05)
        mesh = None
        for place, (title, weights) in enumerate(panels):
            if weights is None:
                axes[place].remove()
                continue
            mesh = _draw(axes[place], weights)
            axes[place].set_title(title, fontsize=7.5, loc="left")
            _label(axes[place], found)
            axes[place].set_ylabel("current token" if place % PANELS_ACROSS == 0 else "")
        for panel in axes[len(panels) :]:
            panel.remove()
        used = [a for a, (_, w) in zip(axes, panels, strict=False) if w is not None]
        bar = figure.colorbar(mesh, ax=used, label="attention", aspect=30, pad=0.015)
        bar.outline.set_visible(False)
        style.add_caption(figure, _caption(found))
    return figure


def best_likeness(head: Head) -> Likeness | None:
    """The pattern that a head is most like, by mass on its keys beyond BOS."""
    return max(head.likenesses, key=lambda found: found.mass_beyond_bos, default=None)


def _construction(found: AttentionMap) -> list[tuple[str, np.ndarray | None]]:
    if found.predicted is None:
        return []
    best = [best_likeness(head) for head in found.heads]
    order = [0, 1]
    if len(best) == 2 and best[0] and best[0].pattern == "same":
        order = [1, 0]
    levels = list(dict.fromkeys(likeness.level for likeness in found.even))
    panels: list[tuple[str, np.ndarray | None]] = []
    for level, name in enumerate(levels):
        of = f" ({name})" if len(levels) > 1 else ""
        for number in order:
            weights = found.predicted[level, number].numpy()
            panels.append((f"construction{of}: {WORDS[PATTERNS[number]]}", weights))
    return panels


def _head_title(head: Head, found: AttentionMap) -> str:
    layer = f"layer {head.layer + 1}, " if len(found.weights) > 1 else ""
    best = best_likeness(head)
    text = f"trained, {layer}head {head.head + 1}"
    if best is None:
        return text
    return (
        f"{text}: {100 * best.mass:.0f} % on {WORDS[best.pattern].replace('significance', 'sig.')}"
    )


def _of_head(head: Head, found: AttentionMap) -> np.ndarray:
    return found.weights[head.layer, head.head, found.first_query :].numpy()


def _draw(axes: Axes, weights: np.ndarray) -> QuadMesh:
    """Weights from white (0) to dark (1), the first query on top; what lies ahead is grey."""
    axes.set_facecolor(style.FAINT)
    num_queries, num_keys = weights.shape
    ahead = np.triu(np.ones_like(weights, dtype=bool), num_keys - num_queries + 1)
    edges = (np.arange(size + 1) - 0.5 for size in (num_keys, num_queries))
    look = {"edgecolors": style.FAINTER, "linewidth": 0.3}
    squares = np.ma.masked_array(weights, ahead)
    mesh = axes.pcolormesh(*edges, squares, cmap=style.WEIGHTS, vmin=0, vmax=1, **look)
    axes.invert_yaxis()
    for edge in axes.spines.values():
        edge.set_visible(False)
    axes.tick_params(length=0, pad=1.5)
    return mesh


def _label(axes: Axes, found: AttentionMap) -> None:
    """Tokens at the edges: all of them, or as many as fit."""
    names, rows = found.labels, found.labels[found.first_query :]
    numbers = [parts[2] for parts in map(CONTENT.fullmatch, names) if parts]
    columns_apart = -(-len(names) // MOST_ACROSS[min(3, max(map(len, numbers), default=1))])
    rows_apart = -(-len(rows) // MOST_DOWN)
    for put, shown, gap in (
        (axes.set_xticks, names, columns_apart),
        (axes.set_yticks, rows, rows_apart),
    ):
        kept = _choose(shown, gap)
        put(kept, [_subscript(shown[i]) for i in kept], fontsize=6.5)


def _choose(names: tuple[str, ...], gap: int) -> list[int]:
    """Places of the labels to print: symbols first, then round numbers, none nearer than `gap`."""
    step = next(s for s in STEPS if s >= gap)
    kept: list[int] = []
    for wanted in (None, step):
        for place, name in enumerate(names):
            parts = CONTENT.fullmatch(name)
            fits = parts is None if wanted is None else parts and int(parts[2]) % step == 0
            if fits and all(abs(place - other) >= gap for other in kept):
                kept.append(place)
    return sorted(kept)


def _subscript(name: str) -> str:
    parts = CONTENT.fullmatch(name)
    return f"${parts[1]}_{{{parts[2]}}}$" if parts else name.replace("$", r"\$")


def _caption(found: AttentionMap) -> str:
    letters = "a, b: operands, c: sum; " if found.labels[-1].startswith("c") else ""
    parts = [
        f"average over {found.num_examples} examples of length {found.length}",
        f"{letters}1: ones digit; \\$: BOS; grey: not yet written",
    ]
    masses = [f"{100 * even.mass:.0f} % ({even.pattern})" for even in found.even]
    parts += [f"even attention would have {', '.join(masses)}"] if masses else []
    if found.factor != 1:
        parts += [f"logits times {found.factor:g}, as in evaluation"]
    if found.predicted is None:
        parts += ["no position IDs are shared here, so the construction predicts nothing"]
    return "; ".join(parts)
