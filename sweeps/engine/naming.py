"""Names of changed sweeps (`--name`), and the commands that make them."""

import argparse
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.engine.spec import Sweep

if TYPE_CHECKING:  # it imports pyarrow, which --help does not need
    from sweeps.engine.store.store import Store

MAX_NAME = 72  # characters of a name; files are called after it, and titles hold it
OWN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")  # others are paths, addresses, scripts, flags
SCRIPTS = Path(__file__).resolve().parents[1]


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


def shortest(value: str) -> str:
    """1e-3 and 0.001 as the same text."""
    try:
        number = float(value)
    except ValueError:
        return value
    is_whole = number.is_integer() and abs(number) < 1e15
    return str(int(number)) if is_whole else repr(number).replace("e+", "e")


def write_command(
    script: str,
    fields: Mapping[str, Sequence[str]],
    labels: Mapping[str, Sequence[str]],
    name: str | None,
) -> str:
    """The command that runs a changed sweep, without its scale. fields: the values of each that
    changes; labels: by flag.
    """
    flags = list[str]()
    for field, values in fields.items():
        if len(values) == 1:
            flags += ["--set", f"{field}={values[0]}"]
        else:
            between = ";" if any("," in value for value in values) else ","
            flags += ["--axis", f"{field}={between.join(values)}"]
    flags += [word for flag, texts in labels.items() for text in texts for word in (flag, text)]
    flags += ["--name", name] if name else []
    return shlex.join(["python", "-m", "sweeps", "run", script, *flags])


def check_names(sweeps: Iterable[Sweep], store: "Store") -> None:
    """Raise ValueError if a sweep has the name of another one in the store, whose view it would
    join.
    """
    from sweeps.engine.store.names import Views
    from sweeps.engine.store.views import is_same_sweep

    folders: tuple[Views, ...] = ("views", "searches")
    names = [(views, said) for views in folders for said in store.names(views)]
    for sweep in sweeps:
        for views, (name, scale) in names:
            if name != sweep.name or not (rows := store.launches(name, scale, views)):
                continue
            newest = max(rows, key=lambda row: row["launched_at"] or "")
            ours = {"command": sweep.command or None, "script": sweep.script}
            if not is_same_sweep(ours, newest):
                command = newest["command"] and f"{newest['command']} --scale {scale}"
                made_by = command or newest["script"] or "a script"
                raise ValueError(
                    f"{store.root} has another sweep {name!r} [{scale}], made by: {made_by}; "
                    f"choose another name, or remove it first: python -m sweeps forget {name}"
                )
