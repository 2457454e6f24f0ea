"""What an executor has to do, checked of each."""

import os
from collections.abc import Sequence

import pytest

from pcore.config import TrialConfig, override, trial_id
from pcore.encodings import Encoding
from sweeps.engine.executors import EXECUTORS, Executor
from sweeps.engine.plan import PlannedTrial
from sweeps.engine.spec import Cell, Trial
from sweeps.engine.store.store import Store
from sweeps.engine.trial.attempt import Outcome, Settings
from tests.support.sweeps.tiny import CONFIG

SMALL = override(CONFIG, {"optim.num_steps": 20, "data.num_examples": None})
os.environ |= {"RAY_worker_niceness": "0"}  # as important as what tests run beside
WHOLE = float(os.cpu_count() or 1)  # CPUs of the machine: trials run one by one


class Raising(Encoding):
    """Fails in the first training step."""

    def embed(self, ids):
        raise RuntimeError("planted")


@pytest.fixture(
    scope="module",
    params=[pytest.param(n, marks=() if n == "inline" else pytest.mark.slow) for n in EXECUTORS],
)
def executor(request, tmp_path_factory):
    """Every executor in a session of its own, with one slot."""
    opened = Executor(name=request.param, cpus=WHOLE)
    with opened.session(Store(tmp_path_factory.mktemp("session"))) as num_slots:
        assert num_slots == opened.num_slots == 1
        yield opened


def plan(configs: Sequence[TrialConfig]) -> list[PlannedTrial]:
    cells = [Cell(label=str(i), config=config) for i, config in enumerate(configs)]
    trials = [Trial(cell=c, config=c.config, id=trial_id(c.config)) for c in cells]
    return [PlannedTrial(trial=trial, state="missing", price=None) for trial in trials]


def seeds(count: int, **changes: object) -> list[TrialConfig]:
    return [override(SMALL, {"seed": i, "data_seed": i} | changes) for i in range(count)]


def execute(executor: Executor, configs: Sequence[TrialConfig], results) -> list[tuple[str, str]]:
    """The trials, and how they ended, in the order that the executor told."""
    told = list[Outcome]()
    executor.run(plan(configs), Settings(results=str(results)), told.append)
    return [(outcome.trial_id, outcome.status) for outcome in told]


def test_trials_run_in_order_end_once_and_are_stored(executor, tmp_path):
    """The same error twice stops the rest of its cell, and nothing else."""
    broken = {"position.encoding": f"{__name__}:Raising"}
    configs = [*seeds(4, **broken), *seeds(2)]
    told = execute(executor, configs, tmp_path)
    assert [name for name, _ in told] == [trial_id(config) for config in configs]
    assert [status for _, status in told] == ["error", "error", "stopped", "stopped", "ok", "ok"]
    names = {name for name, status in told if status != "stopped"}
    assert {shard.trial_id for shard in Store(tmp_path).shards()} == names
    assert not list((tmp_path / "running").iterdir())
    again = execute(executor, configs[-2:], tmp_path)
    assert [status for _, status in again] == ["done", "done"]
    assert len(Store(tmp_path).shards()) == 4


def test_scratch_folders_of_killed_drivers_go_and_nothing_else(tmp_path, monkeypatch):
    from sweeps.engine.executors.ray_tune import SCRATCH, scratch_folder

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    names = {"killed": f"{SCRATCH}999999999-a", "alive": f"{SCRATCH}{os.getpid()}-a"}
    names |= {"other": "theirs", "odd": f"{SCRATCH}x-a"}
    for name in names.values():
        (tmp_path / name).mkdir()
    (tmp_path / f"{SCRATCH}999999998-a").symlink_to(tmp_path / "nowhere")
    with scratch_folder() as folder:
        assert os.path.isdir(folder)
    left = {entry.name for entry in tmp_path.iterdir() if not entry.is_symlink()}
    assert left == set(names.values()) - {names["killed"]}
