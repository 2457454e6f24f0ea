#!/usr/bin/env python
"""Which learning rate and weight decay suit each arm of `packing_ablation`?

Is a method that fails there bad, or badly tuned? Every position method, with packed rows and
without, gets the same number of configurations, each trained for a third of its steps; the best go
on to all of them. Scored on the near range alone, at a seed that no table reports. At laptop scale
the first configuration of an arm is what `packing_ablation` began with, so the winner is at least
as good on the near range. Cost: `--plan`; there four to six full trainings per arm.
"""

from pcore.config import TrialConfig, override
from sweeps import packing_ablation
from sweeps.engine.search.rounds import main
from sweeps.engine.search.space import Budget, Choice, Range, Search
from sweeps.engine.spec import Scale

# The paper names no near range; these lengths lie between its trained and its tested ones.
NEAR: dict[Scale, dict[str, str]] = {"paper": {"eval.near_lengths": "31-34"}}


def arms(scale: Scale) -> dict[str, TrialConfig]:
    """The position methods of `packing_ablation`, with packed rows and without: not the arms that
    lack one part of the reference.
    """
    return {
        cell.label: override(cell.config, NEAR.get(scale, {}))
        for cell in packing_ablation.untuned(scale)
        if cell.label.endswith((", packed", ", alone"))
    }


SEARCH = Search(
    title="Packed rows: learning rate and weight decay of every position method",
    arms=arms,
    space={
        "optim.learning_rate": Range(5e-4, 1e-2, log=True),
        "optim.weight_decay": Choice((0.03, 0.1, 0.3, 1.0)),
    },
    budget={
        "smoke": Budget(configurations=2, rungs=(1.0,)),
        "laptop": Budget(configurations=6, rungs=(1 / 3, 1.0)),
        "paper": Budget(configurations=12, rungs=(1 / 3, 1.0)),
    },
)

if __name__ == "__main__":
    raise SystemExit(main(SEARCH))
