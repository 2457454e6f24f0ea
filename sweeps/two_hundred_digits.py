#!/usr/bin/env python
"""Does a model trained on sums of 1-30 digits add 200-digit numbers, and do other methods?

The claim of the abstract (arXiv 2405.20671), most important trials first, for short GPU sessions:
coupling with one layer; random-start APE, NoPE and RoPE with six; then coupling trained on 1-10,
1-20 and 1-40 digits. Published: more than 95 % at 200 digits, 6.67 times the trained length; the
others fail right after the trained lengths. The trials are those of `encoding_ablation` and
`train_length_ablation`. Expected at laptop scale, trained on 1-12 digits: the same ordering. All
cells are compared with the first. Cost: see `--plan`.
"""

from sweeps import encoding_ablation, train_length_ablation
from sweeps.baseline import CORE_SEEDS
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep

METHODS = ("random-start APE", "NoPE", "RoPE")


def cells(scale: Scale) -> list[Cell]:
    """Coupling at the longest range that was published in full, then the methods that it beats."""
    ranges = {cell.label: cell for cell in train_length_ablation.cells(scale)}
    methods = {cell.label: cell for cell in encoding_ablation.cells(scale)}
    first = "trained on 1-30" if scale == "paper" else list(ranges)[-1]
    others = [cell for label, cell in ranges.items() if label != first]
    ours = Cell(label=f"coupling, {first}", config=ranges[first].config)
    renamed = [Cell(label=f"coupling, {cell.label}", config=cell.config) for cell in others]
    return [ours, *(methods[name] for name in METHODS), *renamed]


SWEEP = Sweep(
    title="Addition: trained on 1-30 digits, tested to 200", cells=cells, seeds=CORE_SEEDS
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
