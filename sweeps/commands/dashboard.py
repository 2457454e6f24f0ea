"""MLflow for a store: `python -m sweeps mirror` rebuilds it, `dashboard` serves its pages."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import webbrowser
from collections.abc import Generator, Sequence
from typing import get_args

from pcore.cli.parser import first_line
from pcore.cli.text import plural
from sweeps.commands.catalogue import chosen_views
from sweeps.engine.launch.mirror.target import (
    Follower,
    Target,
    View,
    find_home,
    find_shown,
    find_target,
    is_shown,
)
from sweeps.engine.options import open_store
from sweeps.engine.store.names import Views

START_SECONDS = 180.0  # for MLflow's server to answer
SCREENS = {"DISPLAY", "WAYLAND_DISPLAY", "BROWSER"}  # if one is set, there is a browser


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
                from sweeps.engine.launch.mirror.process import Mirror  # mlflow comes with it

                mirror = Mirror(target, [view])
                mirror.update(force=not missing)
                mirror.settle()
        except Exception as error:  # whatever the tracking server does
            problem = f"{type(error).__name__}: {first_line(error)}"
        print(
            f"{shown.title}: "
            + (problem or f"{plural(len(shown.labels), 'trial')} in {target.uri}")
        )
        failed = failed or bool(problem)
    return 1 if failed else 0


def show_dashboard(
    results: str | None, tracking_uri: str | None, port: int, browser: bool = True
) -> int:
    """Serve MLflow's pages over a store until Ctrl-C, filled and kept up to date meanwhile. Where a
    tracking server is asked for, show there what it lacks.

    Raises ValueError if the port is taken, or a server fails.
    """
    store = open_store(results)
    target = find_target(store, tracking_uri, find_home(store))
    if target.database is None:
        code = rebuild_mirror(results, (), None, tracking_uri, missing=True)
        _point(target.uri, browser)
        return code
    _check_port(port)
    try:
        from sweeps.engine.launch.mirror.tracking import connect

        connect(target)  # who serves the database and who fills it find it there
    except Exception as error:  # of whatever is in its place
        raise ValueError(f"{target.uri}: {first_line(error)[:200]}") from error
    views = [view for kind in get_args(Views) for view in store.names(kind)]
    address, code = f"http://127.0.0.1:{port}", None
    with _server(target, port, views) as server, contextlib.suppress(KeyboardInterrupt):
        if _answers(f"{address}/health", server):
            _point(address, browser)
        code = server.wait()
    if code is not None:
        raise ValueError(f"MLflow's server ended with code {code}")
    print()
    return 0


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            text = f"port {port} cannot be used ({error.strerror}); choose another with --port"
            raise ValueError(f"{text}, or make dashboard PORT=5001") from None


@contextlib.contextmanager
def _server(target: Target, port: int, views: Sequence[View]) -> Generator[subprocess.Popen[bytes]]:
    """MLflow's server over the database of the mirror, which is kept up to date, until the end of
    the block.
    """
    assert target.database is not None
    command = [sys.executable, "-m", "mlflow", "server", "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{target.database.name}"]
    command += ["--artifacts-destination", f"{target.home}/mlartifacts"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--uvicorn-opts", "--log-level=warning"]
    # against DNS rebinding by web pages
    command += ["--allowed-hosts", f"localhost:{port},127.0.0.1:{port}"]
    quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    variables = os.environ | quiet | {"DO_NOT_TRACK": "true"}
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    server = subprocess.Popen(command, cwd=target.database.parent, env=variables)
    follower = Follower(target, views)
    try:
        yield server
    finally:
        follower.end()
        server.terminate()
        server.wait()


def _answers(url: str, server: "subprocess.Popen[bytes]") -> bool:
    """Wait until it does, or the server ends."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and server.poll() is None:
        with contextlib.suppress(OSError):
            direct.open(url, timeout=5).close()
            return True
        time.sleep(0.25)
    return False


def _point(address: str, browser: bool) -> None:
    """Say where the pages are, and open them."""
    print(f"MLflow: {address}", flush=True)
    if browser and (sys.platform != "linux" or os.environ.keys() & SCREENS):
        with contextlib.suppress(webbrowser.Error):
            webbrowser.open(address)
