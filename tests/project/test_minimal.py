"""A machine with torch, numpy and jaxtyping alone trains; with pyarrow it runs sweeps inline. From
a copy of the code, without the git folder.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tiny_config import TINY

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = ("ray", "mlflow", "optuna", "pandas", "scipy", "matplotlib", "seaborn", "psutil")
LIBRARIES += ("sqlalchemy",)
ABSENT = """
import sys
absent = {absent!r}
class Without:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            return None
        return self.finder.find_spec(name, path, target)
    def __getattr__(self, name):
        return getattr(self.finder, name)
sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
"""
TRAIN = """
from importlib import import_module
from pkgutil import walk_packages
import pcore
for module in walk_packages(pcore.__path__, "pcore."):
    if not module.name.endswith("__main__"):
        import_module(module.name)
from pcore.config import TrialConfig, override
from pcore.training import train
*_, last = train(override(TrialConfig(), {tiny!r}))
print(pcore.__file__, last.step, sum(r.counts.num_examples for r in last.results))
"""
SWEEP = """
absent.intersection_update({libraries!r})
from sweeps.__main__ import main
flags = "--scale smoke --seeds 1 --executor inline --no-mlflow --no-report --results results"
sys.exit(main(["run", "max_position_ablation", *flags.split()]))
"""


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """The code of the three packages as somebody would copy it onto a machine."""
    folder = tmp_path_factory.mktemp("copied")
    for package in ("pcore", "sweeps", "analysis"):
        shutil.copytree(ROOT / package, folder / package)
    return folder


def run(folder: Path, absent: tuple[str, ...], code: str) -> str:
    """What a program prints there; any import of an absent library fails."""
    done = subprocess.run(
        [sys.executable, "-c", ABSENT.format(absent=set(absent)) + code],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def printed(copied):
    """What one process prints that trains first, and runs a sweep when it has more libraries."""
    absent = (*LIBRARIES, "pyarrow", "beartype", "sweeps", "analysis")
    code = TRAIN.format(tiny=TINY) + SWEEP.format(libraries=set(LIBRARIES))
    return run(copied, absent, code)


def test_pcore_trains_with_torch_numpy_and_jaxtyping_alone(copied, printed):
    file, step, examples = printed.splitlines()[0].split()
    assert Path(file).is_relative_to(copied)
    assert (int(step), int(examples)) == (12, 5 * 32)


def test_a_sweep_runs_inline_without_ray_mlflow_pandas_and_git(copied, printed):
    assert "0 failed" in printed
    shards = list((copied / "results" / "trials").rglob("*-ok-*.parquet"))
    assert len(shards) == 2


@pytest.mark.parametrize("library", ["ray", "torch"])
def test_an_absent_library_is_absent(copied, library):
    with pytest.raises(AssertionError, match=f"No module named '{library}'"):
        run(copied, (library,), f"import {library}")
