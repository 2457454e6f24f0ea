"""What is mirrored and where: rows, tracking server, and records of what it already shows."""

import contextlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from sweeps.engine.store.folder import Folder
from sweeps.engine.store.location import find_apart
from sweeps.engine.store.store import Store

if TYPE_CHECKING:  # plans know prices, which the process of the mirror does not need
    from sweeps.engine.plan import Plan

Point: TypeAlias = tuple[str, float, int]  # name of a metric, value, step


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """What MLflow shows of a sweep, or a search, at a scale. labels: the cell of each trial, by
    trial id; those of a search become more while it runs.
    """

    sweep: str
    scale: str
    claim: str
    labels: dict[str, str]
    search: bool = False

    @property
    def view(self) -> str:
        return f"{self.sweep}-{self.scale}"

    @property
    def title(self) -> str:
        """The name of its experiment."""
        return f"{self.sweep} [{self.scale}]"


def shown_plan(plan: "Plan", search: bool = False) -> Shown:
    """A plan, for the mirror. search: of a search, as far as it has come."""
    labels = {planned.trial.id: planned.trial.cell.label for planned in plan.trials}
    claim = plan.sweep.claim
    return Shown(sweep=plan.sweep.name, scale=plan.scale, claim=claim, labels=labels, search=search)


def shown_view(store: Store, sweep: str, scale: str) -> Shown:
    """A view of the store, of a sweep or a search, for the mirror. Raises ValueError if there is
    none.
    """
    search = store.folder.exists(f"searches/{sweep}-{scale}.parquet")
    rows = store.load_view(sweep, scale, "searches" if search else "views").to_pylist()
    labels = {row["trial_id"]: row["cell"] for row in rows}
    return Shown(sweep=sweep, scale=scale, claim=rows[0]["claim"], labels=labels, search=search)


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """Where a mirror is: the rows it shows, the tracking URI, and the folder of what belongs to it
    (its database, artifacts, notes of what was mirrored).
    """

    results: str
    uri: str
    home: str

    @property
    def database(self) -> Path | None:
        """The file of the database, where no server is between."""
        if not self.uri.startswith("sqlite:///"):
            return None
        return Path(self.uri.removeprefix("sqlite:///"))

    def shows(self, store: Store, shown: Shown, report: Path) -> bool:
        """Whether MLflow shows all rows of a sweep and its report, according to the notes."""
        notes, visible = self.read_notes(shown.view), store.visible()
        wanted = {name: visible[name].name for name in shown.labels if name in visible}
        return wanted.items() <= notes.items() and notes.get("artifacts") == stamp(report)

    def read_notes(self, view: str) -> dict[str, str]:
        """The name of the shard that MLflow shows, by trial id; empty if the database is gone."""
        if self.database and not self.database.exists():
            return {}
        try:
            saved = json.loads(Folder(self.home).read(_notes_file(view)))
            return dict(saved["written"]) if saved["uri"] == self.uri else {}
        except (OSError, ValueError, TypeError, LookupError):
            return {}

    def write_notes(self, view: str, written: Mapping[str, str]) -> None:
        """Write the notes; a trial missing from them is mirrored again, replacing its old run."""
        text = json.dumps({"uri": self.uri, "written": written})
        with contextlib.suppress(OSError):
            Folder(self.home).write(_notes_file(view), text.encode())


def _notes_file(view: str) -> str:
    return f"mirrored/{view}.json"


def find_target(store: Store, tracking_uri: str | None, home: Path | None = None) -> Target:
    """The mirror of a store: at the option, $MLFLOW_TRACKING_URI, or in an SQLite file in the
    results folder (in the working folder if the results are remote).

    home: instead of the results folder, for rows that nothing may be written beside.
    """
    uri = tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or local_uri(store, home)
    return Target(results=store.root, uri=uri, home=str(home or store.root))


def find_home(store: Store) -> Path | None:
    """Where the mirror of rows that git tracks is: nothing is written beside what is published."""
    return find_apart(store.folder, "dashboard")


def local_uri(store: Store, home: Path | None = None) -> str:
    """The tracking URI of a store without a server."""
    folder = home or (Path.cwd() if store.folder.remote else store.folder.local)
    return f"sqlite:///{folder / 'mlflow.db'}"


def stamp(folder: Path) -> str:
    """Names and sizes of the report's files, to see whether they changed."""
    files = sorted(folder.glob("*")) if folder.is_dir() else []
    return ";".join(f"{file.name}:{file.stat().st_size}" for file in files)


def match_name(policy: str, second_length: int | None) -> str:
    """The metric that holds exact match by length (its step)."""
    return f"{policy}/exact_match_by_length" + (f"_{second_length}" if second_length else "")


def best_scores(store: Store, view: str) -> dict[str, dict[int, float]]:
    """The lowest near score of each arm of a search so far, by the number of configurations tried;
    only those trained to the end count. Empty until the search has ended.
    """
    found: dict[str, dict[int, float]] = {}
    with contextlib.suppress(FileNotFoundError):
        for arm, winner in json.loads(store.folder.read(f"searches/{view}.json")).items():
            best, longest = math.inf, max(tried["num_steps"] for tried in winner["tried"])
            found[arm] = {}
            for number, tried in enumerate(winner["tried"], start=1):
                if tried["num_steps"] == longest:
                    best = found[arm][number] = min(best, tried["near_score"])
    return found
