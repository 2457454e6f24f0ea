#!/usr/bin/env python
"""Does length generalization need many training examples, or many passes over a few?

Published settings draw 1,000,000 examples once and reshuffle them every epoch, with a new start at
every visit (arXiv 2405.20671, appendix); the tables vary the number by task (10k for parity, 100k,
500k, 1M), but no figure varies it for addition. Endless fresh examples are the limit. Expected:
equal numbers of steps reach equally far as long as the list is too long to be memorised; a short
list is memorised, and longer sums suffer first. All cells are compared with the first: 1M at paper
scale, endless elsewhere. Cost: see `--plan`.
"""

from sweeps.baseline import coupling
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, one_at_a_time

COUNTS: dict[Scale, tuple[int | None, ...]] = {
    "smoke": (100, None),
    "laptop": (1_000, 10_000, 100_000, None),
    "paper": (10_000, 100_000, 1_000_000, None),
}


def cells(scale: Scale) -> list[Cell]:
    """The same training on lists of different lengths; the base first."""
    base = coupling(scale)
    points = {_label(count): {"data.num_examples": count} for count in COUNTS[scale]}
    return one_at_a_time(base, _label(base.data.num_examples), examples=arms(points))


def _label(count: int | None) -> str:
    return "endless examples" if count is None else f"{count:_} examples".replace("_", " ")


SWEEP = Sweep(title="Addition: number of training examples", cells=cells)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
