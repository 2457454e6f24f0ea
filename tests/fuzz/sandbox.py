"""One command line in this process: what it printed, wrote and raised, and how long it took.

Whatever would compute (training, probes, Ray, figures) ends the line as accepted: what is fuzzed is
everything before.
"""

import contextlib
import io
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.fuzz.lines import Main

SECONDS = 20.0  # of computing: longer is a hang
WRITES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate"}
TEMPORARY = f"{tempfile.gettempdir()}/t"  # names of tempfile, and the cache of torch
HARMLESS = ("/dev/", "/proc/", str(Path.home() / ".cache"), sys.pycache_prefix or "/dev/")
COMPUTES = (
    "sweeps.engine.executors.Executor.session",
    "sweeps.engine.launch.mirror.process.Mirror",
    "sweeps.engine.launch.mirror.tracking.connect",
    "sweeps.engine.launch.launch.Follower",
    "pcore.cli.train.train_trial",
    "pcore.cli.trained.analyse_failures",
    "pcore.conformance.tasks.train_tiny",
    "analysis.figures.choose.draw_files",
    "analysis.report.page.make_page",
)


class Accepted(BaseException):
    """The line would compute now."""


class Hang(BaseException):
    """The line took too long."""


def _stop(*_: Any) -> None:
    raise Hang


_written = list[str]()  # names of files that Python wrote, made or removed


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    """Called at every audited event of the interpreter (PEP 578)."""
    opens = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if not (opens or event in WRITES) or isinstance(arguments[0], int):
        return
    path = os.fsdecode(arguments[0])
    if os.path.basename(path).startswith((".probe-", "probe-")):
        return  # `merge` asks whether the folder that it was given can be written
    _written.append(path)


sys.addaudithook(_note)


def nothing_computes() -> contextlib.ExitStack:
    """Everything of COMPUTES ends its line."""
    stack = contextlib.ExitStack()
    for name in COMPUTES:
        stack.enter_context(patch(name, side_effect=Accepted))
    return stack


def refuses(main: Main, words: Sequence[str], inside: Path) -> bool:
    """Run a command line in a folder, below which alone it may write; whether it was refused. Fails
    at what may never be: a traceback, no end, more than a sentence, a file written elsewhere.
    """
    out, err, code = io.StringIO(), io.StringIO(), None
    redirected = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    _written.clear()
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with redirected[0], redirected[1], patch.object(sys, "stdin", io.StringIO("1+1\n")):
            code = main(list(words))
    except Accepted:
        pass
    except SystemExit as stop:
        code = stop.code
    except BaseException as error:
        raise AssertionError(f"{words} ends in {type(error).__name__}") from error
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    said = err.getvalue()
    sentences = [one for one in said.strip().splitlines() if not one.startswith("left out: ")]
    allowed = (str(inside.resolve()), TEMPORARY, *HARMLESS)
    paths = map(os.path.abspath, _written)
    foreign = [path for path in paths if not path.startswith(allowed) and "__pycache__" not in path]
    assert "Traceback" not in said + out.getvalue(), f"{words} prints a traceback: {said}"
    assert code != 2 or len(sentences) == 1, f"{words} says no sentence: {said}"
    assert code in (None, 0, 1, 2, 130), f"{words} ends with {code}"
    assert not foreign, f"{words} writes {foreign}"
    return code == 2
