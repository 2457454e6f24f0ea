#!/usr/bin/env python
"""How does the generalizable length grow with the longest trained length?

Figure of the paper (arXiv 2405.20671): one layer, four heads, trained on 1-10, 1-20, 1-30, 1-40
digits. Published: exact match stays above 95 % up to 70, 135, 200 and at least 200 digits (200 is
the largest length tested), 6.67 times the trained length. Expected at laptop scale: a longer
trained range reaches further. All arms are tested on the same lengths; the near range, on which the
recipe was chosen, covers the lengths after the trained ones up to 17. Cost: see `--plan`.
"""

from typing import Any

from pcore.config import TrialConfig
from sweeps.baseline import CORE_SEEDS, core, trained_to, with_log_base
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid

LONGEST: dict[Scale, tuple[int, ...]] = {
    "smoke": (2, 3),
    "laptop": (6, 8, 10, 12),
    "paper": (10, 20, 30, 40),
}


def cells(scale: Scale) -> list[Cell]:
    """The same model trained on 1 to each of these lengths."""
    base = core(scale)
    points = {f"trained on 1-{n}": _trained_on(scale, base, n) for n in LONGEST[scale]}
    return grid(base, trained=arms(points))


def _trained_on(scale: Scale, base: TrialConfig, longest: int) -> dict[str, Any]:
    changes = trained_to(base, longest) | {"eval.test_lengths": _test(scale, base, longest)}
    return with_log_base(base, changes) if scale == "laptop" else changes


def _test(scale: Scale, base: TrialConfig, longest: int) -> tuple[int, ...]:
    """The tested lengths of the base; at paper scale every fifth length after the trained ones."""
    if scale == "paper":
        return tuple(range(longest + 5, 201, 5))
    return base.eval.test_lengths


SWEEP = Sweep(title="Addition: longest trained length", cells=cells, seeds=CORE_SEEDS)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
