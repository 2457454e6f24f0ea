"""One command line in this process: what it printed, wrote and raised, and how long it took.

Whatever would compute (training, probes, Ray, figures) ends the line as accepted: what is fuzzed is
everything before.
"""

import contextlib
import io
import os
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

SECONDS = 20.0  # of computing: longer is a hang
MEMORY = 4 * 2**30  # that a line may add
WRITES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate"}
HARMLESS = ("/dev/", "/proc/", str(Path.home() / ".cache"))
COMPUTES = (
    "sweeps.engine.launch.scheduler.Scheduler.run",
    "sweeps.engine.executors.Executor.session",
    "sweeps.commands.measure.write_diagnosis",
    "sweeps.engine.launch.mirror.process.Mirror",
    "sweeps.engine.launch.mirror.tracking.connect",
    "sweeps.engine.launch.launch.Follower",
    "pcore.cli.train.train_trial",
    "pcore.cli.trained.analyse_failures",
    "pcore.diagnosis.attention.attention_weights",
    "pcore.conformance.tasks.train_tiny",
    "analysis.figures.style.save",
    "analysis.figures.choose.draw_files",
    "analysis.report.page.make_page",
)


class Accepted(BaseException):
    """The line would compute now."""


class Hang(BaseException):
    """The line took too long."""


@contextlib.contextmanager
def nothing_computes() -> Iterator[None]:
    """Everything of COMPUTES ends its line."""

    def accept(*_: Any, **named: Any) -> None:
        raise Accepted

    with contextlib.ExitStack() as stack:
        for name in COMPUTES:
            stack.enter_context(patch(name, accept))
        yield


def run(
    main: Callable[[Sequence[str]], Any], words: Sequence[str], inside: Path
) -> tuple[int | None, str]:
    """Run a command line in a folder, below which alone it may write. The exit code (None: it would
    compute), and what may never be ("": nothing): a traceback, no end, more than a sentence when it
    refuses, a file written elsewhere.
    """
    out, err, code, written = io.StringIO(), io.StringIO(), None, list[str]()
    redirected = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    stdin = patch.object(sys, "stdin", io.StringIO("1+1\n"))
    try:
        with redirected[0], redirected[1], stdin, _watch_writes(inside, written), _limits():
            code = main(list(words)) or 0
    except Accepted:
        pass
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0
    except Hang:
        return None, "hang"
    except BaseException:
        return None, "traceback\n" + traceback.format_exc(limit=-4)
    said = err.getvalue()
    sentences = [one for one in said.strip().splitlines() if not one.startswith("left out: ")]
    if "Traceback" in said + out.getvalue():
        return code, "traceback on the screen"
    if code == 2 and len(sentences) != 1:
        return code, f"{len(sentences)} lines instead of a sentence: {said[-300:]}"
    if code not in (None, 0, 1, 2, 130):
        return code, f"exit code {code}"
    return code, f"writes {written[0]}" if written else ""


@contextlib.contextmanager
def _limits() -> Iterator[None]:
    """Raise Hang after too long, and let memory run out before that of the machine does."""

    def stop(*_: Any) -> None:
        raise Hang

    old = signal.signal(signal.SIGPROF, stop)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, hard))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


_watched: list[tuple[Path, list[str]]] = []


@contextlib.contextmanager
def _watch_writes(inside: Path, written: list[str]) -> Iterator[None]:
    """Names of files that Python writes, makes or removes outside a folder."""
    _watched.append((inside.resolve(), written))
    try:
        yield
    finally:
        _watched.pop()


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    """Called at every audited event of the interpreter (PEP 578)."""
    if not _watched or (event != "open" and event not in WRITES):
        return
    name, mode, flags = (*arguments, None, None)[:3]
    opens = (
        set(str(mode or "")) & set("wax+"),
        (flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT),
    )
    if not isinstance(name, str | bytes | os.PathLike) or (event == "open" and not any(opens)):
        return
    path = os.path.abspath(os.fsdecode(name))
    inside, written = _watched[-1]
    if os.path.basename(path).startswith((".probe-", "probe-")):
        return  # `merge` asks whether the folder that it was given can be written
    if "__pycache__" in path or path.startswith(sys.pycache_prefix or "\0"):
        return  # Python keeps what it compiled
    own = f"{tempfile.gettempdir()}/tmp"
    if not path.startswith((str(inside), own, *HARMLESS)):
        written.append(path)


sys.addaudithook(_note)
