"""One command line in this process: what it printed, wrote and raised, and how long it took.

Whatever would compute (training, probes, Ray, figures) ends the line as accepted: what is fuzzed is
everything before.
"""

import contextlib
import importlib
import io
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

CPU_SECONDS = 20.0  # computed, or slept: longer is a hang
WALL_SECONDS = 600.0  # in the end; the machine may be busy with other work
MEMORY = 4 * 2**30  # that a line may add
WRITES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate"}
HARMLESS = ("/dev/", "/proc/", str(Path.home() / ".cache"))
COMPUTES = (
    "sweeps.engine.launch.scheduler:Scheduler.run",
    "sweeps.engine.executors:Executor.session",
    "sweeps.commands.measure:write_diagnosis",
    "sweeps.commands.measure:measure",
    "sweeps.engine.launch.mirror.process:Mirror",
    "sweeps.engine.launch.mirror.tracking:check_server",
    "sweeps.engine.launch.mirror.tracking:connect",
    "sweeps.engine.launch.launch:Follower",
    "sweeps.commands.dashboard:_server",
    "pcore.cli.train:train_trial",
    "pcore.cli.theory:check_hard",
    "pcore.theory.ceilings:count_ceiling",
    "pcore.cli.trained:analyse_failures",
    "pcore.diagnosis.attention:attention_weights",
    "pcore.conformance.tasks:memorise",
    "analysis.figures.style:save",
    "analysis.report.files:draw_files",
    "analysis.report.page:make_page",
)


class Accepted(BaseException):
    """The line would compute now."""


class Hang(BaseException):
    """The line took too long."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What became of a line. fault: what may never be; "" if nothing."""

    code: int | None  # None: accepted
    out: str
    err: str
    fault: str


def run(
    main: Callable[[Sequence[str]], Any], words: Sequence[str], inside: Path, stdin: str = "1+1\n"
) -> Answer:
    """Run a command line in a folder, below which alone it may write."""
    out, err, fault, code = io.StringIO(), io.StringIO(), "", None
    written: list[str] = []
    before, began = sys.stdin, _asleep()
    sys.stdin = io.StringIO(stdin)
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            _watch_writes(inside, written),
            _limits(),
        ):
            code = main(list(words)) or 0
    except Accepted:
        pass
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0
    except Hang:
        fault = "hang"
    except BaseException:
        fault = "traceback\n" + traceback.format_exc(limit=-4)
    finally:
        sys.stdin = before
    if not fault and _asleep() - began > CPU_SECONDS:
        fault = "hang"
    said = err.getvalue()
    if not fault and ("Traceback" in said or "Traceback" in out.getvalue()):
        fault = "traceback on the screen"
    lines = [one for one in said.strip().splitlines() if not one.strip().startswith("left out: ")]
    if not fault and code == 2 and len(lines) != 1:
        fault = f"{len(lines)} lines instead of a sentence"
    if not fault and code not in (None, 0, 1, 2, 130):
        fault = f"exit code {code}"
    if written and not fault:
        fault = f"writes {written[0]}"
    return Answer(code=code, out=out.getvalue(), err=said, fault=fault)


def _asleep() -> float:
    """Seconds in which this thread neither computed nor waited for a processor."""
    computed, waited, _ = Path("/proc/self/schedstat").read_text().split()
    return time.monotonic() - (int(computed) + int(waited)) / 1e9


# Computing --------------------------------------------------------------------------------------


@contextlib.contextmanager
def nothing_computes() -> Generator[None]:
    """Everything of COMPUTES ends its line; a probe takes a millisecond, no cluster is asked."""

    def accept(*rest: Any, **named: Any) -> None:
        raise Accepted

    with contextlib.ExitStack() as stack:
        for name in COMPUTES:
            stack.enter_context(_replaced(name, accept))
        stack.enter_context(_replaced("sweeps.commands.doctor:_cluster", lambda *rest: ()))
        yield


@contextlib.contextmanager
def _replaced(name: str, value: Any) -> Generator[None]:
    module, _, path = name.partition(":")
    *owners, leaf = path.split(".")
    owner: Any = importlib.import_module(module)
    for part in owners:
        owner = getattr(owner, part)
    real = getattr(owner, leaf)
    setattr(owner, leaf, value)
    try:
        yield
    finally:
        setattr(owner, leaf, real)


# Limits -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def _limits() -> Generator[None]:
    """Raise Hang after too long, and let memory run out before that of the machine does."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Hang

    clocks = {signal.SIGPROF: signal.ITIMER_PROF, signal.SIGALRM: signal.ITIMER_REAL}
    seconds = {signal.SIGPROF: CPU_SECONDS, signal.SIGALRM: WALL_SECONDS}
    old = {number: signal.signal(number, stop) for number in clocks}
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, hard))
    left = {clock: signal.setitimer(clock, seconds[number]) for number, clock in clocks.items()}
    try:
        yield
    finally:
        for number, clock in clocks.items():
            signal.setitimer(clock, 0)
            signal.signal(number, old[number])
            signal.setitimer(clock, *left[clock])  # that of the test
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


# Files ------------------------------------------------------------------------------------------

_watched: list[tuple[Path, list[str]]] = []


@contextlib.contextmanager
def _watch_writes(inside: Path, written: list[str]) -> Generator[None]:
    """Names of files that Python writes, makes or removes outside a folder."""
    if not _hooked:
        sys.addaudithook(_note)
        _hooked.append(True)
    _watched.append((inside.resolve(), written))
    try:
        yield
    finally:
        _watched.pop()


_hooked: list[bool] = []


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watched:
        return
    if event == "open":
        mode, flags = arguments[1] or "", arguments[2] or 0
        if not (set(str(mode)) & set("wax+")) and not flags & (
            os.O_WRONLY | os.O_RDWR | os.O_CREAT
        ):
            return
    elif event not in WRITES:
        return
    name = arguments[0]
    if not isinstance(name, str | bytes | os.PathLike):
        return
    path = os.path.abspath(os.fsdecode(name))
    inside, written = _watched[-1]
    own = tempfile.gettempdir() + "/"
    if os.path.basename(path).startswith((".probe-", "probe-")):
        return  # `doctor` asks whether the folder that it was given can be written
    if "__pycache__" in path or path.startswith(sys.pycache_prefix or "\0"):
        return  # Python keeps what it compiled
    if not path.startswith((str(inside), *HARMLESS)) and not path.startswith(own + "tmp"):
        written.append(path)
