"""What `pip install` installs: `pcore` alone; an editable installation has all of a checkout."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = "import setuptools.build_meta as b; b.build_wheel('wheel'); b.build_editable('editable')"


def test_the_wheel_has_pcore_alone_and_a_checkout_has_all(tmp_path):
    for name in ("pcore", "sweeps", "analysis"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("wheel", "editable"):
        (tmp_path / name).mkdir()
    subprocess.run([sys.executable, "-c", BUILD], cwd=tmp_path, check=True, capture_output=True)
    (wheel,) = (tmp_path / "wheel").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"pcore"}
    assert "pcore/py.typed" in names
    (editable,) = (tmp_path / "editable").glob("*.whl")
    with zipfile.ZipFile(editable) as files:
        (path,) = [name for name in files.namelist() if name.endswith(".pth")]
        assert files.read(path).decode().strip() == str(tmp_path)
