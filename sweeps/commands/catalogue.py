"""Finds sweeps: every script in `sweeps/` that defines SWEEP, and scripts named by path."""

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pcore.registry import nearest
from sweeps.engine.changes import is_script
from sweeps.engine.spec import SCRIPTS, Scale, Sweep, own_errors
from sweeps.tables import TABLES

if TYPE_CHECKING:  # they import pyarrow, which `list` does not need
    from sweeps.engine.store.address import TrialAddress
    from sweeps.engine.store.store import Store


def sweep_names() -> list[str]:
    """Names of the sweeps of pcore, sorted."""
    files = [file for file in SCRIPTS.glob("*.py") if not file.stem.startswith("_")]
    return sorted(file.stem for file in files if "\nSWEEP = " in file.read_text())


def find_sweep(name: str) -> Sweep:
    """The sweep with this name (`depth_ablation`) or script path (`my/own_sweep.py`).

    Raises ValueError that suggests the closest name.
    """
    known = sweep_names()
    path = Path(name)
    if path.suffix == ".py" and path.resolve().parent != SCRIPTS:
        if not path.is_file():
            raise ValueError(f"no sweep script {name}")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        is_new = sys.modules.setdefault(path.stem, module) is module  # dataclasses look there
        try:
            with own_errors(f"sweep script {name}"):
                spec.loader.exec_module(module)
        finally:
            if is_new:
                del sys.modules[path.stem]
    elif path.stem in known:
        module = importlib.import_module(f"sweeps.{path.stem}")
    else:
        if Path(script := f"{path.stem}.py").is_file():
            raise ValueError(f"no sweep {name!r}; name a sweep of your own by its script: {script}")
        own = "A sweep of your own is named by its script, like my_sweep.py."
        hint = nearest(path.stem, known)
        raise ValueError(f"no sweep {name!r}.{hint if '?' in hint else f' {own}{hint}'}")
    sweep = getattr(module, "SWEEP", None)
    if not isinstance(sweep, Sweep):
        hint = (
            f"; a search is run by its script: python {name}" if hasattr(module, "SEARCH") else ""
        )
        raise ValueError(f"{name} defines no SWEEP{hint}")
    return sweep


class Listed(NamedTuple):
    """A sweep at a scale, for commands that show its trials and run none."""

    sweep: str
    scale: str
    title: str
    trials: "Sequence[TrialAddress]"


def list_sweep(sweep: Sweep, scale: Scale, seeds: str | None = None) -> Listed:
    """The trials that a launch of this sweep would ask for."""
    from sweeps.engine.store.address import TrialAddress

    trials = [
        TrialAddress(sweep.name, scale, t.cell.label, t.config.seed, t.config.data_seed, t.id)
        for t in sweep.trials(scale, seeds)
    ]
    return Listed(sweep.name, scale, sweep.title, trials)


def list_stored(name: str, scale: Scale, store: "Store") -> Listed | None:
    """The trials that the last launch of a changed sweep, or of somebody's own, asked for; None if
    the store has none of this name. Raises ValueError for one at other scales, and for a search.
    """
    from sweeps.engine.store.address import TrialAddress

    scales = [] if is_script(name) else [s for stored, s in store.view_names() if stored == name]
    if ("searches", name) in ((kind, stored) for kind, (stored, _) in store.names()):
        raise ValueError(f"{name} is a search: python -m analysis search {name}")
    if not scales:
        return None
    if scale not in scales:
        raise ValueError(f"{store.root} has {name!r} at --scale {' and '.join(scales)} only")
    rows = store.load_view(name, scale).to_pylist()
    trials = [TrialAddress(*(row[field] for field in TrialAddress._fields)) for row in rows]
    return Listed(name, scale, rows[0]["title"], trials)


def find_to_run(name: str, store: "Store") -> Sweep:
    """`find_sweep`. Where the name is that of a changed sweep in the store, the ValueError says
    which command makes it.
    """
    try:
        return find_sweep(name)
    except ValueError as error:
        for (stored, scale), rows in store.views().items():
            if stored == name and (command := rows.column("command")[0].as_py()):
                raise ValueError(
                    f"{name!r} is a changed sweep; repeat the command that made it: {command} "
                    f"--scale {scale}"
                ) from error
        raise


def chosen_views(
    store: "Store", names: Sequence[str], scale: str | None = None, searches: bool = False
) -> list[tuple[str, str]]:
    """(sweep, scale) of the views of a store: of these sweeps (none = all), at this scale or all.
    The name of a changed sweep is known by its views alone. searches: also those of searches.

    Raises ValueError if there are none.
    """
    existing = store.view_names() + (list(store.views("searches")) if searches else [])
    stored = {name for name, _ in existing}
    wanted = {name if name in stored else find_sweep(name).name for name in names}
    views = [
        view for view in existing if (not wanted or view[0] in wanted) and scale in (None, view[1])
    ]
    if not views:
        raise ValueError(f"{store.root} holds no such view")
    return views


def find_table(name: str) -> list[Sweep]:
    """The sweeps of a table of the report; a sweep is a table too.

    Raises ValueError naming the nearest.
    """
    known = sweep_names()
    if name in TABLES:
        return [find_sweep(member) for member in TABLES[name]]
    if name in known:
        return [find_sweep(name)]
    raise ValueError(f"no table {name!r}.{nearest(name, [*TABLES, *known])}")
