"""The way of a trial from the command line to `train` is short enough to read."""

import sys
from collections.abc import Iterator

from sweeps.engine.trial import attempt
from tests.sweeps.launch.test_launch import make_sweep, run

MOST = 7


def named_functions() -> Iterator[str]:
    """Functions of the project on the stack, the innermost first."""
    frame = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if module.startswith(("sweeps.", "pcore.")):
            yield f"{module}.{frame.f_code.co_qualname}"
        frame = frame.f_back


def test_at_most_seven_functions_stand_between_main_and_train(tmp_path, monkeypatch):
    real, stacks = attempt.train, list[list[str]]()

    def traced(config, **options):
        stacks.append(list(named_functions()))
        yield from real(config, **options)

    monkeypatch.setattr(attempt, "train", traced)
    assert run(make_sweep(one={}), tmp_path, "--seeds", "1") == 0
    (stack,) = stacks
    assert stack[-1] == "sweeps.engine.launch.cli.main"
    between = stack[-2::-1]
    print("", "main", *between, "train", sep="\n  ")
    assert between[-1].startswith("sweeps.engine.trial.attempt.")
    assert len(between) <= MOST
