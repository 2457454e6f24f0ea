"""Every row of docs/faults.md names tests that exist."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_fault_has_a_test_that_exists():
    rows = [
        line
        for line in (ROOT / "docs" / "faults.md").read_text().splitlines()
        if line.startswith("| ") and not line.startswith("| fault |")
    ]
    assert len(rows) > 20
    for row in rows:
        nodes, file = re.findall(r"`([\w./]+)::(\w+)`", row), ""
        assert nodes, row
        for path, name in nodes:
            file = file if path == "..." else path
            tree = ast.parse((ROOT / file).read_text())
            assert name in {getattr(node, "name", "") for node in tree.body}, f"{file}::{name}"
