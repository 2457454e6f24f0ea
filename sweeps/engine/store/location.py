"""Where results are kept, for everything that writes or reads them."""

import os
from pathlib import Path

from sweeps.engine.store.folder import Folder


def find_results(option: str | None) -> str:
    """The results folder: the option, $PCORE_RESULTS, ./results; in a Ray job ~/pcore-results,
    since a job's folder is temporary.
    """
    if chosen := option or os.environ.get("PCORE_RESULTS"):
        return Folder(chosen).uri
    here = Path.cwd()
    if "working_dir_files" in here.parts or os.environ.get("RAY_JOB_SUBMISSION_ID"):
        return str(Path.home() / "pcore-results")
    return str(here / "results")
