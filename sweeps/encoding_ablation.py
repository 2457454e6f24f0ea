#!/usr/bin/env python
"""Which position encoding lets a small Transformer add numbers longer than it was trained on?

Figure of the paper (arXiv 2405.20671): methods on addition, trained on 1-30 digits, one layer for
coupling and six for the others. Published: coupling stays above 95 % to 200 digits; NoPE and
random-start APE collapse right after the trained lengths; index hints keep 95 % to about 50 digits
at most. Index hints use the batch of the authors' script (400), and there is an arm with
random-start APE on top, whose table holds the longest tested sequence. Here every method has the
same depth and width, encodings of other groups are included, and coupled RoPE shows whether the IDs
or the table matter. Expected at laptop scale: coupling goes beyond the trained lengths, also
without sharpened attention (then less far); methods without coupled IDs do not. Cost: see `--plan`.
"""

from typing import Any

from pcore.config import override
from sweeps.baseline import (
    BASELINE_DEPTH,
    OTHERS,
    PAPER_BASELINE,
    SHARP,
    addition,
    methods,
    other_encodings,
)
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid

# At laptop scale the encodings without a recipe of their own train as long as the slowest that has.
LONG = {"optim.num_steps": 3000}
PAPER_HINTS: dict[str, Any] = {"optim.batch_size": 400}


def cells(scale: Scale) -> list[Cell]:
    """Every method at the depth at which the baselines fit the trained lengths.

    Where coupling has sharpened attention, there is also an arm without, to show the IDs alone.
    """
    points: dict[str, dict[str, Any]] = {}
    for name, changes in (methods(scale) | other_encodings(scale)).items():
        own: dict[str, Any] = {}
        if scale == "laptop":
            own = SHARP if name == "coupling" else OTHERS.get(name, LONG)
        points[name] = changes | own
        if scale == "laptop" and name == "coupling":
            points["coupling, plain attention"] = changes
    shape = {"model.num_layers": BASELINE_DEPTH[scale]}
    shape |= PAPER_BASELINE if scale == "paper" else {}
    points = {name: changes | shape for name, changes in points.items()}
    if scale == "paper":  # the published comparison
        points = {"coupling, 1 layer": {}} | points
        points["index hints"] |= PAPER_HINTS
    if scale != "laptop":
        points["index hints, random-start APE"] = _hints_with_positions(scale, points)
    return grid(addition(scale), method=arms(points))


def _hints_with_positions(scale: Scale, points: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Index hints on top of random-start APE; hints double the tokens that the table must hold."""
    hints = points["index hints"]
    base = override(addition(scale), hints)
    longest = base.task.num_tokens(max(base.eval.test_lengths))
    position = {"position.encoding": "learned", "position.max_position": longest}
    return points["random-start APE"] | hints | position


SWEEP = Sweep(
    name="encoding_ablation",
    title="Addition: position encodings at equal depth",
    claim=__doc__,
    cells=cells,
    seeds={"smoke": "2", "laptop": "3", "paper": "4x2"},
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
