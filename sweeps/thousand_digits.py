#!/usr/bin/env python
"""Trained on 1-12 digits: how far does one layer add with packed rows and residue rings?

Not a published result: the IDs are those of position coupling (arXiv 2405.20671), which reaches
6.67 times the trained length; how they enter the model (`pcore/encodings/residues.py`) and the rows
of several problems (`pcore/model/packing.py`) are ours. Expected at laptop scale: 1,000 digits, 83
times the trained length, at a median exact match of 99 % over 8 runs, the worst of them at least
95 % at 500 digits. The other arms ask how little is enough: trained on 1-6, 1-8 and 1-20 digits.
1,000 examples of a length up to 200 digits, 200,000 digits of examples beyond. Seeds begin at 100,
none was used to choose the recipe. Cost: see `--plan`; some four minutes a run on one core.
"""

from typing import Any

from pcore.config import TrialConfig
from sweeps.baseline import packed
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid

TRAIN_LENGTHS: dict[Scale, tuple[int, ...]] = {
    "smoke": (3, 2),
    "laptop": (12, 6, 8, 20),
    "paper": (30, 20, 10),
}


def trained_up_to(longest: int, base: TrialConfig) -> dict[str, Any]:
    """Changes for another train range; lengths that are then trained leave the other ranges."""
    e = base.eval
    beyond = range(longest + 1, longest + 6)
    near = e.near_lengths if longest < min(e.near_lengths, default=0) else tuple(beyond)
    near = () if not e.near_lengths else near
    return {
        "data.max_length": longest,
        "eval.near_lengths": near,
        "eval.test_lengths": tuple(n for n in e.test_lengths if n > max((longest, *near))),
    }


def cells(scale: Scale) -> list[Cell]:
    base = packed(scale)
    return grid(
        base,
        arm=arms({f"1-{n} digits": trained_up_to(n, base) for n in TRAIN_LENGTHS[scale]}),
    )


SWEEP = Sweep(
    name="thousand_digits",
    title="A thousand digits from twelve: packed rows and residue rings",
    claim=__doc__,
    cells=cells,
    seeds={"smoke": "2@100", "laptop": "4x2@100", "paper": "4x2@100"},
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
