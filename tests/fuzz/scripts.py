"""Sweep scripts: fields, values, ways to combine them, names and seeds, good and bad ones mixed."""

import math
import random
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from pcore.config import TrialConfig, flatten
from tests.fuzz.checkpoints import SEEDS, VALUES

FIELDS = tuple(flatten(TrialConfig()))
ODD_FIELDS = ("model", "model.depth", "colour", "", "seed", "a.b.c", 3, None)
FINITE = [value for value in VALUES if not isinstance(value, float) or math.isfinite(value)]
GOOD = ("1, 2", "2", "'none', 'rotary'", "'copy', 'addition'", "0.5", "True", "'5-9'", "10, 12, 14")
POINTS = (
    "arms({'a': {}, 'b': {'model.num_layers': 2}})",
    *("arms({'': {}})", "arms({'a\\nb': {}})", "arms({1: {}})", "arms({'a': 3})"),
    *("()", "3", "None"),
)
CELLS = (
    *("grid(BASE{axes})", "zipped(BASE{axes})", "one_at_a_time(BASE, 'base'{axes})"),
    *("grid(BASE{axes}) + grid(BASE{axes})", "grid(BASE{axes})[:1] * 2", "grid(None{axes})"),
    *("[]", "None", "[1]", "1 / 0", "'text'", "exit(3)", "{}[scale]", "iter(grid(BASE{axes}))"),
    *("[Cell(label='x', config=BASE)]", "[Cell(label=3, config=BASE)]", "[Cell(label='x')]"),
    *("[Cell(label='x', config=None)]", "grid(override(BASE, {'model.num_layers': 0}){axes})"),
)
NAMES = ("fuzzed", "fuzzed", "depth_ablation", "", "../x", "a/b", None, 3, "a\nb", "x" * 300)
TEXTS = ("", None, "a\nb", 3, "ünïcödé <b>")
REPLICATES = (
    *({"smoke": text} for text in ("2x2@5", "0", "", "1000000000", "x", 2)),
    *({}, None, "2"),
)
HEAD = """
from pcore.config import TrialConfig, override
from sweeps.baseline import addition
from sweeps.engine.spec import Cell, Sweep, arms, axis, grid, one_at_a_time, zipped

BASE = addition("smoke")
"""


@st.composite
def scripts(draw: st.DrawFn) -> str:
    """The text of a script."""
    rng = random.Random(draw(SEEDS))

    def choose(good: Sequence[Any], bad: Sequence[Any]) -> Any:
        return rng.choice(good if rng.random() < 0.85 else bad)

    named = ""
    for name in rng.sample("abc", rng.randrange(3)):
        field = choose(FIELDS, ODD_FIELDS)
        values = choose(GOOD, [*map(repr, FINITE)])
        points = f"axis({field!r}, {values})"
        named += f", {name}={points if rng.random() < 0.7 else rng.choice(POINTS)}"
    facts = {
        "name": choose(("fuzzed",), NAMES),
        "title": choose(("A title",), TEXTS),
        "claim": choose(("A claim.",), TEXTS),
        "seeds": choose(({"smoke": "2"},), REPLICATES),
    }
    words = [f"{name}={value!r}" for name, value in facts.items() if rng.random() < 0.98]
    cells = choose(CELLS[:3], CELLS[3:]).replace("{axes}", named)
    return f"{HEAD}\nSWEEP = Sweep({', '.join(words)}, cells=lambda scale: {cells})\n"
