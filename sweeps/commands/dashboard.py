"""MLflow for a store: `python -m sweeps mirror` completes it, `dashboard` serves its pages."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from pcore.cli.parser import first_line
from pcore.cli.text import plural
from sweeps.commands.catalogue import chosen_views
from sweeps.engine.launch.mirror.target import find_shown, find_target
from sweeps.engine.options import open_store


def complete_mirror(
    results: str | None,
    sweeps: Sequence[str],
    scale: str | None,
    tracking_uri: str | None,
) -> int:
    """Add what MLflow lacks of these sweeps (none = all) at this scale (None = all)."""
    store = open_store(results)
    target, failed, mirror = find_target(store, tracking_uri), False, None
    for view in chosen_views(store, sweeps, scale, searches=True):
        (shown,), problem = find_shown(store, [view]), ""
        try:
            from sweeps.engine.launch.mirror.process import Mirror  # mlflow comes with it

            mirror = mirror or Mirror(target, [])  # one: it has checked what is stored
            mirror.views = [view]
            mirror.update()
            mirror.settle()
        except Exception as error:  # whatever the tracking server does
            problem = f"{type(error).__name__}: {first_line(error)}"
        said = problem or f"{plural(len(shown.labels), 'trial')} in {target.uri}"
        print(f"{shown.title}: {said}")
        failed = failed or bool(problem)
    return 1 if failed else 0


def show_dashboard(results: str | None, tracking_uri: str | None, port: int) -> int:
    """Serve MLflow's pages over a store until Ctrl-C. They are filled once; launches add what they
    run. Where a tracking server is asked for, show there what it lacks.

    Raises ValueError if the port is taken, or a server fails.
    """
    store = open_store(results)
    target = find_target(store, tracking_uri)
    if target.database is None:
        code = complete_mirror(results, (), None, tracking_uri)
        print(f"MLflow: {target.uri}")
        return code
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except (OSError, OverflowError) as error:
        text = f"port {port} cannot be used ({first_line(error)}); choose another with --port"
        raise ValueError(f"{text}, or make dashboard PORT=5001") from None
    try:
        from sweeps.engine.launch.mirror.process import Mirror
        from sweeps.engine.launch.mirror.tracking import connect

        connect(target)  # who serves the database and who fills it find it there
        mirror = Mirror(target, [view for _, view in store.names()])
        with _serve(target.database, target.home, port) as server:
            try:
                print(f"MLflow: http://127.0.0.1:{port} in some seconds, until Ctrl-C", flush=True)
                mirror.update()
                return 1 if server.wait() else 0
            finally:
                server.terminate()
    except KeyboardInterrupt:
        return 0
    except Exception as error:  # of whatever is in the place of the database
        raise ValueError(f"{target.uri}: {first_line(error)[:200]}") from error


def _serve(database: Path, home: str, port: int) -> subprocess.Popen[bytes]:
    """MLflow's server over the database of a mirror."""
    command = [sys.executable, "-m", "mlflow", "server", "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{database.name}"]
    command += ["--artifacts-destination", f"{home}/mlartifacts"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--uvicorn-opts", "--log-level=warning"]
    # against DNS rebinding by web pages
    command += ["--allowed-hosts", f"localhost:{port},127.0.0.1:{port}"]
    quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    variables = os.environ | quiet | {"DO_NOT_TRACK": "true"}
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    return subprocess.Popen(command, cwd=database.parent, env=variables)
