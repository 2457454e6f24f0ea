"""Files as they may arrive: checkpoints with other bytes, settings or weights; sweep scripts."""

import io
import random
from collections.abc import Sequence
from typing import Any

import torch

from pcore.config import TrialConfig, flatten
from tests.support.damage import KINDS

VALUES = (
    *(None, True, -1, 0, 1, 3, 10**6, 10**12, 10**30, 1.5, float("nan"), float("inf"), [], [1], {}),
    *("", "x", "9-5", "1-999999999", "os:abort", "none", "addition", b"x", "\n"),
)
FIELDS = (*flatten(TrialConfig()), "model", "model.depth", "")


# Checkpoints


def damage_checkpoint(data: bytes, rng: random.Random) -> bytes:
    """A file with damaged bytes, or of changed contents."""
    if rng.random() < 0.5:
        return rng.choice(KINDS)(data, rng)
    change, file = rng.choice((change_settings, change_weights, replace)), io.BytesIO()
    torch.save(change(torch.load(io.BytesIO(data), weights_only=True), rng), file)
    return file.getvalue()


def change_settings(payload: dict[str, Any], rng: random.Random) -> Any:
    """A field of the configuration with another value, missing or unknown."""
    config, name = payload["config"], rng.choice(FIELDS)
    config[name] = rng.choice(VALUES)
    if rng.random() < 0.15:
        del config[name]
    return payload


def change_weights(payload: dict[str, Any], rng: random.Random) -> Any:
    """A tensor of another shape or type, not finite, or none."""
    name, w = rng.choice(list(payload["model"].items()))
    odd = (
        *(w * float("nan"), torch.zeros(3, 3), torch.ones((1,) * 30), w.double() * 1e300),
        *(w.long(), w.to(torch.complex64), w.to_sparse(), w.half()),
        *(w.new_zeros(()).expand(w.shape), None, [1.0], "text"),
    )
    payload["model"][name] = rng.choice(odd)
    return payload


class _Call:
    """A pickle that would call something."""

    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("called",)


def replace(payload: dict[str, Any], rng: random.Random) -> Any:
    """Something else as settings, as weights, or as the whole."""
    odd = ({}, [], None, 3, {1: 2}, {"task.name": None}, [payload], {"config": payload}, _Call())
    part, other = rng.choice(("config", "model", "")), rng.choice(odd)
    return payload | {part: other} if part else other


# Scripts

GOOD = ("1, 2", "2", "'none', 'rotary'", "'copy', 'addition'", "0.5", "True", "'5-9'", "10, 12, 14")
POINTS = (
    "arms({'a': {}, 'b': {'model.num_layers': 2}})",
    *("arms({'': {}})", "arms({'a\\nb': {}})", "arms({1: {}})", "arms({'a': 3})", "()", "3"),
)
CELLS = (
    *("grid(BASE{axes})", "zipped(BASE{axes})", "one_at_a_time(BASE, 'base'{axes})"),
    *("grid(BASE{axes}) + grid(BASE{axes})", "grid(BASE{axes})[:1] * 2", "grid(None{axes})"),
    *("[]", "None", "[1]", "1 / 0", "'text'", "exit(3)", "{}[scale]", "iter(grid(BASE{axes}))"),
    *("[Cell(label='x', config=BASE)]", "[Cell(label=3, config=BASE)]", "[Cell(label='x')]"),
    *("[Cell(label='x', config=None)]", "grid(override(BASE, {'model.num_layers': 0}){axes})"),
)
FACTS = ("'fuzzed'", "'A title'", "'A claim'", "{'smoke': '2'}", "'2'")
ODD = (*VALUES, "depth_ablation", "../x", "a/b", "x" * 300, "2x2@5", "1000000000", "ünïcödé <b>")
SCRIPT = """
from pcore.config import TrialConfig, override
from sweeps.baseline import addition
from sweeps.engine.spec import Cell, Sweep, arms, axis, grid, one_at_a_time, zipped

BASE = addition("smoke")
SWEEP = Sweep(
    name='fuzzed', title='A title', claim='A claim', seeds={'smoke': '2'}, cells=lambda scale: CELLS
)
"""


def make_script(rng: random.Random) -> str:
    """The text of a script: fields, values, cells, names and seeds, good and bad ones mixed."""

    def choose(good: Sequence[str], bad: Sequence[str]) -> str:
        return rng.choice(good if rng.random() < 0.7 else bad)

    axes = ""
    for name in rng.sample("abc", rng.randrange(3)):
        values = choose(GOOD, [*map(repr, VALUES)])
        points = f"axis({rng.choice(FIELDS)!r}, {values})"
        axes += f", {name}={points if rng.random() < 0.7 else rng.choice(POINTS)}"
    cells = choose(CELLS[:3], CELLS[3:]).replace("{axes}", axes)
    fact = rng.choice(FACTS)
    text = SCRIPT.replace(fact, choose([fact], [*map(repr, ODD)]))
    return text.replace("CELLS", cells)
