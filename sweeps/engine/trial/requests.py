"""Requests to cancel or resume a trial, left as files in the store:
`RESULTS/cancelled/<trial_id>.txt` and `RESULTS/resumed/<trial_id>.txt`.
"""

from sweeps.engine.store.folder import Folder
from sweeps.engine.store.names import KINDS


def ask_to_cancel(folder: Folder, name: str, reason: str) -> None:
    """Ask for the end of a trial: its attempt sees it at its next report, or when it begins."""
    folder.delete(_resumption_name(name))
    folder.write(_request_name(name), reason.encode())


def asked_to_cancel(folder: Folder, name: str) -> str:
    """Why the trial has to end, in a sentence; empty if nobody asked."""
    try:
        return folder.read(_request_name(name)).decode(errors="replace")
    except FileNotFoundError:
        return ""


def forget_request(folder: Folder, name: str) -> None:
    """It was followed: the trial may be started again."""
    folder.delete(_request_name(name))


def ask_to_resume(folder: Folder, name: str) -> None:
    """Take a request back, whether it was followed or not."""
    folder.write(_resumption_name(name), b"")
    folder.delete(_request_name(name))


def resumed_trials(folder: Folder) -> set[str]:
    """Trials whose cancellation was taken back: plans run them again."""
    found = (KINDS["resumption"].fullmatch(entry.name) for entry in folder.list("resumed"))
    return {match["trial"] for match in found if match}


def _request_name(name: str) -> str:
    return f"cancelled/{name}.txt"


def _resumption_name(name: str) -> str:
    return f"resumed/{name}.txt"
