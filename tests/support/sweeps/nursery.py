"""Imported by the server that forks the sweep of `faulty`, before its first child: it runs it
once. What that imports, hashes and measures, every child has from birth.
"""

import contextlib
import os
import tempfile

os.environ |= {"FAULT_ARMS": "1", "FAULT_STEPS": "2"}
os.environ["OMP_NUM_THREADS"] = "1"  # threads would not survive a fork

import tests.support.sweeps.processes  # noqa: F401  what a child begins with
from tests.support.disk import dont_wait
from tests.support.sweeps import faulty

os.fsync = dont_wait
flags = ["--scale", "smoke", "--seeds", "1", "--executor", "inline", "--no-mlflow", "--no-report"]
with (
    tempfile.TemporaryDirectory() as results,
    open(os.devnull, "w") as nothing,
    contextlib.redirect_stdout(nothing),
):
    assert faulty.main(faulty.make_sweep(), [*flags, "--results", results]) == 0
