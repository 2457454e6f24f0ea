"""What is mirrored and where: rows, tracking server, and the process that brings them together.

Parquet is the record; MLflow shows it. A launch starts a process that repeats "make MLflow show
this store" (`process`) until the launch is over, and waits for it only at its own end.
"""

import contextlib
import json
import os
import select
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sweeps.engine.store.location import find_apart, find_reports
from sweeps.engine.store.names import Views
from sweeps.engine.store.store import Store

ROOT = Path(__file__).resolve().parents[4]
PATIENCE = 60.0  # seconds without a sign of life after which the end of a launch waits no longer
ESCAPED = {"%": "%25", "?": "%3F"}  # what means something in the address of a database
View = tuple[str, str]  # sweep, scale


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """What MLflow shows of a sweep, or a search, at a scale. labels: the cell of each trial."""

    sweep: str
    scale: str
    claim: str
    labels: Mapping[str, str]
    search: bool

    @property
    def view(self) -> str:
        return f"{self.sweep}-{self.scale}"

    @property
    def title(self) -> str:
        """The name of its experiment."""
        return f"{self.sweep} [{self.scale}]"


def find_shown(store: Store, views: Iterable[View]) -> list[Shown]:
    """These views of the store, of sweeps or searches; those that do not exist yet are left out."""
    found = list[Shown]()
    stored: dict[View, Views] = {view: kind for kind, view in store.names()}
    for sweep, scale in views:
        kind = stored.get((sweep, scale))
        if kind is None:
            continue
        rows = store.load_view(sweep, scale, kind).to_pylist()
        labels = {row["trial_id"]: row["cell"] for row in rows}
        search = kind == "searches"
        claim = rows[0]["claim"] or ""
        found.append(Shown(sweep=sweep, scale=scale, claim=claim, labels=labels, search=search))
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """Where a mirror is: the rows it shows, the tracking URI, and the folder of what belongs to it
    (its database and artifacts).
    """

    results: str
    uri: str
    home: str

    @property
    def database(self) -> Path | None:
        """The file of the database, where no server is between."""
        if not self.uri.startswith("sqlite:///"):
            return None
        path = self.uri.removeprefix("sqlite:///").partition("?")[0]
        for char, text in reversed(ESCAPED.items()):
            path = path.replace(text, char)
        return Path(path)

    @property
    def is_own(self) -> bool:
        """Whether it is the database of this store alone, which moves with it."""
        return self.database is not None and self.database.parent == Path(self.home)


def find_target(store: Store, tracking_uri: str | None) -> Target:
    """The mirror of a store: at the option, $MLFLOW_TRACKING_URI, or in an SQLite file in the
    results folder (in the working folder if the results are remote).
    """
    home = find_apart(store.folder, "dashboard")
    folder = home or (Path.cwd() if store.folder.remote else store.folder.local)
    asked = tracking_uri or os.environ.get("MLFLOW_TRACKING_URI")
    uri = asked or sqlite_uri(folder / "mlflow.db")
    return Target(results=store.root, uri=uri, home=str(home or store.root))


def sqlite_uri(file: Path) -> str:
    """The tracking URI of a database."""
    return "sqlite:///" + str(file).translate(str.maketrans(ESCAPED))


def report_of(store: Store, shown: Shown) -> Path:
    """The folder of the table and figures of a sweep."""
    return find_reports(store.folder) / shown.view


class Follower:
    """The process that keeps MLflow up to date while a launch runs. It is in a session of its own:
    Ctrl-C is for the launch, whose end it sees by its standard input, however the launch ends.
    """

    def __init__(self, target: Target, views: Sequence[View]):
        self.target = target
        paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
        order = json.dumps({"target": asdict(target), "views": views})
        self.process: subprocess.Popen[bytes] = subprocess.Popen(
            [sys.executable, "-m", "sweeps.engine.launch.mirror.process", order],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
            start_new_session=True,
        )

    def close(self, wait: bool) -> None:
        """The launch is over; wait until MLflow shows it, and say in a sentence if it does not."""
        for pipe in (self.process.stdin, *(() if wait else (self.process.stdout,))):
            with contextlib.suppress(OSError):
                if pipe:
                    pipe.close()
        if not wait:
            return
        answer = self._last_words()
        if answer is None:
            self.process.kill()
            answer = f"{self.target.uri} took longer than {PATIENCE:.0f} s"
        elif code := self.process.wait():
            answer = f"its process ended with code {code}"
        with self.process:  # which closes its pipes
            pass
        if answer:
            command = ["python", "-m", "sweeps", "mirror", "--results", self.target.results]
            command += [] if self.target.is_own else ["--tracking-uri", self.target.uri]
            print(
                f"MLflow mirror incomplete ({answer}); the rows in {self.target.results} are "
                f"complete, and `{shlex.join(command)}` shows them",
                file=sys.stderr,
                flush=True,
            )

    def _last_words(self) -> str | None:
        """The last line of its output; None if it is silent for too long."""
        said, out = b"", self.process.stdout
        assert out is not None
        while select.select([out], [], [], PATIENCE)[0]:
            if not (data := os.read(out.fileno(), 1 << 16)):
                return "".join(said.decode(errors="replace").splitlines()[-1:])
            said += data
        return None
