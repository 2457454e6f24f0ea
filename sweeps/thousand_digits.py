#!/usr/bin/env python
"""Trained on 1-12 digits, how far does one layer add with packed rows and residue rings?

Not a published result: the IDs are those of position coupling (arXiv 2405.20671), which reaches
6.67 times the trained length; how they are encoded (`pcore/encodings/embeddings.py`) and the rows
of several problems (`pcore/packing.py`) are ours. Expected at laptop scale: 1,000 digits, 83 times
the trained length, at a median exact match of 99 % over 8 runs, and at least 95 % at 500 digits in
the worst of them. Each length has 1,000 examples up to 200 digits, and beyond that as
many as fit into 200,000 digits. Seeds start at 300; none was used to choose the recipe. All cells
are compared with the first. Cost: see `--plan`; about four minutes of training per run on one core.
"""

from sweeps.baseline import packed
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep

LONGEST: dict[Scale, int] = {"smoke": 3, "laptop": 12, "paper": 30}


def cells(scale: Scale) -> list[Cell]:
    """A single cell; the result is its curve."""
    return [Cell(label=f"trained on 1-{LONGEST[scale]}", config=packed(scale))]


SWEEP = Sweep(
    title="A thousand digits from twelve: packed rows and residue rings",
    cells=cells,
    seeds={"smoke": "2@300", "laptop": "4x2@300", "paper": "4x2@300"},
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
