"""Runs checks and formats their report."""

import signal
import sysconfig
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from pcore.config import TrialConfig, override

NUM_STEPS = 20  # training before an encoding is checked
TIME_LIMIT = 120.0  # seconds of CPU that a rule may take; a few are usual
LIBRARIES = (
    str(Path(__file__).parents[1]),
    sysconfig.get_path("stdlib"),
    sysconfig.get_path("purelib"),
    "<",  # code without a file
)
WAITING = 10  # times as long it may take on the clock: the machine may be busy with other work


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One rule: kept or not, and what was measured."""

    name: str
    passed: bool
    detail: str


class Broken(Exception):
    """A rule is not kept; the message says how."""


def format_checks(name: str, checks: Iterable[Check]) -> str:
    """A report for people: one line per rule, then the verdict."""
    checks = list(checks)
    width = max((len(c.name) for c in checks), default=0)
    lines = [f"{'ok  ' if c.passed else 'FAIL'}  {c.name:<{width}}  {c.detail}" for c in checks]
    failed = sum(not c.passed for c in checks)
    total = f"{len(checks)} checks"
    verdict = f"{failed} of {total} failed" if failed else f"{total} passed"
    return "\n".join([*lines, f"{name}: {verdict}"])


class Overtime(BaseException):
    """A rule took too long. Not an Exception, which own code may catch for ever."""


def run_check(name: str, rule: Callable[[], str]) -> Check:
    """A rule returns what it measured, raises, or takes longer than TIME_LIMIT."""
    try:
        with _time_limit():
            return Check(name=name, passed=True, detail=rule())
    except Overtime:
        return Check(name=name, passed=False, detail=f"took longer than {TIME_LIMIT:g} s")
    except Broken as broken:
        return Check(name=name, passed=False, detail=str(broken))
    except Exception as error:  # own code may raise anything: that is the finding
        return Check(name=name, passed=False, detail=describe(error))


def describe(error: Exception) -> str:
    """What was raised (of a bare assertion its line), and the last line of own code on the way
    there, if there is any.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith(LIBRARIES)][-1:]
    where = "".join(f" ({Path(f.filename).name}, line {f.lineno}, in {f.name})" for f in own)
    reason = str(error).partition("\n")[0] or (frames[-1].line if frames else "")
    return f"{type(error).__name__}: {reason}{where}"


@contextmanager
def _time_limit() -> Generator[None]:
    """Raise Overtime in the block after TIME_LIMIT; outside the main thread nothing can."""
    began, started = time.process_time(), time.monotonic()
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        computed, waited = time.process_time() - began, time.monotonic() - started
        if computed >= TIME_LIMIT or waited >= WAITING * TIME_LIMIT:
            raise Overtime

    before = signal.signal(signal.SIGALRM, stop)
    old = signal.setitimer(signal.ITIMER_REAL, TIME_LIMIT, 1.0)  # and again
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *old)
        signal.signal(signal.SIGALRM, before)


def tiny_config(changes: dict[str, Any]) -> TrialConfig:
    """Addition of numbers of 1-3 digits, two layers, a few steps."""
    base = {
        "model.num_layers": 2,
        "model.num_heads": 2,
        "model.d_model": 32,
        "model.d_head": 16,
        "model.d_ff": 64,
        "data.max_length": 3,
        "data.num_examples": None,
        "optim.num_steps": NUM_STEPS,
        "optim.batch_size": 16,
        "optim.learning_rate": 1e-2,
        "eval.train_lengths": "2",
        "eval.test_lengths": "4",
        "eval.num_examples": 16,
    }
    return override(TrialConfig(), base | changes)
