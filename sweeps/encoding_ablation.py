#!/usr/bin/env python
"""Which position encoding lets a small Transformer add numbers longer than it was trained on?

Figure of the paper (arXiv 2405.20671): methods on addition, trained on 1-30 digits, one layer for
coupling and six for the others. Published: coupling stays above 95 % to 200 digits; NoPE and
random-start APE collapse right after the trained lengths; index hints keep 95 % to about 50 digits
at most. Index hints use the batch of the authors' script (400), and there is an arm with
random-start APE on top, whose table holds the longest tested sequence. Here every method has the
same depth (at laptop scale coupled RoPE one layer), and coupling one layer too; encodings of other
groups are included, and coupled RoPE shows whether the IDs or the table matter. At laptop scale
coupled IDs come in packed rows, with the recipe and the width of `thousand_digits`, the others in
rows of one problem, with the steps and the width with which most fit; for uncoupled encodings in
packed rows see `packing_ablation`. Expected there: coupling goes to 200 digits, also with plain
attention; with one problem per row less far; methods without coupled IDs end at the trained
lengths. Cost: see `--plan`.
"""

from typing import Any

from pcore.config import override
from sweeps.baseline import (
    ALONE,
    BASELINE_DEPTH,
    CORE_SEEDS,
    TUNED,
    addition,
    baseline_shape,
    core,
    methods,
    other_encodings,
    packed,
    uncoupled,
)
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid

# At laptop scale the encodings without a recipe of their own train as long as the slowest that has.
LONG = {"optim.num_steps": 3000}
PLAIN = ("sinusoidal", "ALiBi", "T5 bias", "FIRE")
# Hints and IDs are drawn from as many as the longest test has, and each has to be trained: these
# are tested to 24 digits alone.
DRAWN = ("index hints", "randomized positions")
COUPLED_ROPE: dict[str, Any] = {
    "position.encoding": "rotary",
    "position.moduli": (),
    "optim.learning_rate": TUNED["coupled RoPE, packed"][0],
}
PAPER_HINTS: dict[str, Any] = {"optim.batch_size": 400}


def cells(scale: Scale) -> list[Cell]:
    """Every method at the depth at which the baselines fit the trained lengths; see `_laptop`."""
    if scale == "laptop":
        return _laptop()
    points = methods(scale) | other_encodings(addition(scale))
    points = {name: changes | baseline_shape(scale) for name, changes in points.items()}
    if scale == "paper":  # the published comparison
        points = {"coupling, 1 layer": {}} | points
        points["index hints"] |= PAPER_HINTS
    points["index hints, random-start APE"] = _hints_with_positions(scale, points)
    return grid(addition(scale), method=arms(points))


def _laptop() -> list[Cell]:
    """Coupled IDs in packed rows, one layer and as many as the others; these as they fit.

    Plain attention and one problem per row, without the rest, show what the IDs do alone.
    """
    base = core("laptop")
    depth = {"model.num_layers": BASELINE_DEPTH["laptop"]}
    coupled: dict[str, dict[str, Any]] = {
        "coupling, 1 layer": {},
        "coupling": depth,
        "coupling, 1 layer, plain attention": {
            "model.attention_scale": "none",
            "model.log_base": 0,
        },
        "coupling, 1 layer, one problem per row": ALONE,
    }
    tests = {"eval.test_lengths": base.eval.test_lengths}
    rope = override(packed("laptop"), tests)
    short = addition("laptop")
    longer = override(short, tests)
    plain = {name: other_encodings(longer)[name] | depth | LONG for name in PLAIN}
    drawn = {name: other_encodings(short)[name] | depth | LONG for name in DRAWN}
    return (
        grid(base, method=arms(coupled))
        + grid(rope, method=arms({"coupled RoPE, 1 layer": COUPLED_ROPE}))
        + grid(longer, method=arms(uncoupled("laptop", longer) | plain))
        + grid(short, method=arms(drawn))
    )


def _hints_with_positions(scale: Scale, points: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Index hints on top of random-start APE; hints double the tokens that the table must hold."""
    hints = points["index hints"]
    base = override(addition(scale), hints)
    longest = base.task.num_tokens(max(base.eval.test_lengths))
    position = {"position.encoding": "learned", "position.max_position": longest}
    return points["random-start APE"] | hints | position


SWEEP = Sweep(title="Addition: position encodings at equal depth", cells=cells, seeds=CORE_SEEDS)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
