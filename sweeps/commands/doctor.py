"""`python -m sweeps doctor`: checks machine, storage and servers."""

import os
import platform
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pcore.cli.parser import first_line
from pcore.cli.text import plural
from sweeps.engine.executors import Resources
from sweeps.engine.launch.leases import LaunchLease
from sweeps.engine.options import open_store
from sweeps.engine.store.store import Store
from sweeps.engine.trial.provenance import ROOT

PACKAGES = ("torch", "ray", "mlflow", "pyarrow", "optuna")


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """The result of one check."""

    what: str
    state: str
    fix: str = ""  # what to do; empty if nothing is wrong


def examine(results: str | None, tracking_uri: str | None, ray_address: str | None) -> int:
    """Print every finding; 1 if one needs a fix."""
    store = open_store(results)
    address = ray_address or os.environ.get("RAY_ADDRESS")
    findings = [*_machine(), *_storage(store), *_tracking(store, tracking_uri)]
    findings += [*_authentication(address), *_cluster(store, address)]
    width = max(len(f.what) for f in findings)
    for f in findings:
        print(f"  {'!!' if f.fix else 'ok'}  {f.what:<{width}}  {f.state}")
        if f.fix:
            print(f"      {'':<{width}}  fix: {f.fix}")
    bad = sum(bool(f.fix) for f in findings)
    print(
        f"\n{bad} of {len(findings)} need a fix" if bad else f"\nall {len(findings)} checks passed"
    )
    return 1 if bad else 0


def _machine() -> Iterable[Finding]:
    pinned = _pinned()
    yield Finding(what="Python", state=platform.python_version())
    for name in PACKAGES:
        try:
            have = version(name)
        except PackageNotFoundError:
            yield Finding(what=name, state="not installed", fix="make .venv/installed")
            continue
        want = pinned.get(name, "")
        same = not want or have.split("+")[0] == want
        fix = "" if same else f"pip install {name}=={want} (requirements.lock)"
        yield Finding(what=name, state=have, fix=fix)
    memory = _free_memory()
    cpus = len(os.sched_getaffinity(0))
    need = 0.5 * cpus  # a worker with torch takes about 0.4 GB
    yield Finding(what="CPUs", state=f"{cpus}, load {os.getloadavg()[0]:.1f}")
    yield Finding(
        what="free memory",
        state=f"{memory:.1f} GB",
        fix="" if memory > need else f"{need:.1f} GB for {cpus} trials; use --cpus-per-trial",
    )
    import torch

    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    yield Finding(what="GPUs", state=", ".join(gpus) or "none (--device cpu)")


def _pinned() -> dict[str, str]:
    files = [ROOT / name for name in ("requirements.lock", "requirements-torch.lock")]
    text = "\n".join(file.read_text() for file in files if file.is_file())
    return dict(re.findall(r"^([\w.-]+)(?:\[.*\])?==([^\s;]+)", text, re.MULTILINE))


def _free_memory() -> float:
    try:
        text = Path("/proc/meminfo").read_text()
        line = next(line for line in text.splitlines() if line.startswith("MemAvailable"))
        return int(line.split()[1]) / 1e6
    except (OSError, StopIteration):
        return float("inf")


def _storage(store: Store) -> Iterable[Finding]:
    try:
        store.prepare()
    except ValueError as error:
        fix = "choose another folder with --results, or fix its permissions or credentials"
        yield Finding(what="results", state=str(error), fix=fix)
        return
    yield Finding(what="results", state=f"{store.root} can be written")
    if not store.folder.remote:
        free = shutil.disk_usage(store.root).free / 1e9
        fix = "" if free > 1 else "free some space, or python -m sweeps gc --weights --yes"
        yield Finding(what="free disk", state=f"{free:.1f} GB", fix=fix)
    for other in LaunchLease(store.folder).living(remove=False):
        yield Finding(what="running", state=f"{other} holds {plural(len(other.trials), 'trial')}")


def _tracking(store: Store, tracking_uri: str | None) -> Iterable[Finding]:
    from sweeps.engine.launch.mirror.target import find_target
    from sweeps.engine.launch.mirror.tracking import check_server

    uri = find_target(store, tracking_uri).uri
    problem = check_server(uri)
    fix = "start the server, or leave it: rows are kept, `python -m sweeps mirror` catches up"
    yield Finding(what="MLflow", state=problem or uri, fix=fix if problem else "")


def _authentication(address: str | None) -> Iterable[Finding]:
    mode = os.environ.get("RAY_AUTH_MODE", "")
    token = os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")
    file = Path.home() / ".ray" / "auth_token"
    state = f"RAY_AUTH_MODE={mode or 'not set'}, token " + (
        "in the environment" if token else f"in {file}" if file.is_file() else "absent"
    )
    fix = ""
    if address and mode == "token" and not token and not file.is_file():
        fix = "copy the head's ~/.ray/auth_token here, or set RAY_AUTH_TOKEN"
    if address and not mode:
        fix = "set RAY_AUTH_MODE=token on the head and here (disabled only on loopback)"
    yield Finding(what="Ray authentication", state=state, fix=fix)


def _cluster(store: Store, address: str | None) -> Iterable[Finding]:
    if not address:
        yield Finding(what="Ray", state="embedded: every run starts its own on this machine")
        return
    from sweeps.engine.executors.ray_cluster import describe_cluster, ray_session

    try:
        with ray_session(address, Resources(), store) as slots:
            yield Finding(what="Ray", state=f"{address}: {plural(slots, 'trial')} at once")
            for line in describe_cluster():
                yield Finding(what="node", state=line)
    except (ValueError, ConnectionError, RuntimeError) as error:
        fix = "see the message; the head's address, its token, same code and shared results"
        yield Finding(what="Ray", state=first_line(error), fix=fix)
