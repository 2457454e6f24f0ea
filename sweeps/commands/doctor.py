"""`python -m sweeps doctor`: can this machine and the cluster run sweeps?"""

import os
import platform
import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from pcore.cli.parser import first_line
from pcore.cli.text import plural
from sweeps.engine.executors import Resources, count_cpus
from sweeps.engine.options import open_store
from sweeps.engine.store.store import Store
from sweeps.engine.trial.provenance import ROOT

PACKAGES = ("torch", "ray", "mlflow", "pyarrow", "optuna")


class Finding(NamedTuple):
    """The result of one check. fix: what to do; empty if nothing is wrong."""

    what: str
    state: str
    fix: str = ""


def examine(results: str | None, tracking_uri: str | None, ray_address: str | None) -> int:
    """Print every finding; 1 if one needs a fix."""
    store = open_store(results)
    address = ray_address or os.environ.get("RAY_ADDRESS")
    found = [*_machine(), _storage(store), _tracking(store, tracking_uri)]
    found += _cluster(store, address)
    width = max(len(one.what) for one in found)
    for what, state, fix in found:
        print(f"  {'!!' if fix else 'ok'}  {what:<{width}}  {state}")
        if fix:
            print(f"      {'':<{width}}  fix: {fix}")
    bad = sum(bool(one.fix) for one in found)
    print(f"\n{bad} of {len(found)} need a fix" if bad else f"\nall {len(found)} checks passed")
    return 1 if bad else 0


def _machine() -> Iterable[Finding]:
    files = [ROOT / name for name in ("requirements.lock", "requirements-torch.lock")]
    text = "\n".join(file.read_text() for file in files if file.is_file())
    pinned = dict(re.findall(r"^([\w.-]+)(?:\[.*\])?==([^\s;]+)", text, re.MULTILINE))
    yield Finding("Python", platform.python_version())
    for name in PACKAGES:
        try:
            have, want = version(name), pinned.get(name, "")
        except PackageNotFoundError:
            yield Finding(name, "not installed", "make .venv/installed")
            continue
        same = not want or have.split("+")[0] == want
        yield Finding(name, have, "" if same else f"pip install {name}=={want}")
    import torch

    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    yield Finding("CPUs", f"{count_cpus()}, load {os.getloadavg()[0]:.1f}")
    yield Finding("GPUs", ", ".join(gpus) or "none (--device cpu)")


def _storage(store: Store) -> Finding:
    try:
        store.prepare()
    except ValueError as error:
        return Finding("results", str(error), "another --results, or its permissions, credentials")
    return Finding("results", f"{store.root} can be written")


def _tracking(store: Store, tracking_uri: str | None) -> Finding:
    from sweeps.engine.launch.mirror.target import find_target
    from sweeps.engine.launch.mirror.tracking import check_server

    uri = find_target(store, tracking_uri).uri
    problem = check_server(uri)
    fix = "start the server, or leave it: rows are kept, `python -m sweeps mirror` catches up"
    return Finding("MLflow", problem or uri, fix if problem else "")


def _cluster(store: Store, address: str | None) -> Iterable[Finding]:
    if not address:
        yield Finding("Ray", "embedded: every run starts its own on this machine")
        return
    from sweeps.engine.executors.ray_cluster import describe_cluster, ray_session

    try:
        with ray_session(address, Resources(), store) as slots:
            yield Finding("Ray", f"{address}: {plural(slots, 'trial')} at once")
            yield from (Finding("node", line) for line in describe_cluster())
    except (ValueError, ConnectionError, RuntimeError) as error:
        fix = "the head's address, RAY_AUTH_MODE and token, same code and shared results"
        yield Finding("Ray", first_line(error), fix)
