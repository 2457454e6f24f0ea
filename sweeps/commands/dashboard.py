"""MLflow for a store: `python -m sweeps mirror` rebuilds it, `dashboard` serves its pages."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
import webbrowser
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, get_args

from pcore.cli.parser import first_line
from pcore.cli.text import plural
from sweeps.commands.catalogue import chosen_views
from sweeps.engine.launch.mirror.charts import page
from sweeps.engine.launch.mirror.target import (
    Follower,
    Shown,
    Target,
    View,
    find_home,
    find_shown,
    find_target,
    is_shown,
)
from sweeps.engine.options import open_store
from sweeps.engine.store.names import Views
from sweeps.engine.store.store import Store

START_SECONDS = 180.0  # for MLflow's server to answer
MAX_LINKS = 20  # links to print, latest sweeps first
LAST_LINES = 20  # of the log of a server that ended by itself


def rebuild_mirror(
    results: str | None,
    sweeps: Sequence[str],
    scale: str | None,
    tracking_uri: str | None,
    missing: bool = False,
) -> int:
    """Rewrite the MLflow runs of these sweeps (none = all) at this scale (None = all). missing: add
    only those that MLflow lacks.
    """
    store = open_store(results)
    target, failed = find_target(store, tracking_uri), False
    for view in chosen_views(store, sweeps, scale, searches=True):
        (shown,), problem = find_shown(store, [view]), ""
        try:
            if not (missing and is_shown(target, store, [view])):
                _update(target, view, force=not missing)
        except Exception as error:  # whatever the tracking server does
            problem = f"{type(error).__name__}: {first_line(error)}"
        print(
            f"{shown.title}: "
            + (problem or f"{plural(len(shown.labels), 'trial')} in {target.uri}")
        )
        failed = failed or bool(problem)
    return 1 if failed else 0


def _update(target: Target, view: View, force: bool = False) -> None:
    from sweeps.engine.launch.mirror.process import Mirror  # mlflow comes with it

    mirror = Mirror(target, [view])
    mirror.update(force)
    mirror.settle()


def show_dashboard(
    results: str | None, tracking_uri: str | None, port: int, browser: bool = True
) -> int:
    """Mirror what MLflow lacks, serve its pages until Ctrl-C, print the addresses of the charts and
    open the first. What the server says goes to a file beside its database.

    Raises ValueError if the port is taken, or the server ends by itself.
    """
    store = open_store(results)
    target = find_target(store, tracking_uri, find_home(store))
    views = _views(store)
    shown = find_shown(store, views)
    if target.database is None:
        _complete(store, target, views)
        _point(target.uri.rstrip("/"), shown, browser)
        return 0
    _check_port(port)
    _complete(store, target, views)
    log = target.database.with_name(f"dashboard-{port}.log")
    with _server(target, port, log) as server, _followed(target, views):
        address = f"http://127.0.0.1:{port}"
        if _answers(address, server):
            _point(address, shown, browser)
            print(f"press Ctrl-C to stop; MLflow's log: {log}", flush=True)
            _show_errors(log, server)
        last = log.read_text(errors="replace").splitlines()[-LAST_LINES:]
        print(*last, sep="\n", file=sys.stderr)
        raise ValueError(f"MLflow's server ended with code {server.poll()}; its log: {log}")
    return 0


def _views(store: Store) -> list[tuple[str, str]]:
    """(sweep, scale) of the views, those of searches too, latest first."""
    when: dict[tuple[str, str], float] = {}
    for views in get_args(Views):
        files = {entry.name: entry.modified for entry in store.folder.list(views)}
        for sweep, scale in store.views(views):
            when[sweep, scale] = files.get(f"{views}/{sweep}-{scale}.parquet", 0.0)
    return sorted(when, key=lambda view: -when[view])


def _complete(store: Store, target: Target, views: Sequence[View]) -> None:
    """Mirror what is missing; import MLflow only if something is. Raises ValueError if the tracking
    server fails.
    """
    from sweeps.engine.launch.mirror.tracking import connect

    try:
        for view in views:
            if not is_shown(target, store, [view]):
                (one,) = find_shown(store, [view])
                print(f"mirroring {one.title}: {plural(len(one.labels), 'trial')}", flush=True)
                _update(target, view)
        if target.database and not target.database.exists():
            connect(target)
    except Exception as error:  # whatever the tracking server does
        raise ValueError(f"{target.uri}: {first_line(error)[:200]}") from error


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            text = f"port {port} cannot be used ({error.strerror}); choose another with --port"
            raise ValueError(f"{text}, or make dashboard PORT=5001") from None


@contextlib.contextmanager
def _server(target: Target, port: int, log: Path) -> Generator[subprocess.Popen[bytes]]:
    """MLflow's server over the database of the mirror, until the end of the block."""
    assert target.database is not None
    folder, uri = target.database.parent, f"sqlite:///{target.database.name}"
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", uri]
    command += ["--artifacts-destination", f"{target.home}/mlartifacts", "--workers", "1"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    # against DNS rebinding by web pages
    command += ["--allowed-hosts", f"localhost:{port},127.0.0.1:{port}"]
    quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    variables = os.environ | quiet | {"DO_NOT_TRACK": "true"}
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    with log.open("wb") as out:
        server = subprocess.Popen(
            command, cwd=folder, env=variables, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        yield server
    except KeyboardInterrupt:
        print()
    finally:
        signal.signal(signal.SIGTERM, before)
        server.terminate()
        server.wait()


@contextlib.contextmanager
def _followed(target: Target, views: Sequence[View]) -> Generator[None]:
    """What runs is shown while it runs, until the end of the block."""
    follower = Follower(target, views)
    try:
        yield
    finally:
        follower.end()


def _show_errors(log: Path, server: "subprocess.Popen[bytes]") -> None:
    """Print errors of the log as they come, until the server ends."""
    with log.open(errors="replace") as lines:
        while server.poll() is None:
            for line in lines:
                if " ERROR" in line:
                    print(line, end="", file=sys.stderr, flush=True)
            time.sleep(0.5)


def _answers(address: str, server: "subprocess.Popen[bytes]") -> bool:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and server.poll() is None:
        with contextlib.suppress(OSError):
            _open(f"{address}/health", 5).close()
            return True
        time.sleep(0.25)
    return False


def _open(url: str, patience: float) -> Any:
    """The answer of a server; this machine's is not asked through a proxy."""
    local = url.startswith("http://127.0.0.1")
    proxies = [urllib.request.ProxyHandler({})] if local else []
    return urllib.request.build_opener(*proxies).open(url, timeout=patience)


def _point(address: str, shown: Sequence[Shown], browser: bool) -> None:
    """Print where the charts of each sweep are, and open the first."""
    found = {one.title: _experiment(address, one.title) for one in shown[:MAX_LINKS]}
    links = {title: page(address, name) for title, name in found.items() if name}
    width = max(map(len, links), default=0)
    for title, link in links.items():
        print(f"  {title:<{width}}  {link}")
    if len(shown) > MAX_LINKS:
        print(f"  ... and {len(shown) - MAX_LINKS} more")
    first = next(iter(links.values()), f"{address}/#/experiments?workflowType=machine_learning")
    print(f"charts: {first}", flush=True)
    if browser and (sys.platform != "linux" or os.environ.keys() & SCREENS):
        with contextlib.suppress(webbrowser.Error):
            webbrowser.open(first)


SCREENS = {"DISPLAY", "WAYLAND_DISPLAY", "BROWSER"}  # if one is set, there is a browser


def _experiment(address: str, title: str) -> str:
    """The id of an experiment, asked from the server; empty if it has none of this name."""
    query = urllib.parse.urlencode({"experiment_name": title})
    url = f"{address}/api/2.0/mlflow/experiments/get-by-name?{query}"
    try:
        with _open(url, 30) as answer:
            return json.load(answer)["experiment"]["experiment_id"]
    except OSError:
        return ""
