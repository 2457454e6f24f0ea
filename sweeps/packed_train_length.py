#!/usr/bin/env python
"""How short may the trained sums be for one layer to add a thousand digits?

Not a published result. One arm is the cell of `thousand_digits`, whose runs it shares; the others
change the longest trained length, and with it the base of the logits, and nothing else: the same
rings, problems per row, steps and optimizer, none tuned again. All arms are tested on the same
longer lengths; their near ranges end at 17. All cells are compared with the first, which is trained
on the longest sums. Cost: see `--plan`.
"""

from typing import Any

from pcore.config import TrialConfig
from sweeps.baseline import packed, trained_to, with_log_base
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid

LONGEST: dict[Scale, tuple[int, ...]] = {
    "smoke": (3, 2),
    "laptop": (20, 12, 8, 6, 4, 3, 2, 1),
    "paper": (40, 30, 20, 10),
}


def cells(scale: Scale) -> list[Cell]:
    """The same model trained on 1 to each of these lengths."""
    base = packed(scale)
    points = {f"trained on 1-{n}": _trained_on(base, n) for n in LONGEST[scale]}
    return grid(base, trained=arms(points))


def _trained_on(base: TrialConfig, longest: int) -> dict[str, Any]:
    longer = tuple(n for n in base.eval.test_lengths if n > longest)
    return with_log_base(base, trained_to(base, longest) | {"eval.test_lengths": longer})


SWEEP = Sweep(
    title="A thousand digits: longest trained length",
    cells=cells,
    seeds={"smoke": "1@300", "laptop": "2x2@300", "paper": "4x2@300"},
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
