#!/usr/bin/env python
"""Must counting start at random positions in training, and does a ring of IDs train better?

The paper (arXiv 2405.20671) draws the start at random, so that every row of the table is trained;
rows at the edges are visited rarely. A fixed start leaves the rows after the trained lengths
untrained. A wrapped start (ours, not published) visits every row equally often. Expected: a fixed
start fails right after the trained lengths, random reaches further, wrapped at least as far in
fewer steps. Evaluation counts from 1 in all arms, or from a random start (`test_policy`), to see
whether a model depends on the IDs at which it is tested. All cells are compared with the first, the
start of the base: wrapped at laptop scale, random elsewhere. Cost: see `--plan`.
"""

from sweeps.baseline import coupling
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, one_at_a_time

STARTS = ("fixed", "random", "wrapped")


def cells(scale: Scale) -> list[Cell]:
    """Three starts in training, tested from 1; random and wrapped also at random starts."""
    base = coupling(scale)
    points = {f"{start} start": {"position.start": start} for start in STARTS}
    points |= {
        f"{start} start, tested anywhere": {"position.start": start, "position.test_policy": start}
        for start in STARTS[1:]
    }
    return one_at_a_time(base, f"{base.position.start} start", start=arms(points))


SWEEP = Sweep(title="Addition: where counting starts in training", cells=cells)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
