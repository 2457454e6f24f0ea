"""Changed sweeps: `--only LABEL` keeps the cells of that label, `--add NEW=LABEL+FIELD=VALUE` adds
a cell like one of the sweep, `--set FIELD=VALUE` changes every cell, `--axis FIELD=A,B,C` crosses
every cell with an axis, and `--except LABEL` leaves out some of all these.

A changed sweep is another sweep, with a name (`--name`), a view, a table and figures of its own.
The labels of its cells say what was set. Its trials are identified by their configurations, so
those already in the store are not run again.
"""

import argparse
import itertools
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase

from pcore.config import SEEDS, flatten, known_fields, override
from pcore.registry import nearest
from pcore.tasks import TASKS
from sweeps.engine.spec import SCALES, SCRIPTS, Cell, Coordinate, Scale, Sweep

MAX_NAME = 72  # characters of a name; files are called after it, and titles hold it
NEXT_FIELD = re.compile(r"\+(?=[a-z_]+(?:\.[a-z_]+)?=)")  # between the fields of --add
OWN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")  # others are paths, addresses, scripts, flags


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One field with the value, or the values, that it takes. Values are texts, read by the
    field's annotation.
    """

    text: str  # as it was given
    field: str
    values: tuple[str, ...]

    @property
    def leaf(self) -> str:
        """The field without its group: model.num_layers is num_layers."""
        return self.field.rpartition(".")[2]


@dataclass(frozen=True, kw_only=True, slots=True)
class NewCell:
    """A cell called `label` that is like the sweep's cell `like`, but for some fields."""

    text: str  # as it was given
    label: str
    like: str
    changes: tuple[Change, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """What the command line changes in a sweep. only, without: labels, in which * stands for
    anything. name: that of the changed sweep; it may be None where nothing runs.
    """

    sets: Sequence[Change] = ()
    axes: Sequence[Change] = ()
    only: Sequence[str] = ()
    added: Sequence[NewCell] = ()
    without: Sequence[str] = ()
    name: str | None = None

    @property
    def are_none(self) -> bool:
        """Whether every cell stays as it is."""
        return not (self.sets or self.axes or self.only or self.added or self.without)


def add_changes(parser: argparse.ArgumentParser) -> None:
    """--set, --axis, --only, --add and --except, for `given_changes`."""
    add = parser.add_argument
    add(
        "--set",
        dest="sets",
        type=parse_set,
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="in every cell, e.g. optim.learning_rate=1e-3; may be repeated",
    )
    add(
        "--axis",
        dest="axes",
        type=parse_axis,
        action="append",
        default=[],
        metavar="FIELD=A,B,C",
        help="every cell with each of these values (A;B;C where a value has commas); may be "
        "repeated. A changed sweep has a name, a table and figures of its own",
    )
    add(
        "--only",
        action="append",
        default=[],
        metavar="LABEL",
        help="only cells of this label, in which * stands for anything, and those that --add "
        "makes; may be repeated",
    )
    add(
        "--add",
        dest="added",
        type=parse_added,
        action="append",
        default=[],
        metavar="NEW=LABEL+FIELD=VALUE",
        help='one more cell, like that of this label: "mine=coupling+position.encoding=fire", '
        "+FIELD=VALUE once or more; may be repeated",
    )
    add(
        "--except",
        dest="without",
        action="append",
        default=[],
        metavar="LABEL",
        help="leave out cells of this label, also of those that the other flags make",
    )


def given_changes(given: argparse.Namespace) -> Changes:
    """What the flags of `add_changes` say, and --name where there is one."""
    names = {one.name for one in fields(Changes)}
    return Changes(**{name: value for name, value in vars(given).items() if name in names})


def parse_set(text: str) -> Change:
    """FIELD=VALUE."""
    field, equals, value = text.partition("=")
    if not equals or not field.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not FIELD=VALUE")
    if NEXT_FIELD.search(value):
        raise argparse.ArgumentTypeError(f"{text!r} has several fields: --set takes one; repeat it")
    return Change(text=text, field=field.strip(), values=(value.strip(),))


def parse_axis(text: str) -> Change:
    """FIELD=A,B,C, or FIELD=A;B;C where values have commas."""
    field, equals, listed = text.partition("=")
    values = tuple(v.strip() for v in listed.split(";" if ";" in listed else ","))
    if not equals or not field.strip() or not all(values):
        raise argparse.ArgumentTypeError(f"{text!r} is not FIELD=A,B,C")
    if len(values) == 1:
        raise argparse.ArgumentTypeError(f"{text!r} has one value, which --set is for")
    if len(set(values)) < len(values):
        raise argparse.ArgumentTypeError(f"{text!r} names a value twice")
    return Change(text=text, field=field.strip(), values=values)


def parse_added(text: str) -> NewCell:
    """NEW=LABEL+FIELD=VALUE, with one field or several."""
    label, _, rest = text.partition("=")
    like, *fields = NEXT_FIELD.split(rest)
    if not (label.strip() and like.strip() and fields):
        raise argparse.ArgumentTypeError(f"{text!r} is not NEW=LABEL+FIELD=VALUE")
    changes = tuple(map(parse_set, fields))
    return NewCell(text=text, label=label.strip(), like=like.strip(), changes=changes)


def parse_name(text: str) -> str:
    """A name for a changed sweep: no script of pcore has it."""
    if not OWN_NAME.fullmatch(text) or len(text) > MAX_NAME:
        what = f"letters, digits, - and _, at most {MAX_NAME}"
        raise argparse.ArgumentTypeError(f"{text[:MAX_NAME]!r} is not a name of {what}")
    if is_script(text):
        raise argparse.ArgumentTypeError(f"{text!r} is a sweep or search of pcore")
    return text


def is_script(name: str) -> bool:
    """Whether a sweep or a search of pcore has this name."""
    return (SCRIPTS / f"{name}.py").exists()


def change_sweeps(sweeps: Sequence[Sweep], changes: Changes, to_run: bool = False) -> list[Sweep]:
    """These sweeps with the changes applied. to_run: then a changed one needs a name.

    Raises ValueError for a field that is changed twice, unknown or a seed, and for a name without
    a change or of several sweeps; invalid configurations, and labels that no cell has, are refused
    later, when cells are made.
    """
    for together in ([*changes.sets, *changes.axes], *(cell.changes for cell in changes.added)):
        names = [change.field for change in together]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{name} is changed twice; --axis takes several values")
            _check_field(name)
    if changes.name and changes.are_none:
        raise ValueError("--name is for what --set, --axis, --only or --add change; none is given")
    if to_run and not (changes.name or changes.are_none):
        raise ValueError(
            "a changed sweep needs a name, by which `status` and tables know it: add --name NAME"
        )
    if changes.name and len(sweeps) != 1:
        raise ValueError(f"--name {changes.name} names one changed sweep, not {len(sweeps)}")
    if changes.are_none:
        return list(sweeps)
    return [_change(sweep, changes) for sweep in sweeps]


def _change(sweep: Sweep, changes: Changes) -> Sweep:
    fixed = {change.field: change.values[0] for change in changes.sets}
    names = _short_names([*changes.sets, *changes.axes])

    def cells(scale: Scale) -> list[Cell]:
        found: list[Cell] = []
        for cell in _chosen(sweep, sweep.checked_cells(scale), scale, changes):
            for point in itertools.product(*(change.values for change in changes.axes)):
                varied = {c.field: value for c, value in zip(changes.axes, point, strict=True)}
                found.append(_change_cell(cell, fixed, varied, names))
        for pattern in changes.without:
            if not any(_fits(cell, pattern) for cell in found):
                raise ValueError(
                    f"--except {pattern!r}: {_no_such_cell(pattern, found, sweep, scale)}"
                )
        left = [c for c in found if not any(_fits(c, pattern) for pattern in changes.without)]
        if not left:
            raise ValueError(f"{sweep.name} [{scale}] has no cell left after --except")
        return left

    return replace(
        sweep,
        name=changes.name or f"{sweep.name}, changed",
        title=f"{sweep.title}; {changes.name or 'changed'}",
        command=_write_command(sweep.name, changes),
        cells=cells,
    )


def _write_command(script: str, changes: Changes) -> str:
    """What runs the changed sweep, without its scale."""
    given = {
        "--set": [change.text for change in changes.sets],
        "--axis": [change.text for change in changes.axes],
        "--only": changes.only,
        "--add": [cell.text for cell in changes.added],
        "--except": changes.without,
        "--name": [changes.name] if changes.name else [],
    }
    flags = [word for flag, texts in given.items() for text in texts for word in (flag, text)]
    return shlex.join(["python", "-m", "sweeps", "run", script, *flags])


def _fits(cell: Cell, pattern: str) -> bool:
    return cell.label == pattern or fnmatchcase(cell.label, pattern)


def _check_field(field: str) -> None:
    """Raise ValueError for a seed, or a field that no task has; own tasks may have any of their
    own.
    """
    if field in SEEDS:
        raise ValueError(f"{field} is not a field of a cell; choose seeds with --seeds 4x2@100")
    known = {name: None for task in TASKS.values() for name in known_fields(task)}
    if field in known or field.startswith("task."):
        return
    leaves = {name.rpartition(".")[2]: name for name in known}
    close = get_close_matches(field.rpartition(".")[2], leaves, n=1, cutoff=0.6)
    hint = f"Did you mean {leaves[close[0]]!r}?" if close else ""
    hint = hint or "pcore has none like it: `python -m pcore train --help` lists all"
    raise ValueError(f"unknown field {field!r}. {hint}")


def _chosen(sweep: Sweep, cells: Sequence[Cell], scale: Scale, changes: Changes) -> list[Cell]:
    """Those of these cells that have these labels, all if there are none, then the added ones.
    Raises ValueError for a label without cells.
    """

    def matching(pattern: str, flag: str, added: Iterable[str] = ()) -> list[Cell]:
        found = [c for c in cells if c.label == pattern]
        found = found or [c for c in cells if fnmatchcase(c.label, pattern)]
        if not found and not any(fnmatchcase(label, pattern) for label in added):
            raise ValueError(f"{flag} {pattern!r}: {_no_such_cell(pattern, cells, sweep, scale)}")
        return found

    added = [new.label for new in changes.added]
    kept = {cell.id for pattern in changes.only for cell in matching(pattern, "--only", added)}
    chosen = [cell for cell in cells if cell.id in kept or not changes.only]
    for new in changes.added:
        like = matching(new.like, "--add")[0]
        if any(cell.label == new.label for cell in cells):
            raise ValueError(f"--add {new.label!r}: {sweep.name} has a cell of this label")
        config = override(like.config, {c.field: c.values[0] for c in new.changes})
        names = [name for name, value in like.axes.items() if isinstance(value, str)]
        where = {**like.axes, names[0]: new.label} if names else {}
        chosen.append(Cell(label=new.label, config=config, axes=where))
    return chosen


def _no_such_cell(label: str, cells: Sequence[Cell], sweep: Sweep, scale: Scale) -> str:
    """What is wrong with a label, and where there is one like it."""
    others = [s for s in SCALES if s != scale and any(c.label == label for c in sweep.cells(s))]
    hint = f" There is one at scale {others[0]}." if others else ""
    labels = [cell.label for cell in cells]
    if {part.strip() for part in label.split(",")} <= {*labels}:
        hint = " Repeat the flag for each label."
    if alike := [other for other in labels if other.lower() == label.lower()]:
        hint = f" Did you mean {alike[0]!r}?"
    hint = hint or nearest(label, labels)
    return f"{sweep.name} has no such cell.{hint}"


def _change_cell(
    cell: Cell, fixed: Mapping[str, str], varied: Mapping[str, str], names: Mapping[str, str]
) -> Cell:
    """names: of the fields in labels."""
    try:
        config = override(cell.config, {**fixed, **varied})
    except ValueError as error:
        point = "".join(f", {field}={value}" for field, value in varied.items())
        raise ValueError(f"cell {cell.label + point!r}: {error}") from error
    read = {field: flatten(config)[field] for field in (*fixed, *varied)}
    label = ", ".join([cell.label, *(f"{names[field]}={value}" for field, value in read.items())])
    where: dict[str, Coordinate] = dict(cell.axes)
    for field in varied:
        value = read[field]
        axis = field if names[field] in cell.axes else names[field]
        where[axis] = value if isinstance(value, (int, float, str)) else str(value)
    return Cell(label=label, config=config, axes=where)


def _short_names(changes: Sequence[Change]) -> dict[str, str]:
    """The name of each field in labels: its last part, unless two share it."""
    leaves = [change.leaf for change in changes]
    return {c.field: c.leaf if leaves.count(c.leaf) == 1 else c.field for c in changes}
