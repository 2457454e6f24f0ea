#!/usr/bin/env python
"""Which learning rate and weight decay suit each position method on addition?

A comparison of arms is fair only if all were tuned with the same effort. The paper (arXiv
2405.20671, appendix) trains at 1e-4, its depth experiment at 3e-5, both without weight decay. Here
every arm of the depth ablation (coupling with one layer, the others at their own depth) gets the
same number of configurations, drawn by TPE, halved at 1/9 and 1/3 of the steps, scored on the near
range alone. Expected: coupling is insensitive over a decade of rates and gains from weight decay;
the other methods gain on the train range and little beyond it. Cost: `--plan`; at laptop scale four
to six full trainings per arm, at paper scale ten to fifteen.

To use the winners in another sweep, whose arms have the labels of the depth ablation:

    best = best_of("lr_search", scale)  # sweeps.engine.search.results; ValueError if not yet run
    tuned = {label: fields | best.get(label, {}) for label, fields in own_arms.items()}
    cells = grid(addition(scale), arm=arms(tuned))
"""

from pcore.config import TrialConfig, override
from sweeps import depth_ablation
from sweeps.engine.search.rounds import main
from sweeps.engine.search.space import Budget, Choice, Range, Search
from sweeps.engine.spec import Scale

# The paper names no near range; these lengths lie between its trained and its tested ones.
NEAR: dict[Scale, dict[str, str]] = {"paper": {"eval.near_lengths": "31-34"}}


def arms(scale: Scale) -> dict[str, TrialConfig]:
    """The arms of the depth ablation; of coupling the one with a single layer."""
    return {
        cell.label: override(cell.config, NEAR.get(scale, {}))
        for cell in depth_ablation.cells(scale)
        if cell.label == "coupling, 1 layer" or not cell.label.startswith("coupling")
    }


SEARCH = Search(
    title="Addition: learning rate and weight decay of every position method",
    arms=arms,
    space={
        "optim.learning_rate": Range(1e-5, 1e-2, log=True),
        "optim.weight_decay": Choice((0.0, 0.03, 0.1, 0.3, 1.0)),
    },
    budget={
        "smoke": Budget(configurations=3),
        "laptop": Budget(configurations=12),
        "paper": Budget(configurations=30),
    },
)

if __name__ == "__main__":
    raise SystemExit(main(SEARCH))
