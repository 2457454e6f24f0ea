"""The way of a trial from the command line to `train` is short enough to read."""

import functools
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from sweeps.engine.executors import Executor
from sweeps.engine.launch.cli import main
from sweeps.engine.trial import attempt
from sweeps.engine.trial.failures import FailurePolicy
from tests.support.sweeps.tiny import make_sweep, run

MOST = 5  # between `main` and `train`, in one process
IN_WORKER = "sweeps.engine.executors.ray_tune.run_one"


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


class Tuner:
    """Stands for Tune: calls the trainable for every trial, in this process."""

    def __init__(self, trainable, param_space, **options):
        self.trainable, self.numbers = trainable, param_space["number"]

    def fit(self):
        for number in self.numbers:
            self.trainable({"number": number})


def test_on_ray_they_are_seven_four_of_them_in_the_launching_process(tmp_path, paths, monkeypatch):
    from sweeps.engine.executors import ray_tune

    tune = {"with_parameters": functools.partial, "with_resources": lambda f, needs: f}
    tune |= {"grid_search": list, "Tuner": Tuner, "report": lambda outcome: None}
    tune |= dict.fromkeys(("TuneConfig", "RunConfig", "FailureConfig"), lambda **options: None)
    monkeypatch.setattr(ray_tune, "tune", SimpleNamespace(**tune))
    actor = SimpleNamespace(remote=lambda: None)
    monkeypatch.setattr(ray_tune, "ray", SimpleNamespace(remote=lambda **needs: lambda cls: actor))
    monkeypatch.setattr(ray_tune, "SharedPolicy", lambda actor: FailurePolicy())
    monkeypatch.setattr(Executor, "session", lambda self, store: nullcontext(1))
    flags = ["--scale", "smoke", "--seeds", "1", "--executor", "ray", "--no-mlflow", "--no-report"]
    assert main(make_sweep(one={}), [*flags, "--results", str(tmp_path)]) == 0
    (path,) = paths
    between = check_ends(path)
    first = between.index(IN_WORKER)
    assert (first, len(between) - first) == (4, 3)
