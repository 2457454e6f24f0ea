"""Views: which trials belong to which cell of a sweep. Each launch that adds some writes one more
file, and the view of a sweep is the union of them; no file is changed.

    RESULTS/views/<sweep>-<scale>+<hash of the rows>.parquet
    RESULTS/views/<sweep>-<scale>.parquet                      of before, replaced by every launch

A label stands for the cell that it had in the newest launch: trials of another cell that was called
so are left out, and a cell that was renamed has its newest label.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from sweeps.engine.store.checks import name_once, read_view
from sweeps.engine.store.folder import Entry, Folder
from sweeps.engine.store.names import Views, parse_name, parse_view
from sweeps.engine.store.schema import VIEW, view_schema
from sweeps.engine.store.seal import BadFile, seal

Row: TypeAlias = dict[str, Any]
OF_LAUNCH = ("title", "claim", "command", "script")  # the same in all rows of one launch
OF_CELL = ("cell", "cell_order", "axes")


def list_views(folder: Folder, views: Views) -> dict[tuple[str, str], list[Entry]]:
    """The files of each view, by sweep and scale. Others are named once on stderr."""
    found: dict[tuple[str, str], list[Entry]] = {}
    for entry in folder.list(views, links=True):
        if said := parse_view(entry.name):
            found.setdefault(said, []).append(entry)
        elif parse_name(entry.name)[0] != "search":  # the winners of one
            name_once(folder.path(entry.name), "its name is not that of a sweep and a scale")
    return dict(sorted(found.items()))


def read_files(folder: Folder, entries: Iterable[Entry]) -> pa.Table:
    """The rows of the undamaged ones of these files of a view."""
    tables = [view_schema().empty_table()]
    for entry in entries:
        try:
            if not entry.is_file:
                raise BadFile("a link, which is not followed")
            tables.append(read_view(folder.read(entry.name), entry.name))
        except FileNotFoundError:
            continue
        except BadFile as error:
            name_once(folder.path(entry.name), str(error))
    return pa.concat_tables(tables)


def join_launches(rows: Sequence[Row]) -> list[Row]:
    """The view that these rows of one launch or several make."""
    launches: dict[str, list[Row]] = {}
    for row in rows:
        launches.setdefault(row["launched_at"] or "", []).append(row)
    joined: dict[tuple[str, str], Row] = {}
    of_label: dict[str, str | None] = {}  # the cell of each label
    of_cell: dict[str, Row] = {}  # label, order and axes of each cell
    facts: Row = {}
    for when in sorted(launches, reverse=True):
        facts = facts or {key: launches[when][0][key] for key in OF_LAUNCH}
        first, added = len(of_label), list[Row]()
        for row in launches[when]:
            known = of_cell.get(row["cell_id"] or "")
            if not known and of_label.get(row["cell"], row["cell_id"]) != row["cell_id"]:
                continue  # the label stands for another cell now
            known = known or {"cell_order": first + row["cell_order"]}
            added.append({**row, **facts, **known})
            of_label.setdefault(row["cell"], row["cell_id"])  # renamed since, it hides others too
        for row in added:
            joined.setdefault((row["cell"], row["trial_id"]), row)
            of_label.setdefault(row["cell"], row["cell_id"])
            if row["cell_id"]:
                of_cell.setdefault(row["cell_id"], {key: row[key] for key in OF_CELL})
    return list(joined.values())


def count_hidden(rows: Sequence[Row]) -> int:
    """How many trials of a view are left out, because their label stands for another cell now."""
    shown, all_of_it = ({row["trial_id"] for row in some} for some in (join_launches(rows), rows))
    return len(all_of_it - shown)


def write_view(folder: Folder, rows: Sequence[Row], known: Sequence[Row], views: Views) -> str:
    """Add rows to the view of a sweep; the name of the file, empty if `known`, what is stored of
    it, says the same.
    """
    table = pa.Table.from_pylist(list(rows), schema=view_schema())
    rows = table.to_pylist()
    stem = f"{views}/{rows[0]['sweep']}-{rows[0]['scale']}"
    if parse_view(f"{stem}.parquet") is None:
        raise ValueError(f"a sweep at a scale cannot be called {stem[len(views) + 1 :]!r}")
    name = f"{stem}.parquet"
    if rows[0]["launched_at"] is not None:
        if known and _shown([*known, *rows]) == _shown(known):
            return ""
        text = json.dumps(rows, sort_keys=True)
        name = f"{stem}+{hashlib.sha256(text.encode()).hexdigest()[:8]}.parquet"
    folder.write(name, seal(table, name))
    return name


def is_same_sweep(ours: Row, theirs: Row) -> bool:
    """Whether rows of one name are of one sweep: made by the same command, or listed by scripts of
    one name, as far as it is known.
    """
    if ours["command"] or theirs["command"]:
        return ours["command"] == theirs["command"]
    return not (ours["script"] and theirs["script"]) or ours["script"] == theirs["script"]


def _shown(rows: Sequence[Row]) -> list[Row]:
    shown = [{key: row[key] for key in VIEW} for row in join_launches(rows)]
    return sorted(shown, key=lambda row: (row["cell_order"], row["trial_id"]))
