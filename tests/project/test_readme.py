"""The worked examples of README run as printed: own encoding, own task; and every named file
exists.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PYTHON_BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.fixture
def own_code(tmp_path):
    """A folder with the two modules of the README, as a user would have them."""
    encoding, task = PYTHON_BLOCKS
    (tmp_path / "my_encodings.py").write_text(encoding)
    (tmp_path / "my_tasks.py").write_text(task)
    return tmp_path


def pcore(folder: Path, command: str) -> str:
    run = [sys.executable, "-m", "pcore.cli", *command.split()[1:]]
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", ["my_encodings:Decay", "my_tasks:Swap"])
def test_the_worked_examples_pass_their_checks_and_train(own_code, name):
    lines = [line.strip() for line in README.splitlines() if name in line]
    commands = [line for line in lines if line.startswith("pcore ")]
    assert len(commands) == 2, commands
    for command in commands:
        output = pcore(own_code, command)
    assert "exact match" in output.lower()


def test_the_example_sweep_takes_an_own_encoding(own_code):
    code = (
        "from sweeps.baseline import addition\n"
        "from sweeps.engine.spec import arms, grid\n"
        "cells = grid(addition('smoke'), "
        "arm=arms({'mine': {'position.encoding': 'my_encodings:Decay'}}))\n"
        "print(cells[0].label, cells[0].config.position.encoding)"
    )
    assert "grid(addition(scale), arm=arms({" in README
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=own_code, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == ["mine", "my_encodings:Decay"], done.stderr


def test_every_file_that_the_tree_names_exists():
    tree = README.split("## What is where")[1].split("## Tests")[0]
    folder = ROOT
    for line in tree.splitlines():
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        for name in re.findall(r"[\w./]+\.(?:py|md)\b|\b[\w/]+/(?=\s|$)", line):
            if indent == 4 and name.endswith("/"):
                folder = ROOT / name
                assert folder.is_dir(), name
                break
            place = ROOT / name if indent == 4 or name.startswith("tasks/__") else folder / name
            assert (folder / name).exists() or place.exists(), f"{name} in: {line}"
