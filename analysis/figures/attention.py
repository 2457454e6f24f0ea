"""Attention of a trained model next to that of the construction, as matrices
(`pcore.diagnosis.attention`).

The figure of the paper (arXiv 2405.20671) on trained one-layer models. Rows are the queries from
'=' on, columns the tokens that they can attend to.
"""

import re
from collections.abc import Iterator

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import style
from pcore.diagnosis.attention import PATTERNS, AttentionMap, Head, Likeness

PANELS_ACROSS = 2
MOST_ACROSS, MOST_DOWN = {1: 24, 2: 16, 3: 12}, 12  # labels that fit, by digits of the numbers
STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
CONTENT = re.compile(r"([a-z]+)(\d+)")
WRITTEN = {"+": "sum", "*": "product"}  # in arithmetic, where relative IDs are significances


def plot_attention(attention: AttentionMap) -> Figure:
    """A panel per head, then one per pattern of the construction on every level.

    Of a layer with two heads each stands above the pattern that it is more like.
    """
    queries = attention.weights[:, :, attention.first_query :].numpy()
    heads = [(_head_title(h, attention), queries[h.layer, h.head]) for h in attention.heads]
    gap = len(heads) % PANELS_ACROSS  # before the construction, which begins a row
    panels = [*heads, *[None] * gap, *_construction(attention)]
    num_queries, num_keys = len(attention.labels) - attention.first_query, len(attention.labels)
    height = float(np.clip(2.35 * num_queries / num_keys, 0.6, 3.0)) + 0.5
    with style.apply():
        figure, axes = style.new_panels(height, len(panels), PANELS_ACROSS)
        for one, panel in zip(axes, panels, strict=True):
            if panel is not None:
                _draw(one, panel[1])
                _label(one, attention)
        titles = ["" if panel is None else panel[0] for panel in panels]
        style.label_panels(axes, PANELS_ACROSS, titles, "attended token", "current token")
        for one, panel in zip(axes, panels, strict=True):
            if panel is None:
                one.remove()
        style.add_bar(figure, figure.axes, "attention")
        style.add_caption(figure, _caption(attention))
    return figure


def best_likeness(head: Head) -> Likeness | None:
    """The pattern that a head is most like, by mass on its keys beyond BOS."""
    return max(head.likenesses, key=lambda likeness: likeness.mass_beyond_bos, default=None)


def _construction(attention: AttentionMap) -> Iterator[tuple[str, np.ndarray]]:
    """Title and weights of every pattern that the construction predicts, level by level."""
    if attention.predicted is None:
        return
    best = [best_likeness(head) for head in attention.heads]
    is_swapped = len(best) == 2 and best[0] is not None and best[0].pattern == "same"
    levels = list(dict.fromkeys(likeness.level for likeness in attention.even))
    for level, name in enumerate(levels):
        of = f" ({name})" if len(levels) > 1 else ""
        for number in (1, 0) if is_swapped else (0, 1):
            weights = attention.predicted[level, number].numpy()
            yield f"construction{of}: {_words(PATTERNS[number], attention)}", weights


def _head_title(head: Head, attention: AttentionMap) -> str:
    layer = f"layer {head.layer + 1}, " if len(attention.weights) > 1 else ""
    best, name = best_likeness(head), f"{layer}head {head.head + 1}"
    if best is None:
        return name
    return f"{name}: {100 * best.mass:.0f} % on {_words(best.pattern, attention)}"


def _words(pattern: str, attention: AttentionMap) -> str:
    """The keys of a pattern."""
    return f"{pattern} {'sig.' if set(WRITTEN) & set(attention.labels) else 'ID'} + BOS"


def _draw(axes: Axes, weights: np.ndarray) -> None:
    """Weights from white (0) to dark (1), the first query on top; later tokens are grey."""
    later = np.triu(np.ones_like(weights, dtype=bool), weights.shape[1] - len(weights) + 1)
    look = {"mask": later, "linewidths": 0.3, "linecolor": style.FAINTER}
    style.draw_squares(axes, weights, style.WEIGHTS, 1, **look)
    axes.tick_params(pad=1.5, rotation=0)


def _label(axes: Axes, attention: AttentionMap) -> None:
    """Tokens at the edges: all of them, or as many as fit."""
    names, rows = attention.labels, attention.labels[attention.first_query :]
    numbers = [parts[2] for parts in map(CONTENT.fullmatch, names) if parts]
    columns_apart = -(-len(names) // MOST_ACROSS[min(3, max(map(len, numbers), default=1))])
    rows_apart = -(-len(rows) // MOST_DOWN)
    for put, shown, gap in (
        (axes.set_xticks, names, columns_apart),
        (axes.set_yticks, rows, rows_apart),
    ):
        kept = _choose(shown, gap)
        names_kept = [_subscript(shown[i]) for i in kept]
        put([i + 0.5 for i in kept], names_kept, fontsize=6.5, parse_math=True)


def _choose(names: tuple[str, ...], gap: int) -> list[int]:
    """Indices of the labels to print: symbols first, then round numbers, at least `gap` apart."""
    step = next(s for s in STEPS if s >= gap)
    kept: list[int] = []
    for wanted in (None, step):
        for index, name in enumerate(names):
            parts = CONTENT.fullmatch(name)
            fits = parts is None if wanted is None else parts and int(parts[2]) % step == 0
            if fits and all(abs(index - other) >= gap for other in kept):
                kept.append(index)
    return sorted(kept)


def _subscript(name: str) -> str:
    parts = CONTENT.fullmatch(name)
    return f"${parts[1]}_{{{parts[2]}}}$" if parts else name.replace("$", r"\$")


def _caption(attention: AttentionMap) -> str:
    labels, first = attention.labels, attention.first_query
    written = next((word for sign, word in WRITTEN.items() if sign in labels), "")
    # The last symbol is one of the result: two operands, neither hints nor a scratchpad.
    is_short = written and labels[-1].startswith("c")
    names = ("operands", written) if is_short else ("query", "response")
    sides = (filter(None, map(CONTENT.fullmatch, s)) for s in (labels[:first], labels[first:]))
    letters = [", ".join(dict.fromkeys(found[1] for found in side)) for side in sides]
    parts = [
        f"average over {attention.num_examples} examples of length {attention.length}",
        ", ".join(f"{of}: {name}" for of, name in zip(letters, names, strict=True)),
        "1: ones digit; sig.: significance" if written else "1: first symbol",
        "$: BOS; grey: not yet written",
    ]
    masses = [f"{100 * even.mass:.0f} % ({even.pattern})" for even in attention.even]
    parts += [f"even attention would have {', '.join(masses)}"] if masses else []
    if attention.factor != 1:
        parts += [f"logits times {attention.factor:g}, as in evaluation"]
    if attention.predicted is None:
        parts += ["no position IDs are shared here, so the construction predicts nothing"]
    return "; ".join(parts)
