"""A trial is cancelled from elsewhere: its row says so, and it stays ended until asked."""

import pytest

from pcore.config import trial_id
from sweeps.__main__ import main as command
from sweeps.engine.store.store import Store
from sweeps.engine.trial import attempt
from tests.support.sweeps.faulty import SMALL
from tests.support.sweeps.tiny import make_sweep, run

SWEEP = make_sweep(one=SMALL | {"optim.num_steps": 120})
FIRST, SECOND = (trial.id for trial in SWEEP.trials("smoke"))


@pytest.fixture
def cancelling(tmp_path, monkeypatch):
    """Cancels these trials when the first one is at step 50."""
    names: list[str] = []
    monkeypatch.setattr(attempt, "ASK_SECONDS", -1.0)

    def cancel() -> None:
        while names:
            assert command(["cancel", names.pop()[:8], "--results", str(tmp_path)]) == 0

    alone = attempt.train

    def train(config, **options):
        for report in alone(config, **options):
            if trial_id(config) == FIRST and report.step == 50:
                cancel()
            yield report

    monkeypatch.setattr(attempt, "train", train)
    return names


def statuses(folder) -> dict[str, str]:
    return {name: shard.status for name, shard in Store(folder).visible().items()}


def test_a_running_trial_ends_and_is_run_again_only_when_asked(tmp_path, cancelling, capsys):
    cancelling.append(FIRST)
    assert run(SWEEP, tmp_path) == 1
    printed = capsys.readouterr().out
    assert f"{FIRST} ends at its next report" in printed
    assert "CANCELLED one, seed 0" in printed
    assert "tiny [smoke]: 1/2 done, 0 running, 0 failed, 1 cancelled, " in printed
    assert statuses(tmp_path) == {FIRST: "cancelled", SECOND: "ok"}
    (row,) = Store(tmp_path).load([FIRST], "trial").to_pylist()
    assert row["error"].startswith("cancelled by ")
    assert not list((tmp_path / "cancelled").iterdir())

    assert run(SWEEP, tmp_path) == 1
    printed = capsys.readouterr().out
    told = "2 trials, 1 finished, 0 to run, 1 cancelled (resume or --retry-errors runs them)"
    assert told in printed
    assert command(["status", "--results", str(tmp_path)]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "tiny" in line)
    assert line.split()[2:] == ["2", "1", "0", "0", "0", "0", "1"]

    assert run(SWEEP, tmp_path, "--retry-errors") == 0
    (row,) = Store(tmp_path).load([FIRST], "trial").to_pylist()
    assert (row["status"], row["first_step"]) == ("ok", 50)


def test_a_waiting_trial_is_not_started(tmp_path, cancelling, capsys):
    cancelling.append(SECOND)
    assert run(SWEEP, tmp_path) == 1
    assert f"{SECOND} will not be started" in capsys.readouterr().out
    assert statuses(tmp_path) == {FIRST: "ok", SECOND: "cancelled"}
    assert Store(tmp_path).load([SECOND], "report").num_rows == 0
    assert command(["cancel", FIRST, "--results", str(tmp_path)]) == 2
    assert f"{FIRST} is finished (ok)" in capsys.readouterr().err
    assert command(["cancel", "zzz", "--results", str(tmp_path)]) == 2
    assert "no trial begins with 'zzz'" in capsys.readouterr().err


def test_a_cancelled_trial_is_resumed_by_the_next_launch(tmp_path, cancelling, capsys):
    cancelling.append(FIRST)
    assert run(SWEEP, tmp_path) == 1
    where = ["--results", str(tmp_path)]
    assert command(["resume", "tiny/two/seed 0", *where]) == 2
    assert "no cell 'two' in tiny. Known: one." in capsys.readouterr().err
    assert command(["resume", "tiny/one/seed 0", *where]) == 0
    assert f"{FIRST}: the next launch continues it" in capsys.readouterr().out
    assert command(["cancel", "tiny/one/seed 0", *where]) == 0  # and back again
    assert not list((tmp_path / "resumed").iterdir())
    assert command(["resume", "tiny/one/seed 0", *where]) == 0
    assert not list((tmp_path / "cancelled").iterdir())
    assert run(SWEEP, tmp_path) == 0
    (row,) = Store(tmp_path).load([FIRST], "trial").to_pylist()
    assert (row["status"], row["first_step"]) == ("ok", 50)
    assert command(["resume", FIRST, *where]) == 2
    assert f"{FIRST} is finished (ok)" in capsys.readouterr().err


def test_what_was_not_cancelled_is_not_resumed(tmp_path, capsys):
    assert run(SWEEP, tmp_path, "--time-limit", "0.001s") == 1
    assert command(["resume", FIRST, "--results", str(tmp_path)]) == 2
    assert f"{FIRST} was not cancelled" in capsys.readouterr().err
