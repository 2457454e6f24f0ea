"""What computes nothing answers soon: without the libraries that take long to import."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import pcore

ROOT = Path(__file__).parents[2]
PUBLISHED = str(ROOT / "results" / "published" / "laptop")
ARMS = "encoding_ablation/NoPE encoding_ablation/RoPE"
HEAVY = (
    *("torch", "pandas", "scipy", "ray", "mlflow", "optuna"),
    *("matplotlib", "seaborn", "sqlalchemy"),
)
CODE = """
import io, json, runpy, sys
from contextlib import redirect_stdout
heavy, *commands = json.loads(sys.argv[1])
for command in commands:
    sys.argv = command.split()
    printed = io.StringIO()
    run = runpy.run_path if sys.argv[0].endswith(".py") else runpy.run_module
    try:
        with redirect_stdout(printed):
            run(sys.argv[0], run_name="__main__")
    except SystemExit as ended:
        assert not ended.code, (command, ended.code)
    print(json.dumps([command, sorted(set(heavy) & set(sys.modules)), printed.getvalue()]))
"""
WITHOUT_TORCH = {
    "pcore --help": "attention",
    "sweeps --help": "merge",
    "sweeps list": "depth_ablation",
    "sweeps/depth_ablation.py --help": "--axis",
    "sweeps/packing_search.py --help": "--configurations",
    f"sweeps status --results {PUBLISHED}": "thousand_digits",
    f"sweeps why 8de3c8c7ce08a348 --results {PUBLISHED}": "exact match over all lengths: train",
}
WITH_PANDAS = {
    "analysis --help": "compare",
    f"analysis compare {ARMS} --results {PUBLISHED}": "B − A",
}
WITH_TORCH = {
    f"sweeps status depth_ablation --results {PUBLISHED} --seeds 2": "coupling, 1 layer",
    f"sweeps plan depth_ablation --results {PUBLISHED}": "0 to run",
    f"sweeps/depth_ablation.py --plan --results {PUBLISHED}": "0 to run",
}


@pytest.mark.parametrize(
    ("commands", "allowed"),
    [
        (WITHOUT_TORCH, []),
        (WITH_PANDAS, ["pandas"]),
        pytest.param(WITH_TORCH, ["torch"], marks=pytest.mark.slow),
    ],
    ids=["none", "pandas", "torch"],
)
def test_commands_that_compute_nothing_import_nothing_heavy(commands, allowed):
    arguments = json.dumps([HEAVY, *commands])
    run = [sys.executable, "-c", CODE, arguments]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [command for command, _, _ in answers] == list(commands)
    for command, heavy, printed in answers:
        assert commands[command] in printed
        assert heavy == allowed, command


def test_pcore_gives_its_names_when_they_are_asked_for():
    assert all(getattr(pcore, name) is not None for name in pcore.__all__)
    assert set(pcore.__all__) <= set(dir(pcore))
    assert not hasattr(pcore, "nothing")
