#!/usr/bin/env python
"""Which position encoding lets a small Transformer add numbers longer than it was trained on?

Figure of the paper (arXiv 2405.20671): methods on addition, trained on 1-30 digits, one layer for
coupling and six for the others. Published: coupling keeps above 95 % to 200 digits; NoPE and
random-start APE collapse right behind the trained lengths; with index hints 95 % holds to about 50
digits at most. Here every method has the same depth and width, the encodings of other groups are
next to them, and coupled RoPE shows whether the IDs or the table does the work. Expected at laptop
scale: methods that see coupled IDs go beyond the trained lengths, the others do not. Cost: see
`--plan`.
"""

from sweeps.baseline import BASELINE_DEPTH, PAPER_BASELINE, addition, methods, other_encodings
from sweeps.engine.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid


def cells(scale: Scale) -> list[Cell]:
    """Every method at the depth at which the baselines fit the trained lengths."""
    points = methods(scale) | other_encodings(scale)
    shape = {"model.num_layers": BASELINE_DEPTH[scale]} | (
        PAPER_BASELINE if scale == "paper" else {}
    )
    return grid(addition(scale), method=arms({k: v | shape for k, v in points.items()}))


SWEEP = Sweep(
    name="encoding_ablation",
    title="Addition: position encodings at equal depth",
    claim=__doc__,
    cells=cells,
    seeds={"smoke": "2", "laptop": "3", "paper": "4x2"},
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
