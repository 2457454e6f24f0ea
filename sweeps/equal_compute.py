#!/usr/bin/env python
"""Which method reaches furthest for the same number of training tokens?

Other groups train other models on other lengths. Published: Abacus (McLeish et al. 2024, arXiv
2405.17399; 16 layers, d_model 1024) 20 to 100 digits, 120 at most; FIRE with randomized positions
and index hints (Zhou et al. 2024, arXiv 2402.09371) 40 to 100 in its best run, 30 to 45; position
coupling (arXiv 2405.20671) 30 to 200. Here all methods share one model (that of the other methods
in the addition figure), one trained range and one number of training tokens, so a format with
twice the tokens gets half the steps; the number of tokens is an axis. Not included: Abacus's looped
layers and input injection. Its start range equals the table size, and at paper scale there is also
an arm with the published 100, which limits it to 130 digits. Expected: coupling first at every
number of tokens. All cells are compared with the first, coupling. Cost: see `--plan`.
"""

from itertools import product
from typing import Any

from pcore.config import TrialConfig, override
from pcore.tasks.addition import Addition
from sweeps.baseline import ABACUS, addition, baseline_shape, other_encodings, sharp
from sweeps.engine.launch.cli import main
from sweeps.engine.spec import Cell, Scale, Sweep, arms, grid

BUDGETS: dict[Scale, tuple[float, ...]] = {
    "smoke": (1.0,),
    "laptop": (1.0, 2.0),
    "paper": (1.0, 0.5, 0.25),
}


def cells(scale: Scale) -> list[Cell]:
    """Every method at every number of tokens, coupling first."""
    base = override(addition(scale), baseline_shape(scale))
    reference = mean_tokens(base) * base.optim.num_steps
    cells: list[Cell] = []
    for budget in BUDGETS[scale]:
        points: dict[str, dict[str, Any]] = {}
        for name, changes in _methods(scale, base).items():
            num_steps = budget * reference / mean_tokens(override(base, changes))
            label = f"{name}, {budget:g} times the tokens"
            points[label] = changes | {"optim.num_steps": round(num_steps, -1)}
        cells += grid(base, method=arms(points))
    return cells


def _methods(scale: Scale, base: TrialConfig) -> dict[str, dict[str, Any]]:
    others = other_encodings(addition(scale))
    longest = max(base.eval.test_lengths)
    hints = others["index hints"]
    fire = hints | others["randomized positions"] | {"position.encoding": "fire"}
    num_tokens = override(base, hints).task.num_tokens(longest)
    found = {
        "coupling": sharp(scale),
        "Abacus": ABACUS,
        "FIRE, index hints, randomized positions": fire | {"position.max_position": 2 * num_tokens},
        "randomized positions": others["randomized positions"],
        "index hints": hints,
    }
    return found | (
        {"Abacus, start to 100": ABACUS | {"position.max_start": 100}} if scale == "paper" else {}
    )


def mean_tokens(config: TrialConfig) -> float:
    """Tokens of an example of the training mixture, padding of the batch left out.

    Unpadded responses count as long as the longer operand: a last carry is not counted.
    """
    task, data = config.task, config.data
    assert isinstance(task, Addition)
    lengths = range(data.min_length, data.max_length + 1)
    total = 0
    for a, b in product(lengths, repeat=2):
        longest = max(a, b)
        digits = 3 * longest + 1 if task.zero_pad else a + b + longest
        total += 4 + (6 * (longest + 1) if task.index_hints else digits)  # two $, + and =
    return total / len(lengths) ** 2


SWEEP = Sweep(
    title="Addition: methods of other groups at equal training tokens",
    cells=cells,
    seeds={"smoke": "2", "laptop": "2x2@700", "paper": "4x2"},
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
