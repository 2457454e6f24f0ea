"""What every executor has to do (`sweeps.engine.executors.base.Executor`), checked of each."""

import os
import pickle
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import pytest

from pcore.config import TrialConfig, override, trial_id
from pcore.encodings import Encoding
from sweeps.engine.executors import EXECUTORS, Executor, Resources
from sweeps.engine.executors.base import Listener
from sweeps.engine.executors.news import TrialReport
from sweeps.engine.executors.worker import (
    Event,
    account_for_missing,
    make_chunks,
    replay,
    run_chunk,
)
from sweeps.engine.options import LaunchOptions
from sweeps.engine.plan import PlannedTrial
from sweeps.engine.spec import Cell, Trial
from sweeps.engine.store.store import Store
from sweeps.engine.trial.attempt import Outcome, Settings
from sweeps.engine.trial.failures import FailurePolicy
from tests.support.sweeps.tiny import CONFIG

SMALL = override(CONFIG, {"optim.num_steps": 20, "data.num_examples": None})
WHOLE = Resources(cpus=float(os.cpu_count() or 1))  # of the machine: trials run one by one


class Raising(Encoding):
    """Fails in the first training step."""

    def embed(self, ids):
        raise RuntimeError("planted")


class Piped(Executor):
    """The least that an executor of other processes does, in this one."""

    is_local, num_slots = True, 1

    @contextmanager
    def session(self, store: Store) -> Generator[int]:
        yield 1

    def run(self, pending, settings, progress) -> None:
        policy = FailurePolicy()

        def send(events: list[Event]) -> None:
            replay(pickle.loads(pickle.dumps(events)), progress)

        for chunk in make_chunks(pending, progress.num_slots):
            parameters = {"chunk": chunk}
            run_chunk(parameters, settings, policy, send)
        account_for_missing(pending, settings, progress)


ALL = EXECUTORS | {"piped": Piped}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(n, marks=() if n in ("inline", "piped") else pytest.mark.slow) for n in ALL
    ],
)
def executor(request, tmp_path_factory):
    """Every executor in a session of its own, with one slot."""
    opened = ALL[request.param](WHOLE)
    with opened.session(Store(tmp_path_factory.mktemp("session"))) as num_slots:
        assert num_slots == opened.num_slots == 1
        yield opened


class Record(Listener):
    """Notes what it is told."""

    num_slots = 1

    def __init__(self):
        self.outcomes, self.events = dict[str, Outcome](), list[tuple[str, str]]()
        self.reports = list[TrialReport]()

    def begin(self, trial_id: str) -> None:
        self.events.append(("begin", trial_id))

    def advanced(self, trial_id: str, report: TrialReport) -> None:
        self.events.append(("report", trial_id))
        self.reports.append(report)

    def finished(self, outcome: Outcome) -> None:
        self.events.append(("end", outcome.trial_id))
        self.outcomes[outcome.trial_id] = outcome

    def say(self, text: str) -> None:
        raise AssertionError(text)

    def idle_seconds(self) -> float:
        return 0.0


def plan(configs: Sequence[TrialConfig]) -> list[PlannedTrial]:
    cells = [Cell(label=str(i), config=config) for i, config in enumerate(configs)]
    trials = [Trial(cell=c, config=c.config, id=trial_id(c.config)) for c in cells]
    return [PlannedTrial(trial=trial, state="missing", price=None) for trial in trials]


def seeds(count: int, **changes: object) -> list[TrialConfig]:
    return [override(SMALL, {"seed": i, "data_seed": i} | changes) for i in range(count)]


def execute(executor: Executor, configs: Sequence[TrialConfig], results, **settings) -> Record:
    record = Record()
    executor.run(plan(configs), Settings(results=str(results), **settings), record)
    return record


def test_trials_begin_in_order_end_once_and_are_stored(executor, tmp_path):
    configs = seeds(3)
    names = [trial_id(config) for config in configs]
    record = execute(executor, configs, tmp_path)
    assert [name for event, name in record.events if event == "begin"] == names
    assert Counter(n for e, n in record.events if e == "end") == dict.fromkeys(names, 1)
    for name in names:
        events = [event for event, n in record.events if n == name]
        assert (events[0], events[-1]) == ("begin", "end")
    assert {outcome.status for outcome in record.outcomes.values()} == {"ok"}
    assert {shard.trial_id for shard in Store(tmp_path).shards()} == set(names)
    assert max(report.step for report in record.reports) == 20
    assert any(report.measured for report in record.reports)


def test_finished_trials_are_not_run_again(executor, tmp_path):
    execute(executor, seeds(2), tmp_path)
    shards = {shard.name for shard in Store(tmp_path).shards()}
    again = execute(executor, seeds(2), tmp_path)
    assert [outcome.status for outcome in again.outcomes.values()] == ["done", "done"]
    assert {shard.name for shard in Store(tmp_path).shards()} == shards


def test_the_same_error_twice_stops_the_rest_of_its_cell_and_nothing_else(executor, tmp_path):
    broken = {"position.encoding": f"{__name__}:Raising"}
    configs = [*seeds(4, **broken), *seeds(1)]
    record = execute(executor, configs, tmp_path)
    statuses = [record.outcomes[trial_id(config)].status for config in configs]
    assert statuses == ["error", "error", "stopped", "stopped", "ok"]
    assert len([event for event, _ in record.events if event == "end"]) == len(configs)
    assert len(Store(tmp_path).shards()) == 3


def test_a_trial_that_took_its_worker_with_it_is_stored_as_lost(tmp_path):
    (config,), record = seeds(1), Record()
    account_for_missing(plan([config]), Settings(results=str(tmp_path)), record)
    (outcome,) = record.outcomes.values()
    assert (outcome.status, outcome.error) == ("lost", "its worker died")


def test_a_listener_that_fails_ends_nothing():
    record, said = Record(), list[str]()
    record.say = said.append
    replay([("begin", "x"), ("finished", None), ("say", "on")], record)
    assert record.events == [("begin", "x")]
    assert said[0].startswith("progress line: AttributeError")
    assert said[1] == "on"


@pytest.mark.parametrize(
    ("name", "hint"), [("rya", "Did you mean 'ray'"), ("k8s", "Known: ray, in")]
)
def test_an_unknown_name_is_refused(name, hint, tmp_path):
    with pytest.raises(ValueError, match=rf"^--executor '{name}' is unknown\. {hint}"):
        LaunchOptions(results=str(tmp_path), scale="smoke", executor=name)
