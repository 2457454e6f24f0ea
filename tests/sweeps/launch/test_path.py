"""The way of a trial from the command line to `train` is short enough to read."""

import sys
from collections.abc import Iterator

import pytest

from sweeps.engine.trial import attempt
from tests.support.sweeps.tiny import make_sweep, run

MOST = 5  # between `main` and `train`, in one process


def named_functions() -> Iterator[str]:
    """Functions of the project on the stack, the innermost first."""
    frame = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if module.startswith(("sweeps.", "pcore.")):
            yield f"{module}.{frame.f_code.co_qualname}"
        frame = frame.f_back


@pytest.fixture
def paths(monkeypatch):
    """The functions on the way to every call of `train`, `main` first."""
    real, found = attempt.train, list[list[str]]()

    def traced(config, **options):
        found.append(list(named_functions())[::-1])
        yield from real(config, **options)

    monkeypatch.setattr(attempt, "train", traced)
    return found


def check_ends(path: list[str]) -> list[str]:
    """What stands between `main` and `train`."""
    print("", *path, "train", sep="\n  ")
    assert path[0] == "sweeps.engine.launch.cli.main"
    assert path[-1] == "sweeps.engine.trial.attempt.run_attempt"
    return path[1:]


def test_at_most_five_functions_stand_between_main_and_train(tmp_path, paths):
    assert run(make_sweep(one={}), tmp_path, "--seeds", "1") == 0
    (path,) = paths
    assert len(check_ends(path)) <= MOST
