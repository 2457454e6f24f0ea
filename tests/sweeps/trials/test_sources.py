"""The hash of the code: of what is computed, not of how files are arranged."""

import ast
import shutil
from pathlib import Path

import pytest

import pcore
from pcore.config import trial_id
from sweeps.baseline import addition
from sweeps.engine.trial.sources import (
    KIND,
    definitions,
    hash_definitions,
    hash_sources,
    is_same_code,
    read_parts,
)

ALPHA = '''"""About alpha."""
import math

__all__ = ["RATE", "area"]
RATE = 0.5  # of change


def area(radius: float) -> float:
    """The area of a circle."""
    from os import path

    return math.pi * radius**2
'''


def hashed(*sources: str) -> str:
    return hash_definitions(definitions(sources))


def test_hashes_of_fixed_sources_are_golden():
    assert hashed(ALPHA) == "a1:e4a98cc84a6c"
    assert trial_id(addition("smoke")) == "c6810116385ee850"


@pytest.mark.parametrize(
    "same",
    [
        (ALPHA.replace("About alpha.", "Reworded."),),
        (ALPHA.replace("The area of a circle.", "Reworded."),),
        (ALPHA.replace("import math\n", "import math\nimport os\n"),),
        (ALPHA.replace("  # of change", ""),),
        (ALPHA.replace("math.pi * radius**2", "(math.pi * radius ** 2)"),),
        ("RATE = 0.5\n", "import math\n" + ALPHA[ALPHA.index("def area") :]),
        ("", ALPHA),
    ],
    ids=["title", "docstring", "import", "comment", "format", "split", "empty file"],
)
def test_the_arrangement_of_code_changes_nothing(same):
    assert hashed(*same) == hashed(ALPHA)


@pytest.mark.parametrize(
    ("old", "new"), [("0.5", "0.6"), ("radius**2", "radius**3"), ("RATE", "RATIO")]
)
def test_what_is_computed_decides(old, new):
    changed = ALPHA.replace(old, new)
    assert (hashed(changed) == hashed(ALPHA)) == (changed == ALPHA)


def test_a_moved_file_of_pcore_keeps_the_hash_and_a_changed_number_does_not(tmp_path):
    folder = tmp_path / "pcore"
    shutil.copytree(Path(pcore.__path__[0]), folder, ignore=shutil.ignore_patterns("__pycache__"))
    assert hash_definitions(definitions(read_parts(folder))) == hash_sources()
    (folder / "training" / "train.py").rename(folder / "model" / "moved.py")
    assert hash_definitions(definitions(read_parts(folder))) == hash_sources()
    file = folder / "model" / "moved.py"
    tree = ast.parse(file.read_text())
    number = next(
        node for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value == 1
    )
    number.value = 7
    file.write_text(ast.unparse(tree))
    assert hash_definitions(definitions(read_parts(folder))) != hash_sources()


def test_rows_of_another_hash_or_kind_of_hash_are_of_other_code():
    assert is_same_code(hash_sources()) is True
    assert is_same_code(KIND + "0" * 12) is False
    assert is_same_code("8b111613ef82") is False
    assert is_same_code(None) is None
