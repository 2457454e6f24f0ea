"""The way of a trial from the command line to `train` is short enough to read."""

import inspect

from sweeps.engine.trial import attempt
from tests.support.sweeps.tiny import make_sweep, run

MOST = 5  # between `main` and `train`, in one process


def test_at_most_five_functions_stand_between_main_and_train(tmp_path, monkeypatch):
    real, path = attempt.train, list[str]()

    def traced(config, **options):
        names = [(one.frame.f_globals["__name__"], one.function) for one in inspect.stack()[1:]]
        path.extend(f"{home}.{name}" for home, name in names if home.startswith("sweeps."))
        yield from real(config, **options)

    monkeypatch.setattr(attempt, "train", traced)
    assert run(make_sweep(one={}), tmp_path, "--seeds", "1") == 0
    print(*path, sep="\n")
    assert path[-1] == "sweeps.engine.launch.cli.main"
    assert path[0] == "sweeps.engine.trial.attempt.run_attempt"
    assert len(path) - 1 <= MOST
