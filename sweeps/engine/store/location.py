"""Finds the results folder, for everything that reads or writes results."""

import os
import subprocess
from pathlib import Path

from pyarrow.fs import FileType

from sweeps.engine.store.folder import Folder

PUBLISHED = Path(__file__).parents[3] / "results" / "published"  # of a checkout


def find_results(option: str | None) -> str:
    """The results folder: the option, $PCORE_RESULTS, ./results; in a Ray job ~/pcore-results,
    since a job's folder is temporary. Raises ValueError for what cannot be one.
    """
    if option is not None and not option.strip():
        raise ValueError("the results folder has an empty name")
    if chosen := option or os.environ.get("PCORE_RESULTS"):
        try:
            folder = Folder(chosen)
            is_file = not folder.remote and folder.local.exists() and not folder.local.is_dir()
        except (RuntimeError, OSError) as error:  # no such user after ~, name too long
            raise ValueError(f"results folder {chosen[:80]!r}: {error}"[:300]) from error
        if is_file:
            raise ValueError(f"{folder} is a file, not a results folder")
        return folder.uri
    here = Path.cwd()
    if "working_dir_files" in here.parts or os.environ.get("RAY_JOB_SUBMISSION_ID"):
        return str(Path.home() / "pcore-results")
    return str(here / "results")


def find_existing(option: str | None) -> str:
    """The results folder, for commands that only read. Raises ValueError if one was named and
    it does not exist, since a typo would look like a sweep that never ran.
    """
    results = find_results(option)
    if option is not None:
        folder = Folder(results)
        with folder.wrap_errors():
            if folder.filesystem.get_file_info(folder.base).type == FileType.NotFound:
                raise ValueError(f"there is no results folder {results}")
    return results


def find_reports(folder: Folder) -> Path:
    """The folder for tables and figures: beside the rows; ./reports for an object store, and
    ./results/reports/... for rows that git tracks.
    """
    if folder.remote:
        return Path("reports")
    return find_apart(folder, "reports") or folder.local / "reports"


def find_apart(folder: Folder, kind: str) -> Path | None:
    """Where a mirror or page of rows that git tracks is kept, ./results/KIND/: nothing is written
    beside what is published. None for all other rows.
    """
    if not is_tracked(folder):
        return None
    path = folder.local
    return Path.cwd() / "results" / kind / f"{path.parent.name}-{path.name}"


def is_tracked(folder: Folder) -> bool:
    """Whether git tracks the views of a results folder: its rows are published."""
    if folder.remote:
        return False
    command = ["git", "-C", str(folder.local), "ls-files", "--", "views"]
    try:
        return bool(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    except OSError:  # neither git nor a folder
        return False


def check_not_published(folder: Folder) -> None:
    """Raise ValueError if training would add to published rows: in a folder `published`, and
    tracked by git.
    """
    if not folder.remote and "published" in folder.local.parts and is_tracked(folder):
        raise ValueError(
            f"{folder} holds published rows, and training would add to them; copy them to train "
            f"beside them: python -m sweeps merge {folder} results"
        )
