"""The hash of the code: of what training computes, not of how files are arranged."""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import pcore
from pcore.config import TrialConfig, override, trial_id
from pcore.training import train
from sweeps.baseline import addition
from sweeps.engine.store.sources import (
    KIND,
    SAME,
    SAME_AS,
    hash_of,
    hash_sources,
    is_same_code,
    reached,
    read_modules,
)
from tests.support.tiny_config import TINY

MAIN = '''"""About main."""
from lib.rates import RATE, area as circle
import math

__all__ = ["train"]


def train(radius: float) -> float:
    """The mass of a disc."""
    if radius < 0:
        raise ValueError(f"radius={radius} is negative")
    assert RATE, "no rate"
    height = RATE * 2  # of water
    return math.sqrt(circle(radius)) * height
'''
RATES = """
import math

RATE = 0.5


def area(radius):
    return math.pi * radius**2 + len(f"{radius}a" "b")


def unused(x):
    return x
"""
CODE = {"lib.main": MAIN, "lib.rates": RATES, "lib.other": "RATE = 0.7\n"}
ROOT_OF_CODE = [("lib.main", "train")]


def hashed(changes: dict[str, str]) -> str:
    return hash_of(CODE | changes, ROOT_OF_CODE)


def test_hashes_of_fixed_sources_are_golden():
    assert hashed({}) == "a2:fee25c99cbd4"
    assert trial_id(addition("smoke")) == "c6810116385ee850"


@pytest.mark.parametrize(
    "same",
    [
        {"lib.main": MAIN.replace("The mass of a disc.", "Reworded.")},
        {"lib.main": MAIN.replace("is negative", "is below 0").replace("no rate", "it is 0")},
        {"lib.main": MAIN.replace("radius: float", "radius").replace(" -> float", " -> None")},
        {"lib.main": MAIN.replace("  # of water", "").replace("RATE * 2", "(RATE*2)")},
        {
            "lib.main": MAIN.replace(
                "from lib.rates import RATE, area as circle", "from lib import rates"
            )
            .replace("RATE", "rates.RATE")
            .replace("circle", "rates.area")
        },
        {"lib.main": MAIN.replace("import math", "from math import sqrt").replace("math.", "")},
        {"lib.rates": RATES.replace("return x", "return 2 * x")},
        {"lib.rates": "from lib.moved import RATE, area\n", "lib.moved": RATES},
    ],
    ids=("docstring", "error", "annotation", "format", "module", "import", "not reached", "moved"),
)
def test_the_arrangement_of_code_changes_nothing(same):
    assert CODE | same != CODE
    assert hashed(same) == hashed({})


@pytest.mark.parametrize(
    "other",
    [
        {"lib.rates": RATES.replace("0.5", "0.6")},
        {"lib.rates": RATES.replace("radius**2", "radius**3")},
        {"lib.rates": RATES.replace("}a", "}c")},
        {"lib.main": MAIN.replace("import math", "import numpy as math")},
        {
            "lib.main": MAIN.replace("import RATE, area", "import area").replace(
                "import math", "from lib.other import RATE\nimport math"
            )
        },
        {"lib.main": MAIN + "train.slow = True\n"},
    ],
    ids=("number", "formula", "text", "import", "another of the same name", "statement"),
)
def test_what_is_computed_decides(other):
    assert CODE | other != CODE
    assert hashed(other) != hashed({})


def test_two_definitions_of_one_name_are_told_apart():
    """Swapped between their files, each user computes with the other one."""
    code = {"lib.a": "K = 1\ndef f():\n    return K\n", "lib.b": "K = 2\ndef g():\n    return K\n"}
    main = {
        "lib.main": "from lib.a import f\nfrom lib.b import g\ndef train():\n    return f(), g()\n"
    }
    swapped = {name: text.translate({49: "2", 50: "1"}) for name, text in code.items()}
    assert hash_of(code | main, ROOT_OF_CODE) != hash_of(swapped | main, ROOT_OF_CODE)


VARIED: list[dict[str, Any]] = [
    {"position.encoding": "learned", "eval.checkpoints": "last,best,oracle"},
    {
        "position.encoding": "residues",
        "position.moduli": "3,5,7",
        "data.problems_per_row": 4,
        "position.max_position": 40,
    },
    {"position.encoding": "rotary", "position.ids": "sequential", "model.norm": "layer"},
    {"position.encoding": "fire", "model.attention": "contextual"},
    {"task.name": "minesweeper", "data.min_length": 2, "eval.train_lengths": "2-3"},
    {"task.name": "multiplication", "model.mixer": "pcore.mixing:GatedLinear"},
]


@pytest.mark.parametrize(
    "changes", VARIED, ids=lambda changes: " ".join(map(str, changes.values()))
)
def test_whatever_training_calls_is_part_of_the_hash(changes):
    config = override(TrialConfig(), TINY | {"optim.num_steps": 2} | changes)
    called: set[tuple[str, str]] = set()

    def record(frame: FrameType, event: str, argument: Any) -> None:
        home = frame.f_globals.get("__name__", "")
        generated = frame.f_code.co_filename == "<string>"  # methods of dataclasses
        if event == "call" and home.startswith("pcore.") and not generated:
            called.add((home, frame.f_code.co_qualname.partition(".")[0]))

    sys.setprofile(record)
    try:
        list(train(config))
    finally:
        sys.setprofile(None)
    called = {(home, name) for home, name in called if not name.startswith("<")}
    assert ("pcore.training", "train") in called
    assert called <= set(reached(read_modules(Path(pcore.__path__[0]))))


def test_the_list_of_equal_hashes_is_about_the_current_code():
    """After a change that keeps every number (`replicate` of a stratified sample is identical):
    SAME_AS becomes the new hash, and the old one an entry of SAME. After any other: no entries."""
    assert not SAME or hash_sources() == SAME_AS


def test_rows_of_another_hash_or_kind_of_hash_are_of_other_code():
    assert is_same_code(hash_sources()) is True
    assert all(is_same_code(code_hash) for code_hash in SAME)
    assert is_same_code(KIND + "0" * 12) is False
    assert is_same_code("8b111613ef82") is False
    assert is_same_code(None) is None
