"""Makes MLflow show a store: once, or again and again while a launch runs.

`Mirror.update` is idempotent. It compares what MLflow shows with the results folder and adds what
is missing, so it may be interrupted, repeated and run by several processes.
"""

import contextlib
import fcntl
import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any

from pcore.cli.parser import first_line
from sweeps.engine.launch.mirror.target import Target, View, find_shown, report_of
from sweeps.engine.launch.mirror.tracking import Experiment, connect
from sweeps.engine.store.store import Store
from sweeps.engine.trial import running
from sweeps.engine.trial.running import Observer

NICENESS = 5  # trials come first
LOOK = 4.0  # seconds between two looks at the results folder
RETRY_SECONDS = 30.0  # until a server that failed is asked again
SHARE = 0.2  # of the time, at most, that looking takes


class Mirror:
    """MLflow, as a mirror of these views of a store."""

    def __init__(
        self, target: Target, views: Sequence[View], tick: Callable[[], None] = lambda: None
    ):
        """tick: called whenever something came to its end."""
        self.target, self.views, self.tick = target, views, tick
        self.store = Store(target.results)
        self.observer = Observer(self.store.folder)
        self.client: Any = None
        self.looked = 0.0  # seconds that the last look at the results folder took
        self.experiments: dict[str, Experiment] = {}

    def update(self) -> None:
        """Show what MLflow lacks. Raises what the tracking server raises; the next call connects
        again.
        """
        try:
            self._update()
        except BaseException:
            self.client, self.experiments = None, {}
            raise

    def settle(self) -> None:
        """End also the runs of processes on other machines that have fallen silent, which a single
        look cannot know. Waits once for each of them, not for each of the views.
        """
        heard = max((since for *_, since in self.observer.seen.values()), default=-math.inf)
        if (wait := heard + running.PATIENCE + 1.0 - time.monotonic()) > 0:
            time.sleep(wait)
            self.update()

    def _update(self) -> None:
        with alone(self.target):
            if self.client is None:
                self.client = connect(self.target)
                self.tick()
            began, found = time.monotonic(), self.observer.look()
            visible, shown = self.store.visible(), find_shown(self.store, self.views)
            self.looked = time.monotonic() - began
            for one in shown:
                if one.view not in self.experiments:
                    made = Experiment(self.client, one, self.store, self.target, self.tick)
                    self.experiments[one.view] = made
                report = report_of(self.store, one)
                self.experiments[one.view].update(one, visible, found, report)


@contextlib.contextmanager
def alone(target: Target) -> Generator[None]:
    """A lock: two processes that complete one database would add the same trial twice. A file
    system without locks has none.
    """
    if target.database is None:
        yield
        return
    target.database.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{target.database}.lock", "w") as lock:
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def follow(
    target: Target, views: Sequence[View], over: threading.Event, tick: Callable[[], None]
) -> str:
    """Keep MLflow up to date until it is over; what went wrong at last, in a sentence."""
    mirror, wait = Mirror(target, views, tick), 0.0
    while True:
        last, problem = over.wait(wait), ""
        try:
            mirror.update()
        except Exception as error:  # whatever the tracking server does
            problem = f"{type(error).__name__}: {first_line(error)[:200]}"
        if last:
            return problem
        wait = RETRY_SECONDS if problem else max(LOOK, mirror.looked / SHARE)


def _give_sign() -> None:
    """Of life, to a launch that may be dead."""
    with contextlib.suppress(OSError):
        print(flush=True)


def main() -> int:
    """Follow the launch at the other end of standard input, until that ends."""
    os.nice(NICENESS)
    order, over = json.loads(sys.argv[1]), threading.Event()

    def listen() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=listen, daemon=True).start()
    views = [(sweep, scale) for sweep, scale in order["views"]]
    print(follow(Target(**order["target"]), views, over, _give_sign), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
