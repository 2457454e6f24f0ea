#!/usr/bin/env python
"""Does position coupling add numbers of unequal lengths?

Heat maps of the paper (arXiv 2405.20671) over the lengths of both operands; in all other sweeps
both operands have the length that a figure names. Training is as in the other addition sweeps and
draws both lengths independently; here the tests cover a grid of first and second lengths, both
zero-padded to the longer one. The text gives no value for the published maps. Expected: with
coupling only the longer operand matters; NoPE fails wherever either operand is longer than those
trained on. All cells are compared with the first, coupling. The task is defined in this script, as
a user would define one. Cost: see `--plan`.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from pcore.config import override
from pcore.tasks.addition import Addition
from sweeps.baseline import BASELINE_DEPTH, OTHERS, PAPER_BASELINE, coupling
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid

GRID: dict[Scale, dict[str, Any]] = {
    "smoke": {"eval.second_lengths": (1, 3, 5, 6), "eval.num_examples": 20},
    "laptop": {"eval.second_lengths": (1, 4, 8, 12, 15, 18, 21, 24), "eval.num_examples": 300},
    "paper": {
        "eval.train_lengths": (1, 10, 20, 30),
        "eval.test_lengths": (40, 60, 80, 100, 120, 140, 160, 180, 200),
        "eval.second_lengths": (1, 10, 20, 30, 40, 60, 80, 100, 120, 140, 160, 180, 200),
        "eval.num_examples": 1000,
    },
}


@dataclass(frozen=True, kw_only=True)
class UnequalAddition(Addition):
    """Addition of two numbers, tested at any two lengths; trained as `Addition` is."""

    size_names: ClassVar[tuple[str, ...]] = ("digits", "second digits")

    def sizes_at(self, length: int, second: int | None = None) -> tuple[int, ...]:
        return (length, second or length)

    def largest_shape(self, length: int, second: int | None = None) -> tuple[int, ...]:
        return (2, max(length, second or length))

    def default_second(self, length: int) -> int | None:
        return length

    def trained_seconds(self, low: int, high: int) -> range:
        return range(low, high + 1)


def cells(scale: Scale) -> list[Cell]:
    """Coupling and NoPE."""
    task = {"task.name": "sweeps.operand_lengths:UnequalAddition"}
    base = override(coupling(scale), task | GRID[scale])
    own = {"laptop": OTHERS["NoPE"], "paper": PAPER_BASELINE}.get(scale, {})
    plain = {"model.attention_scale": "none", "model.query_init": "normal"}
    nope = {"position.encoding": "none", "model.num_layers": BASELINE_DEPTH[scale]}
    nope |= plain | {"eval.attention_factor": 1.0} | own
    return grid(base, arm=arms({"coupling": {}, "NoPE": nope}))


SWEEP = Sweep(
    name="operand_lengths",
    title="Addition: operands of unequal lengths",
    claim=__doc__,
    cells=cells,
    seeds={"smoke": "2", "laptop": "2x2@700", "paper": "4x2"},
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
