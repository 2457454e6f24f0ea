"""What a changed sweep is called: after the script, `~` and its changes, as in
`depth_ablation~model.d_ff=64+optim.learning_rate=0.001,0.002`, or as `--name NAME` says.
"""

import argparse
import hashlib
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.engine.spec import Sweep

if TYPE_CHECKING:  # it imports pyarrow, which --help does not need
    from sweeps.engine.store.store import Store

ONLY, ADD = "only", "add"  # among the fields that change; no field is called so
SEPARATOR = "~"  # between the name of a script and what changed
MAX_NAME = 72  # characters of a name; files are called after it, and titles hold it
UNSAFE = re.compile(r"[^A-Za-z0-9._=,+:-]")  # in names of files, in a shell, in an address
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


def name_change(script: str, parts: Mapping[str, Sequence[str]]) -> str:
    """SCRIPT~FIELD=VALUE+FIELD=A,B of the fields that change and their values; ONLY and ADD have
    labels and definitions of cells. What is too long, no name of a file, or could not be read back,
    is cut and ends in a hash.
    """
    text = _join(parts)
    name = f"{script}{SEPARATOR}{UNSAFE.sub('_', text)}"
    listed = [value for values in parts.values() for value in values]
    is_readable = name.endswith(text) and not any(re.search("[,+]", value) for value in listed)
    if is_readable and len(name) <= MAX_NAME:
        return name
    digest = hashlib.sha256(repr(parts).encode()).hexdigest()[:8]
    added = {ADD: [new.partition("=")[0] for new in parts[ADD]]} if ADD in parts else {}
    name = f"{script}{SEPARATOR}{UNSAFE.sub('_', _join({**parts, **added}))}"
    return f"{name[: max(MAX_NAME - 9, len(script) + 9)]}+{digest}"


def _join(parts: Mapping[str, Sequence[str]]) -> str:
    return "+".join(f"{field}={','.join(values)}" for field, values in parts.items())


def shortest(value: str) -> str:
    """1e-3 and 0.001 as the same text."""
    try:
        number = float(value)
    except ValueError:
        return value
    is_whole = number.is_integer() and abs(number) < 1e15
    return str(int(number)) if is_whole else repr(number).replace("e+", "e")


def write_command(script: str, parts: Mapping[str, Sequence[str]], name: str | None) -> str:
    """The command that runs a changed sweep, without its scale; parts: see `name_change`."""
    flags = list[str]()
    for field, values in parts.items():
        if field in (ONLY, ADD):
            flags += [word for value in values for word in (f"--{field}", value)]
        elif len(values) == 1:
            flags += ["--set", f"{field}={values[0]}"]
        else:
            between = ";" if any("," in value for value in values) else ","
            flags += ["--axis", f"{field}={between.join(values)}"]
    flags += ["--name", name] if name else []
    return shlex.join(["python", "-m", "sweeps", "run", script, *flags])


def check_names(sweeps: Iterable[Sweep], store: "Store") -> None:
    """Raise ValueError if a sweep has the name of another one in the store, whose view it would
    join.
    """
    from sweeps.engine.store.views import is_same_sweep

    names = [(views, said) for views in ("views", "searches") for said in store.names(views)]
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
