"""A machine with torch, numpy and jaxtyping alone trains; with pyarrow it runs sweeps inline. From
a copy of the code, without the git folder.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.tiny_config import TINY

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = ("ray", "mlflow", "optuna", "pandas", "scipy", "matplotlib", "seaborn", "psutil")
LIBRARIES += ("sqlalchemy",)
ABSENT = """
import sys
from importlib.util import find_spec
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
assert not any(map(find_spec, absent))
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


def test_pcore_trains_alone_and_a_sweep_runs_inline_without_what_only_others_need(tmp_path):
    """In one process, which trains first, and runs a sweep when it has more libraries."""
    for package in ("pcore", "sweeps", "analysis"):  # as somebody would copy it onto a machine
        shutil.copytree(ROOT / package, tmp_path / package)
    absent = {*LIBRARIES, "pyarrow", "beartype", "sweeps", "analysis"}
    code = TRAIN.format(tiny=TINY) + SWEEP.format(libraries=set(LIBRARIES))
    done = subprocess.run(
        [sys.executable, "-c", ABSENT.format(absent=absent) + code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    file, step, examples = done.stdout.splitlines()[0].split()
    assert Path(file).is_relative_to(tmp_path)
    assert (int(step), int(examples)) == (12, 5 * 32)
    assert "0 failed" in done.stdout
    assert len(list((tmp_path / "results" / "trials").rglob("*-ok-*.parquet"))) == 2
